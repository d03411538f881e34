"""A subscription: tokens it gives and does not give, and errors that stay."""

from __future__ import annotations

import pytest

from tests.unit.subscribe.consumer_run import DECODERS, plan_of
from tests.unit.subscribe.topic_histories import Commit, marker_record, record_bytes
from tidegate.errors import (
    EvaluationError,
    HistoryLost,
    SchemaMismatch,
    SubscribeStatementError,
    UnreadableRow,
)
from tidegate.hlc import Timestamp
from tidegate.subscribe.changes.key_rows import MemoryKeyRows
from tidegate.subscribe.client.resume_token import ResumeToken
from tidegate.subscribe.gate.feed_record import FeedPartition, FeedRecord
from tidegate.subscribe.gate.row_gate import RowGate
from tidegate.subscribe.subscription import Subscription, SubscriptionBatch, SubscriptionSource, resumed
from tidegate.subscribe.updates.frontier import Frontier

PLACE = FeedPartition("accounts", 0)
TELLS = SubscriptionSource(tells_before=True)


def batches(subscription: Subscription, commits: list[Commit], marks: list[int]) -> list[SubscriptionBatch]:
    """The batches of rows, and of markers after each of which the gate is opened."""
    gate = RowGate(DECODERS, [PLACE])
    for offset, commit in enumerate(commits):
        gate.add_record(PLACE, FeedRecord(offset, *record_bytes(commit)))
    found = []
    for offset, wall in enumerate(marks, len(commits)):
        gate.add_record(PLACE, marker_record(offset, Timestamp(wall)))
        opening = gate.open()
        if opening is not None:
            batch = subscription.advance(opening, gate.offsets())
            found += [] if batch is None else [batch]
    return found


ROWS = [Commit(Timestamp(5), 1, (1, 7, "a"), None), Commit(Timestamp(8), 1, (1, 0, "b"), (1, 7, "a"))]


def test_the_snapshot_is_the_first_batch_beyond_as_of_and_has_a_token() -> None:
    subscription = Subscription(plan_of("SUBSCRIBE accounts"), Timestamp(6), TELLS)
    first, second = batches(subscription, ROWS, [3, 5, 6, 9])
    assert first.rows == ((Timestamp(6), 1, 1, 7, "a"),)
    assert (first.is_snapshot, second.is_snapshot) == (True, False)
    assert first.token == ResumeToken(Frontier(Timestamp(6, 1)), subscription.fingerprint, {PLACE: 1})


def test_a_relation_of_first_rows_has_no_token() -> None:
    plan = plan_of("SUBSCRIBE (SELECT * FROM accounts ORDER BY id LIMIT 1)")
    assert [batch.token for batch in batches(Subscription(plan, Timestamp(6), TELLS), ROWS, [9])] == [None]


@pytest.mark.parametrize(
    "statement", ["SUBSCRIBE accounts", "SUBSCRIBE (SELECT note FROM accounts ORDER BY note LIMIT 3)"]
)
def test_json_that_is_too_deep_to_be_compared_is_an_unreadable_row(statement: str) -> None:
    deep = "[" * 600 + "]" * 600  # which can be decoded
    gate = RowGate(DECODERS, [PLACE])
    for offset, key in enumerate((1, 2)):
        value = f'{{"after": {{"id": 1, "balance": 1, "note": {deep}}}, "updated": "5.0000000000"}}'
        gate.add_record(PLACE, FeedRecord(offset, b"[%d]" % key, value.encode()))
    gate.add_record(PLACE, marker_record(2, Timestamp(9)))
    opening = gate.open()
    assert opening is not None
    subscription = Subscription(plan_of(statement), Timestamp(3), TELLS)
    for _ in range(2):
        with pytest.raises(UnreadableRow, match=r"row of accounts below 9\.0000000001 is nested too deeply"):
            subscription.advance(opening, gate.offsets())


def test_an_error_comes_again_with_every_call() -> None:
    subscription = Subscription(plan_of("SUBSCRIBE (SELECT 1 / balance FROM accounts)"), Timestamp(6), TELLS)
    with pytest.raises(EvaluationError, match="division by zero") as first:
        batches(subscription, ROWS, [9])
    with pytest.raises(EvaluationError) as again:
        batches(subscription, [], [20])
    assert first.value is again.value


