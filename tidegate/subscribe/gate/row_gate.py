"""The gate itself: lets row versions through once all partitions of all topics are complete up to them.

1. A row is told by its timestamp when it arrives: at or below what was delivered it is a repeat, and dropped;
   at or below its own partition's marker it is sorted in; above it waits as bytes.
2. A marker ends its partition's segment. The *minimum* is the lowest marker of all partitions.
3. When the minimum rises to M, the rows at or below M are decoded, sorted by timestamp, topic and key, and
   exact copies are dropped. Everything up to M is complete: the frontier is ``M.next()``.

The rule of step 1 is that of TiCDC's reference consumer: dropping rows by a higher watermark lost data there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from tidegate.changefeed.encoding.record import RecordDecoder
from tidegate.errors import MarkerFell, UnreadableRow
from tidegate.hlc import ZERO, Timestamp
from tidegate.subscribe.gate.feed_record import FeedPartition, FeedRecord, RowVersion
from tidegate.subscribe.gate.recent_versions import VERSIONS_KEPT, RecentVersions, require_copy
from tidegate.subscribe.gate.version_reader import VersionReader
from tidegate.subscribe.gate.waiting_rows import WaitingRows
from tidegate.subscribe.updates.first_error import FirstError
from tidegate.subscribe.updates.frontier import Frontier, frontier_after


@dataclass(frozen=True, slots=True)
class GateOpening:
    """What a rise of the minimum lets through: all versions below ``frontier`` that were not delivered
    yet."""

    frontier: Frontier
    versions: tuple[RowVersion, ...]


@dataclass(frozen=True, slots=True)
class GateStart:
    """Where a gate begins: above ``delivered``, and at these offsets; a partition that has none begins at
    0."""

    delivered: Timestamp = ZERO
    offsets: Mapping[FeedPartition, int] = field(default_factory=dict)


class RowGate:
    """Takes the records of all partitions of a feed's topics, in offset order within each partition.

    Attributes:
        delivered: everything at or below it was let through.
        repeats: how many rows were dropped because they came before.
    """

    __slots__ = ("_first_error", "_reader", "_recent", "_waits", "delivered", "repeats")

    def __init__(
        self,
        decoders: Mapping[str, RecordDecoder],
        partitions: Iterable[FeedPartition],
        start: GateStart | None = None,
        versions_kept: int = VERSIONS_KEPT,
    ) -> None:
        """``decoders`` by topic; ``partitions`` are all that rows stand in. ``ValueError`` for no
        partitions."""
        start = start or GateStart()
        self._reader = VersionReader(decoders)
        self.delivered = start.delivered
        self.repeats = 0
        self._first_error = FirstError()
        self._recent = RecentVersions(start.delivered, versions_kept)
        self._waits = {
            place: WaitingRows(
                partial(self._reader.version, place), start.delivered, start.offsets.get(place, 0)
            )
            for place in partitions
        }
        if not self._waits:
            raise ValueError("a gate without partitions would never open")

    @property
    def waiting_rows(self) -> int:
        """How many rows wait."""
        return sum(map(len, self._waits.values()))

    def take(self, place: FeedPartition, record: FeedRecord) -> None:
        """Take a record; one below an offset that was read already is passed over.

        Raises ``PromiseBroken`` and ``UnreadableRow`` with topic, partition and offset; each later call
        raises the same.
        """
        with self._first_error:
            self._take(place, record, self._wait_of(place))

    def take_all(self, place: FeedPartition, records: Iterable[FeedRecord]) -> None:
        """Take several records of one partition: see ``take``."""
        with self._first_error:
            wait = self._wait_of(place)
            for record in records:
                self._take(place, record, wait)

    def _take(self, place: FeedPartition, record: FeedRecord, wait: WaitingRows) -> None:
        if record.offset < wait.next_offset:
            return
        wait.next_offset = record.offset + 1
        if record.key is None:
            self._mark(place, self._reader.marker(place, record).resolved, record.offset)
            wait.stand_at_marker(record.offset)
        elif not self._reader.is_tombstone(place, record):
            self._take_row(place, record, wait)

    @property
    def minimum(self) -> Timestamp:
        """The lowest marker of all partitions, or where the gate began if that is higher."""
        return min(wait.bound for wait in self._waits.values())

    def waiting_of(self, place: FeedPartition) -> int:
        """How many rows of a partition wait."""
        return len(self._wait_of(place))

    def is_ahead(self, place: FeedPartition) -> bool:
        """Whether other partitions hold this one's rows back: its marker is above the minimum."""
        return self._wait_of(place).bound > self.minimum

    def mark(self, place: FeedPartition, resolved: Timestamp, offset: int) -> None:
        """Take a marker for a partition; ``offset`` is where it stands. Raises ``MarkerFell``."""
        with self._first_error:
            self._mark(place, resolved, offset)

    def _mark(self, place: FeedPartition, resolved: Timestamp, offset: int) -> None:
        wait = self._wait_of(place)
        if resolved < wait.marker:
            raise MarkerFell(
                f"The marker at offset {offset} for {place} says {resolved}, one before it {wait.marker}: "
                "another feed has written to the topic, or the promise is broken. The subscription ends; "
                "`tidegate verify` tells more",
                place.topic,
                place.partition,
                offset,
            )
        wait.pass_marker(resolved)

    def open(self) -> GateOpening | None:
        """What is complete since the last time; ``None`` where the minimum did not rise.

        Raises ``RepeatDiffers``, and ``UnreadableRow`` for a row that waited and cannot be decoded.
        """
        with self._first_error:
            return self._open()

    def _open(self) -> GateOpening | None:
        minimum = self.minimum
        if minimum <= self.delivered:
            return None
        found = [version for wait in self._waits.values() for version in wait.take_up_to(minimum)]
        found.sort()
        versions = self._without_copies(found)
        self._recent.add(versions)
        self.delivered = minimum
        return GateOpening(frontier_after(minimum), tuple(versions))

    def offsets(self) -> dict[FeedPartition, int]:
        """Where to read each partition from, to have all that is above ``delivered`` again."""
        return {place: wait.first_offset(self.delivered) for place, wait in self._waits.items()}

    def next_offset(self, place: FeedPartition) -> int:
        """The offset behind the last record of a partition that was taken."""
        return self._wait_of(place).next_offset

    def _take_row(self, place: FeedPartition, record: FeedRecord, wait: WaitingRows) -> None:
        updated = self._reader.updated(place, record)
        if updated is not None and updated > wait.bound:
            wait.add(record)
            return
        version = self._reader.version(place, record)
        if version.updated > wait.bound:
            wait.add(version)
        elif version.updated > self.delivered:
            wait.add_below_bound(version)
        else:
            self._recent.require_repeat(version, self.delivered)
            self.repeats += 1

    def _without_copies(self, versions: list[RowVersion]) -> list[RowVersion]:
        kept: list[RowVersion] = []
        for version in versions:
            if kept and kept[-1].identity == version.identity:
                require_copy(version, kept[-1].digest)
                self.repeats += 1
            else:
                kept.append(version)
        return kept

    def _wait_of(self, place: FeedPartition) -> WaitingRows:
        wait = self._waits.get(place)
        if wait is None:
            raise UnreadableRow(
                f"{place} is no partition of the feed: its topic was created anew with other partitions. "
                "Begin a new subscription",
                place.topic,
                place.partition,
            )
        return wait
