"""A case of the contract: a log and the feeds on it, independent of all other cases.

Cases are numbered, and their tables, ranges and topics are named by the number. So several cases can share
one log, and an engine has to be started only once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from heapq import merge
from itertools import count
from typing import Final

from tests.contract.engine import Output, Task, run_reference
from tests.feeds import WITH_MARKERS, activation
from tests.hand_log import HandLog, HandRange, HandTable
from tests.logs import Record
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.lifecycle.control import Activate
from tidegate.hlc import ZERO, ResolvedTimestamp, Timestamp
from tidegate.rows import TableDescriptor
from tidegate.spans import Span

PARTITIONS: Final = 3
_RANGES_PER_CASE: Final = 999  # a multiple of PARTITIONS, so that each case's first range is in partition 0
_TABLES_PER_CASE: Final = 10
#: A case with more records than that in a partition is not stepped record by record. Each step writes what it
#: changed, for example ten thousand claims on one range, each time anew.
_LONG: Final = 2_000
_BATCH_OF_LONG: Final = 10


class World(HandLog):
    """The log of one case, with the names that are its own."""

    def __init__(self, number: int) -> None:
        super().__init__(PARTITIONS)
        self.number = number
        self.first_range_id = _RANGES_PER_CASE * (number + 1)
        self._range_ids = count(self.first_range_id)
        self.first_table_id = 1_000 + _TABLES_PER_CASE * number
        self._table_ids = count(self.first_table_id)
        self._feeds: list[Activate] = []

    def table(self, columns: str = "id INT, v STRING", key: str = "id") -> HandTable:
        """Add a table, and describe it to every partition."""
        table_id = next(self._table_ids)
        table = HandTable.of(table_id, f"t{table_id}", columns, key)
        self.describe(table)
        return table

    def range(self, span: Span, **snapshot: object) -> HandRange:
        """Add a range, opened by its first snapshot. The first range is in partition 0, the next in 1, then
        2, 0 ..."""
        return self.open_range(next(self._range_ids), span, **snapshot)

    def feed(
        self,
        *tables: HandTable,
        options: FeedOptions = WITH_MARKERS,
        start: Timestamp = ZERO,
        topics: str = "",
    ) -> None:
        """Add a feed on these tables. The names of its topics begin with ``topics``."""
        self.feed_on((table.descriptor for table in tables), options=options, start=start, topics=topics)

    def feed_on(
        self,
        tables: Iterable[TableDescriptor],
        *,
        options: FeedOptions = WITH_MARKERS,
        start: Timestamp = ZERO,
        topics: str = "",
    ) -> None:
        """Add a feed on the tables of these descriptors."""
        feed_id = f"case{self.number}-feed{len(self._feeds)}"
        options = replace(options, topic_prefix=topics)
        self._feeds.append(activation(tables, options, start=start, feed_id=feed_id))

    def run(self, feeds: Iterable[Activate]) -> None:
        """Add feeds that are defined elsewhere. Their ids and topics must be this case's own."""
        self._feeds += feeds

    def add(self, log: Iterable[Iterable[Record]]) -> None:
        """Append finished records, partition by partition."""
        for partition, records in enumerate(log):
            for record in records:
                self.write_bytes(partition, record.key, record.value, record.timestamp)

    @property
    def feeds(self) -> tuple[Activate, ...]:
        """The feeds asked for."""
        return tuple(self._feeds)


def topics_of(feed: Activate) -> list[str]:
    """The topics of a feed's rows, and that of its markers where it has one."""
    aside = feed.definition.options.resolved_topic
    return [target.topic for target in feed.targets] + ([aside] if aside else [])


@dataclass(frozen=True, slots=True)
class Case:
    """A case as it is written down. It is ``alone`` if it would disturb other cases on the same log."""

    name: str
    build: Callable[[World], None]
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Expected:
    """The result of a case by the reference engine: its records, and how far each feed came."""

    output: Output
    high_waters: Mapping[FeedId, ResolvedTimestamp]

    def high_water(self, feed_id: FeedId) -> ResolvedTimestamp:
        """The timestamp up to which the feed is complete."""
        return self.high_waters[feed_id]


@dataclass(frozen=True, slots=True)
class BuiltCase:
    """A case with its log and feeds. It has only plain values, so that one process can write it to a file for
    others."""

    name: str
    alone: bool
    log: tuple[tuple[Record, ...], ...]
    feeds: tuple[Activate, ...]
    reference: Expected

    @property
    def topics(self) -> frozenset[str]:
        """The topics of its feeds."""
        return frozenset(topic for feed in self.feeds for topic in topics_of(feed))


def build(case: Case, number: int) -> BuiltCase:
    """Build a case, and run it by itself on the reference engine: every engine has to give the same."""
    world = World(number)
    case.build(world)
    # One record at a time: an engine must not depend on how the log is cut into batches.
    is_long = max(map(len, world.partitions)) > _LONG
    reference = run_reference(world.partitions, world.feeds, batch=_BATCH_OF_LONG if is_long else 1)
    high_waters = {feed.feed_id: reference.high_water(feed.feed_id) for feed in world.feeds}
    expected = Expected(dict(reference.output), high_waters)
    return BuiltCase(case.name, case.alone, world.partitions, world.feeds, expected)


def merged(cases: Iterable[BuiltCase]) -> Task:
    """All cases on one log, their records interleaved by record time."""
    cases = list(cases)
    log = tuple(
        tuple(_renumbered(merge(*(case.log[number] for case in cases), key=lambda record: record.timestamp)))
        for number in range(PARTITIONS)
    )
    feeds = tuple(feed for case in cases for feed in case.feeds)
    finals = {feed.feed_id: case.reference.high_water(feed.feed_id) for case in cases for feed in case.feeds}
    return Task(log, feeds, finals)


def _renumbered(records: Iterable[Record]) -> Iterator[Record]:
    for offset, record in enumerate(records):
        yield record._replace(offset=offset)