def test_a_damaged_row_ends_the_subscription_for_good() -> None:
    gate = RowGate(DECODERS, [PLACE])
    gate.add_record(PLACE, FeedRecord(0, b"[1]", b'{"after": {, "updated": "7.0000000000"}'))
    gate.add_record(PLACE, marker_record(1, Timestamp(9)))
    damaged = gate.open()
    gate.add_record(PLACE, marker_record(2, Timestamp(20)))
    later = gate.open()
    subscription = Subscription(plan_of("SUBSCRIBE accounts"), Timestamp(6), TELLS)
    for opening in (damaged, later):
        assert opening is not None
        with pytest.raises(UnreadableRow, match=r"offset 0 of accounts\[0\]"):
            subscription.advance(opening, gate.offsets())


@pytest.mark.parametrize(("between", "joins"), [(b", ", b""), (b"", b", ")])
def test_values_that_fit_together_like_others_are_refused(between: bytes, joins: bytes) -> None:
    """Three damaged values that are three good ones if they are read as one array, or as lines of a text."""
    row = b'{"after": {"id": 1, "balance": 666, "note": null}, "updated": "7.0000000000"}'
    values = (
        row + between + row,
        b'{"after": null, "more": [{"updated": "8.0000000000"}',
        joins + b'{}], "updated": "9.0000000000"}',
    )
    gate = RowGate(DECODERS, [PLACE])
    for offset, value in enumerate(values):
        gate.add_record(PLACE, FeedRecord(offset, b"[%d]" % offset, value))
    gate.add_record(PLACE, marker_record(3, Timestamp(10)))
    opening = gate.open()
    assert opening is not None
    assert len(opening.rows) == 3
    with pytest.raises(UnreadableRow, match="offset 0"):
        Subscription(plan_of("SUBSCRIBE accounts"), Timestamp(6), TELLS).advance(opening, {})


def test_a_number_and_a_truth_value_are_two_rows() -> None:
    commits = [
        Commit(Timestamp(5), 1, (1, 1, None), None),
        Commit(Timestamp(8), 1, (1, True, None), (1, 1, None)),
    ]
    subscription = Subscription(plan_of("SUBSCRIBE accounts"), Timestamp(6), TELLS)
    _, change = batches(subscription, commits, [7, 9])
    assert [row[1:] for row in change.rows] == [(-1, 1, 1, None), (1, 1, True, None)]


def test_another_schema_ends_the_subscription() -> None:
    value = b'{"after": {"id": 1, "balance": 2}, "updated": "5.0000000000"}'
    gate = RowGate(DECODERS, [PLACE])
    gate.add_record(PLACE, FeedRecord(0, b"[1]", value))
    gate.add_record(PLACE, marker_record(1, Timestamp(9)))
    opening = gate.open()
    assert opening is not None
    with pytest.raises(SchemaMismatch, match="missing columns: note"):
        Subscription(plan_of("SUBSCRIBE accounts"), Timestamp(6), TELLS).advance(opening, {})


def test_a_token_beyond_up_to_is_refused() -> None:
    token = ResumeToken(Frontier(Timestamp(9)), "f")
    resumed(plan_of("SUBSCRIBE accounts UP TO 9"), token, TELLS)
    with pytest.raises(SubscribeStatementError, match="bound is beyond its upper") as caught:
        resumed(plan_of("SUBSCRIBE accounts UP TO 8"), token, TELLS)
    assert caught.value.code == "bounds_crossed"


def test_rows_by_key_of_another_time_than_the_token_are_refused() -> None:
    plan = plan_of("SUBSCRIBE accounts")
    token = ResumeToken(Frontier(Timestamp(9)), "f")
    rows = MemoryKeyRows()
    rows.close_at(Frontier(Timestamp(8)))
    for source in (None, SubscriptionSource(key_rows=rows)):
        with pytest.raises(HistoryLost, match="Begin again with a snapshot"):
            resumed(plan, token, source)
    rows.close_at(Frontier(Timestamp(9)))
    resumed(plan, token, SubscriptionSource(key_rows=rows))
