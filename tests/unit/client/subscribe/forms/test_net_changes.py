"""Net changes: one for each key that differs, the same in every mode that tells the rows before."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from tests.unit.client.subscribe.forms.batches import AT, batch_of
from tests.unit.subscribe.consumer_run import DECODERS, plan_of
from tests.unit.subscribe.topic_histories import TopicHistory, topic_histories
from tidegate.changefeed.definition.options import Format
from tidegate.client.subscribe import NetChange
from tidegate.client.subscribe.forms.batch_columns import BatchColumns
from tidegate.client.subscribe.forms.delivered_batch import DeliveredBatch
from tidegate.errors import InputError
from tidegate.hlc import ZERO, Timestamp
from tidegate.subscribe.gate.row_gate import RowGate
from tidegate.subscribe.subscription import Subscription, SubscriptionSource
from tidegate.subscribe.updates.update import RowValues

LATER = Timestamp(6)
DIFFS, BY_ID = "SUBSCRIBE accounts", "SUBSCRIBE accounts ENVELOPE {} (KEY (id))"


def row(key: int, balance: int, note: str = "") -> dict[str, Any]:
    """A row by its columns' names."""
    return {"id": key, "balance": balance, "note": note}


def test_a_key_that_changes_twice_has_one_change() -> None:
    batch = batch_of(
        DIFFS, *((AT, -1, 1, 10, ""), (AT, 1, 1, 11, ""), (LATER, -1, 1, 11, ""), (LATER, 1, 1, 12, ""))
    )
    assert batch.net_changes() == [NetChange("upsert", (1,), row(1, 10), row(1, 12))]


def test_what_comes_and_goes_within_a_batch_is_no_change() -> None:
    batch = batch_of(DIFFS, (AT, 1, 1, 10, ""), (LATER, -1, 1, 10, ""))
    assert batch.net_changes() == []


def test_two_rows_of_one_key_are_a_violation() -> None:
    batch = batch_of(DIFFS, (AT, 1, 1, 10, "x"), (AT, 1, 2, 10, "x"))
    assert [change.state for change in batch.net_changes()] == ["insert", "insert"]
    assert batch.net_changes(["note"]) == [NetChange("key_violation", ("x",), None, None)]


def test_with_upsert_the_last_row_counts_and_none_is_known_before() -> None:
    statement = BY_ID.format("UPSERT")
    batch = batch_of(
        statement,
        *((AT, "upsert", 1, 10, ""), (AT, "upsert", 2, 20, ""), (LATER, "upsert", 1, 11, "")),
        (LATER, "delete", 2, None, None),
    )
    assert batch.net_changes() == [
        NetChange("upsert", (1,), None, row(1, 11)),
        NetChange("delete", (2,), None, None),
    ]


@pytest.mark.parametrize("envelope", ["UPSERT", "DEBEZIUM"])
def test_a_key_that_was_violated_is_not_trusted_again(envelope: str) -> None:
    nulls = (None, None) * (1 if envelope == "UPSERT" else 2)
    values = (10, "") if envelope == "UPSERT" else (9, "", 10, "")
    batch = batch_of(BY_ID.format(envelope), (AT, "key_violation", 1, *nulls), (LATER, "upsert", 1, *values))
    assert batch.net_changes() == [NetChange("key_violation", (1,), None, None)]


def test_progress_rows_are_no_changes() -> None:
    batch = batch_of("SUBSCRIBE accounts WITH (PROGRESS)", (LATER, True, None, None, None, None))
    assert batch.net_changes() == []


def test_the_primary_key_is_found_behind_another_name_and_only_where_it_is() -> None:
    renamed = batch_of("SUBSCRIBE (SELECT balance AS id, id AS k FROM accounts)", (AT, 1, 10, 1))
    assert renamed.net_changes() == [NetChange("insert", (1,), None, {"id": 10, "k": 1})]
    without = batch_of("SUBSCRIBE (SELECT balance AS id FROM accounts)", (AT, 1, 10))
    with pytest.raises(InputError, match="no primary key"):
        without.net_changes()


def test_a_key_that_the_rows_do_not_have_is_refused() -> None:
    with pytest.raises(InputError, match="no column nope"):
        batch_of(DIFFS).net_changes(["nope"])
    with pytest.raises(InputError, match="by the KEY id, and not by note"):
        batch_of(BY_ID.format("UPSERT")).net_changes(["note"])


def batches(history: TopicHistory, statement: str) -> list[DeliveredBatch]:
    """All batches of a history."""
    plan = plan_of(f"{statement} AS OF 3")
    subscription = Subscription(plan, plan.as_of or ZERO, SubscriptionSource("feed", True))
    gate = RowGate(DECODERS, history.partitions)
    columns, found = BatchColumns.of(plan, Format.JSON), []
    for place, record in history.records:
        gate.add_record(place, record)
        opening = gate.open()
        batch = None if opening is None else subscription.advance(opening, gate.offsets())
        if batch is not None:
            found.append(DeliveredBatch.of(batch, columns))
    return found


@pytest.mark.long
@given(history=topic_histories())
def test_net_changes_turn_the_table_before_a_batch_into_the_one_after(history: TopicHistory) -> None:
    diffs, debezium, upsert = (
        batches(history, text) for text in (DIFFS, BY_ID.format("DEBEZIUM"), BY_ID.format("UPSERT"))
    )
    table: dict[RowValues, Any] = {}
    for batch, other, third in zip(diffs, debezium, upsert, strict=True):
        changes = batch.net_changes()
        assert changes == other.net_changes()
        assert len({change.key for change in changes}) == len(changes)
        told = {change.key: change.after for change in third.net_changes()}
        for change in changes:
            assert table.pop(change.key, None) == change.before
            assert told[change.key] == change.after
            if change.after is not None:
                table[change.key] = change.after
        expected = {
            (values[0],): dict(zip(("id", "balance", "note"), values, strict=True))
            for values in history.rows_at(batch.frontier)
        }
        assert table == expected
