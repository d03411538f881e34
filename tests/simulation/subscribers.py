"""Subscribers of topics, compared with the store: at every frontier their table has to be the store's table
as of then.

The partitions of a topic are read in an order of their own, and the consumer crashes. Each mode is consumed
as rows and as Arrow tables, with the types that the table has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from tests.simulation.judge import read_output
from tests.simulation.kafka import Broker
from tests.simulation.registry import Registry
from tests.unit.subscribe.consumer_run import MODES, Target, by_value, consume
from tests.unit.subscribe.topic_histories import Commit, TopicHistory
from tidegate.changefeed.definition.feed import FeedState, FeedTarget
from tidegate.changefeed.definition.options import FeedOptions, InitialScan
from tidegate.changefeed.encoding.envelopes.registry import tells_previous
from tidegate.changefeed.encoding.record import RecordDecoder, RowRecord
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.client.expectations import CommittedVersion, expected_versions
from tidegate.client.subscribe.feed_catalog import relation_of
from tidegate.client.subscribe.forms.batch_columns import BatchColumns
from tidegate.client.subscribe.forms.delivered_batch import DeliveredBatch
from tidegate.client.subscribe.readable_feed import subscribing_fault
from tidegate.errors import RowError
from tidegate.hlc import ZERO, Timestamp, parse_decimal
from tidegate.raftlog.entry import DescriptorUpdate
from tidegate.rows import Catalog, decode_descriptor
from tidegate.subscribe.client.consumer_state import ConsumerState
from tidegate.subscribe.client.table_contents import TableContents
from tidegate.subscribe.gate.feed_record import FeedPartition, FeedRecord
from tidegate.subscribe.plan import SubscribePlan, plan_subscribe
from tidegate.subscribe.query.column_values import unordered_kind
from tidegate.subscribe.statement.parser import parse_subscribe
from tidegate.subscribe.updates.frontier import Frontier
from tidegate.subscribe.updates.relation import Relation, Relations
from tidegate.subscribe.updates.update import RowValues

_CRASHES: Final = 3
_READ_AT_ONCE: Final = 4


@dataclass(frozen=True, slots=True)
class WatchedTopic:
    """A table's topic, and the contents that it has to have.

    Attributes:
        relation: the table, with its columns' types.
        options: those of the feed.
        decoder: decodes its records.
        history: what was committed, and the records in the order in which they are read.
        start: the lowest AS OF that has a snapshot.
    """

    relation: Relation
    options: FeedOptions
    decoder: RecordDecoder
    history: TopicHistory
    start: Timestamp

    def faults(self, mode: str, random: Random) -> Iterator[str]:
        """Subscribe in a mode, and yield a sentence for each difference from what was committed, in rows and
        in Arrow tables."""
        times = sorted({each.time for each in self.history.commits})
        as_of = random.choice([self.start, *times])
        plan = subscriber_plan(self.relation, mode, as_of)
        target = consume(
            self.history,
            plan,
            tells_before=tells_previous(self.options) and random.random() < 0.5,
            crashes=self._crashes(random),
            decoder=self.decoder,
        )
        name = f"SUBSCRIBE {self.relation.name} {mode} AS OF {as_of}"
        yield from (f"{name}: {fault}" for fault in self._faults_of_rows(target, max(times, default=ZERO)))
        columns = BatchColumns.of(plan, self.options.format)
        yield from (f"{name}, Arrow: {fault}" for fault in self._faults_of_arrow(target, columns, as_of))

    def _crashes(self, random: Random) -> list[int]:
        count = len(self.history.records)
        return [random.randrange(count) for _ in range(random.randint(0, _CRASHES))] if count else []

    def _faults_of_rows(self, target: Target, last: Timestamp) -> Iterator[str]:
        frontiers = target.frontiers
        if frontiers != sorted({*frontiers}):
            yield f"frontiers fall, or come again: {frontiers}"
        if not frontiers or frontiers[-1] <= last or target.snapshots != 1:
            yield f"{target.snapshots} snapshots, and frontiers up to {frontiers[-1:]}; the store has {last}"
        for frontier, rows in zip(frontiers, target.states, strict=True):
            if rows != (expected := by_value(self.history.rows_at(frontier))):
                yield f"below {frontier} are {rows}, and not {expected}"
                return

    def _faults_of_arrow(self, target: Target, columns: BatchColumns, as_of: Timestamp) -> Iterator[str]:
        plain = BatchColumns.of(subscriber_plan(self.relation, "", ZERO), columns.format)
        as_text = self._unfit(plain)
        told_as_text = [
            name
            for name in columns.header[columns.own :]
            if name.removeprefix("before_").removeprefix("after_") in as_text
        ]
        state, schemas = ConsumerState(columns.header), set()
        contents = TableContents(len(columns.shape.key), len(columns.shape.rest))
        state.push((as_of, True, *[None] * (len(columns.header) - 2)))
        for batch in target.batches:
            table = DeliveredBatch.of(batch, columns).arrow(told_as_text)
            schemas.add(str(table.schema))
            for time, *told in _python_rows(table):
                released = state.push((parse_decimal(str(time)), *told))
                if released is None:
                    continue
                contents.fold(released)
                expected = _as_arrow(self.history.rows_at(batch.frontier), plain, as_text)
                if contents.rows() != by_value(expected):
                    yield f"below {batch.frontier} are {contents.rows()}, and not {expected}"
                    return
        if len(schemas) != 1:
            yield f"there are {len(schemas)} schemas: {schemas}"

    def _unfit(self, plain: BatchColumns) -> list[str]:
        """Return the columns with a value that Arrow's type for the column cannot hold: these columns are
        read as text."""
        rows = [each.row for each in self.history.commits if each.row is not None]
        names, found = self.relation.columns, []
        for name in names:
            try:
                _as_arrow(rows, plain, [other for other in names if other != name])
            except RowError:
                found.append(name)
        return found


def subscriber_plan(relation: Relation, mode: str, as_of: Timestamp) -> SubscribePlan:
    """Return the plan of a statement whose mode is written as in `consumer_run` for its table."""
    key = ", ".join(f'"{name}"' for name in relation.primary_key)
    types = relation.known_types or (None,) * len(relation.columns)
    ordered = [
        name for name, each in zip(relation.columns, types, strict=True) if unordered_kind(each) is None
    ]
    order = ["mz_diff", *ordered][-1]
    mode = mode.replace("(id)", f"({key})").replace("balance", f'"{order}"')
    text = f"SUBSCRIBE {relation.name} {mode} WITH (PROGRESS) AS OF {as_of}"
    return plan_subscribe(parse_subscribe(text), Relations([relation]), now_ns=0)


def feed_faults(
    broker: Broker,
    registry: Registry,
    feed: FeedView,
    history: Iterable[CommittedVersion],
    descriptors: Iterable[DescriptorUpdate],
    random: Random,
) -> Iterator[tuple[str, list[str]]]:
    """Subscribe to each table of a feed that has a snapshot, in each mode; yield the mode and its faults."""
    state, definition = feed.current_state, feed.definition
    if state is None or state.start is None or state.state is not FeedState.RUNNING or definition is None:
        return
    options = definition.options
    scans = options.initial_scan is InitialScan.YES
    if subscribing_fault(options) or not scans or options.resolved_topic:
        return
    catalog = Catalog()
    for update in descriptors:
        catalog.add(decode_descriptor(update.descriptor))
    topics = {target.table_id: target.topic for target in state.targets}
    output = read_output(broker, registry, feed)
    expected = defaultdict(list)
    for version in expected_versions(history, catalog, options, topics, registry.id_of, start=state.start):
        expected[version.topic].append(version)
    for target in state.targets:
        versions = [each for each in catalog.descriptors() if each.id == target.table_id]
        versions.sort(key=lambda each: each.version)
        relation = relation_of(target.table, versions, options)
        commits = []
        for version in expected[target.topic]:
            row = output.decoder.decode(version.key, version.value, version.headers)
            assert isinstance(row, RowRecord)
            shown = None if row.row is None else tuple(map(row.row.get, relation.columns))
            key: Any = version.key
            commits.append(Commit(version.scanned_at or version.timestamp, key, shown, None))
        commits.sort(key=lambda commit: commit.time)
        watched = WatchedTopic(
            relation, options, output.decoder, _history(broker, target, commits, random), state.start
        )
        for mode in MODES:
            yield mode, [f"feed {definition.id}: {fault}" for fault in watched.faults(mode, random)]


def _history(broker: Broker, target: FeedTarget, commits: Sequence[Commit], random: Random) -> TopicHistory:
    queues: dict[FeedPartition, list[FeedRecord]] = {
        FeedPartition(target.topic, number): [] for number in range(target.partitions)
    }
    for place, entry in broker.committed(target.topic):
        assert entry.record is not None
        queues[FeedPartition(target.topic, place.number)].append(
            FeedRecord(entry.offset, entry.key, entry.value, entry.record.headers)
        )
    return TopicHistory(tuple(commits), tuple(queues), tuple(read_in_turns(queues, random)))


def read_in_turns(
    queues: dict[FeedPartition, list[FeedRecord]], random: Random
) -> Iterator[tuple[FeedPartition, FeedRecord]]:
    """Yield the records of partitions in an order in which a consumer may read them."""
    while left := [place for place, queue in queues.items() if queue]:
        place = random.choice(left)
        count = random.randint(1, _READ_AT_ONCE)
        yield from ((place, record) for record in queues[place][:count])
        del queues[place][:count]


def _as_arrow(rows: Sequence[RowValues], plain: BatchColumns, as_text: Sequence[str]) -> list[RowValues]:
    """Return a table's rows as Arrow gives them back."""
    told = tuple((ZERO, False, 1, *row) for row in rows)
    table = DeliveredBatch(Frontier(ZERO), told, False, None, False, plain).arrow(as_text)
    return [row[plain.own :] for row in _python_rows(table)]


def _python_rows(table: Any) -> list[RowValues]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
