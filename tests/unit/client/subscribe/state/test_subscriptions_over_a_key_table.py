"""A subscription over a key table loses and repeats nothing, whichever step its process ends at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.unit.client.subscribe.state.tables import opened
from tests.unit.subscribe.consumer_run import DECODERS, consume, plan_of
from tests.unit.subscribe.topic_histories import (
    END,
    Commit,
    TopicHistory,
    marker_record,
    record_bytes,
    reread,
    times,
    topic_histories,
)
from tidegate.client.subscribe.state.file_checkpoints import FileCheckpoints
from tidegate.client.subscribe.state.key_table import KeyTable
from tidegate.client.subscribe.state.key_table_options import KeyTableOptions
from tidegate.errors import HistoryLost
from tidegate.hlc import Timestamp
from tidegate.subscribe.client.resume_token import read_token
from tidegate.subscribe.gate.feed_record import FeedPartition, FeedRecord
from tidegate.subscribe.gate.row_gate import GateStart, RowGate
from tidegate.subscribe.plan import SubscribePlan
from tidegate.subscribe.subscription import Subscription, SubscriptionBatch, SubscriptionSource, resumed
from tidegate.subscribe.updates.frontier import ZERO_FRONTIER, frontier_after

#: Which of the next batches a process does not survive, and the step (docs/subscribe.md#checkpoints) behind
#: which it ends. 0: before the rows were written to the key table.
ENDS = st.lists(st.tuples(st.integers(0, 4), st.sampled_from([0, 2, 4, 5])), max_size=4)


class Consumer:
    """Processes one after the other: what outlives them is a directory and the target's rows by token."""

    def __init__(self, history: TopicHistory, plan: SubscribePlan, home: Path) -> None:
        self._history = history
        self._plan = plan
        self._home = home
        self._read = 0
        #: Applying a batch again is the same as once: rows by the frontier of their batch.
        self.applied: dict[Timestamp, tuple[tuple[Any, ...], ...]] = {}

    def run(self, batches: int, step: int) -> None:
        """Read on, and end at a step of a batch, or of the topics."""
        with opened(self._home / "rows") as table:
            held = FileCheckpoints(self._home / "checkpoints").acquire("n")
            subscription, start = self._begun(table, held.token)
            gate = RowGate(DECODERS, self._history.partitions, start)
            read = self._read
            records = list(reread(self._history, read, dict(start.offsets)))
            again = len(records) - (len(self._history.records) - read)
            for count, (place, record) in enumerate(records, 1):
                self._read = max(read, read + count - again)
                gate.add_record(place, record)
                opening = gate.open()
                if opening is None:
                    continue
                ends = batches == 0
                if ends and step == 0:
                    table.replace_all([(version.key, None) for version in opening.versions])
                    return
                batch = subscription.advance(opening, gate.offsets())
                if ends and step == 2:
                    return
                if batch is None:
                    continue
                batches -= 1
                self.applied[batch.frontier] = tuple(batch.rows)
                if batch.token is None or (ends and step == 4):
                    return
                held.commit(str(batch.token))
                if ends:
                    return
                table.settle(batch.frontier)

    def _begun(self, table: KeyTable, token: str | None) -> tuple[Subscription, GateStart]:
        source = SubscriptionSource("feed", tells_before=False, key_rows=table)
        begun = Subscription(self._plan, self._plan.as_of or Timestamp(0), source)
        if token is None:
            table.start_over()
            return begun, GateStart()
        parsed = read_token(token, begun.fingerprint)
        table.go_back_to(parsed.frontier)
        return resumed(self._plan, parsed, source)


