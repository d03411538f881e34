"""From a store to its subscribers: at every frontier a subscriber's table is the store's as of then.

The processor of the reference engine makes the topics, and a consumer reads their partitions in an order of
its own. Rows come again as they do behind a crash of a worker. The consumer crashes, too.

A feed ``WITH diff`` whose source writes no previous values asks the source for them. Nobody answers here, so
such a feed would have no marker: the feed of a source without previous values is one without ``diff``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.workloads.bank import Bank, BankOptions
from tests.examples import examples
from tests.feeds import WITH_MARKERS, activation
from tests.logs import EVENTFUL_MIX, Record, eventful_store, simulate
from tests.simulation.subscribers import read_in_turns, subscriber_plan
from tests.strategies import SimCase, sim_cases, simulate_case
from tests.unit.subscribe.consumer_run import MODES, by_value, consume
from tests.unit.subscribe.topic_histories import Commit, TopicHistory
from tidegate.changefeed.definition.feed import FeedId, TableName
from tidegate.changefeed.definition.options import Envelope, FeedOptions
from tidegate.changefeed.encoding.json_decoder import JsonDecoder
from tidegate.changefeed.encoding.record import RowRecord
from tidegate.client.expectations import CommittedVersion, expected_versions
from tidegate.client.subscribe.feed_catalog import relation_of
from tidegate.hlc import Timestamp
from tidegate.processor.reference import OutputPartition, ReferenceEngine
from tidegate.rows import Catalog, TableDescriptor, decode_descriptor
from tidegate.subscribe.gate.feed_record import FeedPartition, FeedRecord
from tidegate.subscribe.updates.relation import Relation

_DECODER = JsonDecoder(Envelope.WRAPPED)
_DIFF = replace(WITH_MARKERS, diff=True)
_PARTITIONS = 3
crashes = st.lists(st.floats(0, 1, exclude_max=True), max_size=3)
_modes = pytest.mark.parametrize("mode", MODES, ids=["diffs", "ordered", "upsert", "debezium"])


@pytest.mark.sampled(2)
@_modes
@given(seed=st.integers(0, 2**32), batch=st.sampled_from([1, 7, 50, 10_000]), crash_at=crashes)
@examples(4)
def test_a_subscriber_of_a_bank_whose_ranges_move_sees_the_bank(
    mode: str, seed: int, batch: int, crash_at: list[float]
) -> None:
    bank = Bank(BankOptions(accounts=20, ranges=5, outcomes=EVENTFUL_MIX), seed)
    log = simulate(bank, eventful_store(3), seed=seed, transactions=40)
    course = _Course(log.partitions, log.tables, _DIFF, batch)
    _require_true_states(course, log.history, mode, seed, crash_at)


@_modes
@given(case=sim_cases(max_transactions=30), batch=st.sampled_from([1, 5, 1_000]), crash_at=crashes)
@examples(4)
def test_a_subscriber_of_a_random_store_sees_the_store(
    mode: str, case: SimCase, batch: int, crash_at: list[float]
) -> None:
    outcome = simulate_case(case)
    tables = [decode_descriptor(update.descriptor) for update in outcome.simulation.store.descriptors]
    partitions: list[list[Record]] = [[] for _ in range(case.options.partitions)]
    for record in outcome.records:
        at = partitions[record.partition]
        at.append(Record(len(at), record.key, record.value, record.record_time_ms))
    options = _DIFF if case.options.prev_values else WITH_MARKERS
    course = _Course(partitions, tables, options, batch)
    _require_true_states(course, outcome.history, mode, case.seed, crash_at)


class _Course:
    """A feed on some tables, and the engine that has read the whole log for it."""

    def __init__(
        self,
        partitions: Sequence[Sequence[Record]],
        tables: Iterable[TableDescriptor],
        options: FeedOptions,
        batch: int,
    ) -> None:
        self.tables = tuple(tables)
        self.options = options
        self.engine = ReferenceEngine(
            len(partitions), [activation(self.tables, options, output_partitions=_PARTITIONS)]
        )
        for first in range(0, max(map(len, partitions)), batch):
            for number, records in enumerate(partitions):
                self.engine.step(number, records[first : first + batch])

    def commits(
        self, committed: Sequence[CommittedVersion], table: TableDescriptor, relation: Relation
    ) -> list[Commit]:
        """Return what the store committed, as the rows that a subscription has to show."""
        catalog, found = Catalog(), []
        catalog.add(table)
        for version in expected_versions(committed, catalog, self.options, {table.id: table.name}):
            row = _DECODER.decode(version.key, version.value)
            assert isinstance(row, RowRecord)
            shown = None if row.row is None else tuple(row.row[name] for name in relation.columns)
            key: Any = version.key
            found.append(Commit(version.timestamp, key, shown, None))
        return sorted(found, key=lambda commit: commit.time)

    def history(self, table: TableDescriptor, commits: Sequence[Commit], random: Random) -> TopicHistory:
        """The table's topic, in an order in which a consumer may read its partitions."""
        places = [OutputPartition(table.name, number) for number in range(_PARTITIONS)]
        queues = {
            FeedPartition(*place): _with_repeats(self.engine.output.get(place, ()), random)
            for place in places
        }
        partitions = tuple(queues)
        return TopicHistory(tuple(commits), partitions, tuple(read_in_turns(queues, random)))


def _require_true_states(
    course: _Course, versions: Iterable[CommittedVersion], mode: str, seed: int, crash_at: Sequence[float]
) -> None:
    """Subscribe to each table, and compare every state with what was committed."""
    random, committed = Random(seed), list(versions)
    last = course.engine.high_water(FeedId("feed"))
    for table in course.tables:
        relation = relation_of(TableName.of(table), [table], course.options)
        commits = course.commits(committed, table, relation)
        history = course.history(table, commits, random)
        times = sorted({commit.time for commit in commits})
        as_of = random.choice(times) if times else Timestamp(1)
        target = consume(
            history,
            subscriber_plan(relation, mode, as_of),
            tells_before=course.options.diff and random.random() < 0.5,
            crashes=[int(at * len(history.records)) for at in crash_at],
        )
        for frontier, rows in zip(target.frontiers, target.states, strict=True):
            assert rows == by_value(history.rows_at(frontier)), (table.name, frontier)
        assert not times or last >= times[-1], "the whole history is told"
        if last > as_of:
            assert target.frontiers[-1] == last.next()
            assert target.snapshots == 1


def _with_repeats(emitted: Iterable[Any], random: Random) -> list[FeedRecord]:
    """The records of a partition, some rows of which come again."""
    found: list[FeedRecord] = []
    rows: list[Any] = []
    for record in emitted:
        found.append(FeedRecord(len(found), record.key, record.value))
        rows += [record] if record.key is not None else []
        if rows and random.random() < 0.2:
            again = random.choice(rows)
            found.append(FeedRecord(len(found), again.key, again.value))
    return found
