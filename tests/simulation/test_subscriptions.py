"""From a random store to a subscriber's table: at every frontier it is the table that the store held.

Ranges split and merge, rows come again as after the death of a worker, and the subscriber dies as well.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from random import Random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.e2e.true_states import TrueStates
from tests.examples import examples
from tests.feeds import activation
from tests.logs import Record
from tests.strategies import SimCase, sim_cases, simulate_case
from tests.unit.subscribe.consumer_run import consume
from tests.unit.subscribe.topic_histories import TopicHistory
from tidegate.changefeed.definition.feed import TableName
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.client.expectations import expected_versions
from tidegate.client.subscribe.feed_catalog import relation_of
from tidegate.processor.reference import Emitted, OutputPartition, ReferenceEngine
from tidegate.rows import Catalog, TableDescriptor, decode_descriptor
from tidegate.subscribe.gate.feed_record import FeedPartition, FeedRecord
from tidegate.subscribe.plan import plan_subscribe
from tidegate.subscribe.statement.parser import parse_subscribe
from tidegate.subscribe.updates.relation import Relations
from tidegate.verify import ExpectedVersion

OPTIONS = FeedOptions(updated=True, diff=True, resolved_interval_ns=0)
MODES = {
    "diffs": "",
    "ordered": "WITHIN TIMESTAMP ORDER BY mz_diff DESC",
    "upsert": "ENVELOPE UPSERT (KEY ({key}))",
    "debezium": "ENVELOPE DEBEZIUM (KEY ({key}))",
}


class _Fed:
    """A store's history, and the topics that a feed wrote of it."""

    def __init__(self, case: SimCase, batch: int) -> None:
        # A feed WITH diff ends at a range whose log does not tell the values before.
        case = replace(case, options=replace(case.options, prev_values=True))
        outcome = simulate_case(case)
        descriptors = [
            decode_descriptor(update.descriptor) for update in outcome.simulation.store.descriptors
        ]
        self.tables: dict[int, list[TableDescriptor]] = defaultdict(list)
        catalog = Catalog()
        for table in descriptors:
            catalog.add(table)
            self.tables[table.id].append(table)
        logs: list[list[Record]] = [[] for _ in range(case.options.partitions)]
        for record in outcome.records:
            log = logs[record.partition]
            log.append(Record(len(log), record.key, record.value, record.record_time_ms))
        feed = activation([versions[-1] for versions in self.tables.values()], OPTIONS)
        engine = ReferenceEngine(len(logs), [feed])
        for first in range(0, max(map(len, logs)), batch):
            for number, records in enumerate(logs):
                engine.step(number, records[first : first + batch])
        assert not engine.incidents
        self.output = engine.output
        self.topics = {target.table_id: target.topic for target in feed.targets}
        self.partitions = {target.topic: target.partitions for target in feed.targets}
        self.times = sorted({version.timestamp for version in outcome.history})
        self.expected: list[ExpectedVersion] = list(
            expected_versions(outcome.history, catalog, OPTIONS, self.topics)
        )

    def history(self, topic: str, random: Random) -> TopicHistory:
        """One topic's records in the order in which a consumer happens to read them; some rows come again."""
        places = tuple(FeedPartition(topic, number) for number in range(self.partitions[topic]))
        queues = {place: _with_repeats(self.output[OutputPartition(*place)], random) for place in places}
        records = []
        while left := [place for place in places if queues[place]]:
            place = random.choice(left)
            count = random.randint(1, 8)
            records += [(place, record) for record in queues[place][:count]]
            del queues[place][:count]
        return TopicHistory((), places, tuple(records))


def _with_repeats(emitted: list[Emitted], random: Random) -> list[FeedRecord]:
    written: list[tuple[bytes | None, bytes | None]] = []
    for at, record in enumerate(emitted):
        written.append((record.key, record.value))
        if random.random() < 0.05:  # a worker died here: its successor writes the last rows again
            again = emitted[random.randint(0, at) : at + 1]
            written += [(each.key, each.value) for each in again if each.key is not None]
    return [FeedRecord(offset, key, value) for offset, (key, value) in enumerate(written)]


@pytest.mark.parametrize("tells_before", [True, False], ids=["before-in-record", "key-rows"])
@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
@given(
    case=sim_cases(max_transactions=20, splits=True),
    batch=st.sampled_from([1, 5, 1_000]),
    as_of=st.floats(0, 1),
    crash_at=st.lists(st.floats(0, 1, exclude_max=True), max_size=3),
    seed=st.integers(0, 2**32),
)
@examples(3)
def test_every_state_of_a_subscriber_is_the_history_as_of_its_frontier(
    mode: str,
    tells_before: bool,
    case: SimCase,
    batch: int,
    as_of: float,
    crash_at: list[float],
    seed: int,
) -> None:
    fed, random = _Fed(case, batch), Random(seed)
    assume(fed.times)
    start = fed.times[int(as_of * (len(fed.times) - 1))]
    for table_id, topic in fed.topics.items():
        versions = fed.tables[table_id]
        relation = relation_of(TableName.of(versions[-1]), versions, OPTIONS)
        key = ", ".join(f'"{name}"' for name in relation.primary_key)
        text = f'SUBSCRIBE "{relation.name.name}" {mode.format(key=key)} WITH (PROGRESS) AS OF {start}'
        plan = plan_subscribe(parse_subscribe(text), Relations([relation]), now_ns=0)
        history = fed.history(topic, random)
        crashes = [int(at * len(history.records)) for at in crash_at]
        target = consume(history, plan, tells_before=tells_before, crashes=crashes)
        truth = TrueStates(fed.expected, topic)
        columns = relation.columns
        if mode.startswith("ENVELOPE"):
            rest = [name for name in columns if name not in relation.primary_key]
            columns = (*relation.primary_key, *rest)
        for frontier, rows in zip(target.frontiers, target.states, strict=True):
            assert rows == truth.rows(frontier, columns)
        assert target.frontiers == sorted(set(target.frontiers))
        assert target.frontiers[-1] > fed.times[-1]
        assert target.rows == consume(history, plan, tells_before=tells_before).rows