@examples(20)
@pytest.mark.parametrize("mode", ["", "ENVELOPE DEBEZIUM (KEY (id))"], ids=["diffs", "debezium"])
@given(history=topic_histories(), as_of=times(), ends=ENDS)
def test_nothing_is_lost_or_repeated(
    tmp_path_factory: pytest.TempPathFactory,
    mode: str,
    history: TopicHistory,
    as_of: Timestamp,
    ends: list[tuple[int, int]],
) -> None:
    plan = plan_of(f"SUBSCRIBE accounts {mode} WITH (PROGRESS) AS OF {as_of}")
    consumer = Consumer(history, plan, tmp_path_factory.mktemp("consumer"))
    for batches, step in ends:
        consumer.run(batches, step)
    consumer.run(1_000, 5)
    rows = [row for _, batch in sorted(consumer.applied.items()) for row in batch if row[1] is False]
    assert rows == consume(history, plan, tells_before=False).rows
    with opened(consumer._home / "rows") as table, table.snapshot() as snapshot:
        assert table.frontier == frontier_after(END)
        found = [row for chunk in snapshot.chunks() for _, row in chunk]
        assert sorted(found, key=repr) == sorted(history.rows_at(table.frontier), key=repr)


PLACE = FeedPartition("accounts", 0)
ROWS = [Commit(Timestamp(5), key, (key, key, "a"), None) for key in range(4)]
#: The ways of rows through a subscription: as they are, and through a query.
STATEMENTS = ("SUBSCRIBE accounts", "SUBSCRIBE (SELECT id, note FROM accounts)")


def read_rows(subscription: Subscription, *marks: int) -> list[SubscriptionBatch]:
    """The batches of ``ROWS`` and markers after them, after each of which the gate is opened."""
    gate = RowGate(DECODERS, [PLACE])
    for offset, commit in enumerate(ROWS):
        gate.add_record(PLACE, FeedRecord(offset, *record_bytes(commit)))
    batches = []
    for offset, wall in enumerate(marks, len(ROWS)):
        gate.add_record(PLACE, marker_record(offset, Timestamp(wall)))
        opening = gate.open()
        assert opening is not None
        batches.append(subscription.advance(opening, gate.offsets()))
    return [batch for batch in batches if batch is not None]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_table_has_no_frontier_before_the_snapshot_has_filled_it(tmp_path: Path, statement: str) -> None:
    """A process that ends before leaves a table that no token can go on with, one below AS OF either."""
    with opened(tmp_path) as table:
        subscription = Subscription(plan_of(statement), Timestamp(9), SubscriptionSource(key_rows=table))
        assert read_rows(subscription, 6, 8) == []
        assert table.frontier == ZERO_FRONTIER
    with opened(tmp_path) as table:
        for wall in (6, 8):
            with pytest.raises(HistoryLost, match="cannot be brought back"):
                table.go_back_to(frontier_after(Timestamp(wall)))
            table.start_over()
        subscription = Subscription(plan_of(statement), Timestamp(9), SubscriptionSource(key_rows=table))
        read_rows(subscription, 6, 8, 10)
        assert (table.frontier, table.row_count) == (frontier_after(Timestamp(10)), len(ROWS))


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_subscription_that_ends_at_its_as_of_leaves_its_table_at_zero(
    tmp_path: Path, statement: str
) -> None:
    with opened(tmp_path) as table:
        plan = plan_of(f"{statement} AS OF 9 UP TO 9")
        (last,) = read_rows(Subscription(plan, Timestamp(9), SubscriptionSource(key_rows=table)), 6, 12)
        assert (last.is_last, last.is_snapshot, last.token) == (True, False, None)
        assert table.frontier == ZERO_FRONTIER


def test_the_rows_of_a_snapshot_leave_memory_before_it_is_complete(tmp_path: Path) -> None:
    options = KeyTableOptions(fill_rows=2, sync=False)
    with opened(tmp_path, options) as table:
        plan = plan_of("SUBSCRIBE (SELECT id, note FROM accounts)")
        subscription = Subscription(plan, Timestamp(9), SubscriptionSource(key_rows=table))
        read_rows(subscription, 6)
        assert len(table._changes) < len(ROWS)
        assert table.frontier == ZERO_FRONTIER
        assert table.replace(b"[1]", None) == (1, 1, "a")
