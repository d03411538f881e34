"""The fold of a subscription's rows."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.errors import ProtocolError
from tidegate.hlc import Timestamp
from tidegate.subscribe.client.consumer_state import ReleasedBatch
from tidegate.subscribe.client.received_row import ReceivedRow
from tidegate.subscribe.client.table_contents import TableContents
from tidegate.subscribe.updates.frontier import Frontier


def batch(*rows: tuple[int, int | str, tuple[Any, ...]], is_snapshot: bool = False) -> ReleasedBatch:
    """A batch of rows: wall time, diff or state, values."""
    received = tuple(
        ReceivedRow(
            Timestamp(wall),
            False,
            values=values,
            **({"state": mark} if isinstance(mark, str) else {"diff": mark}),
        )
        for wall, mark, values in rows
    )
    return ReleasedBatch(Frontier(Timestamp(99)), received, is_snapshot, Frontier(Timestamp(10)))


def test_a_row_is_there_as_often_as_it_came() -> None:
    contents = TableContents()
    contents.fold(batch((10, 2, ("a",)), (11, -1, ("a",)), (11, 1, (None,))))
    assert contents.rows() == [("a",), (None,)]


def test_an_insertion_may_come_before_its_deletion_within_a_timestamp_alone() -> None:
    contents = TableContents()
    contents.fold(batch((10, -1, ("a",)), (10, 1, ("a",))))
    with pytest.raises(ProtocolError, match="was not there"):
        contents.fold(batch((11, -1, ("a",)), (12, 1, ("a",))))


def test_with_debts_a_row_that_never_came_is_counted_below_zero_and_not_shown() -> None:
    contents = TableContents(with_debts=True)
    contents.fold(batch((10, -1, ("a",)), (10, 1, ("b",)), (11, -2, ("c",))))
    assert contents.rows() == [("b",)]
    contents.fold(batch((12, 1, ("a",)), (12, 2, ("c",)), (13, 1, ("c",))))
    assert contents.rows() == [("b",), ("c",)]


def test_states_show_the_snapshot_first_and_no_timestamp_without_a_change() -> None:
    contents = TableContents()
    first = batch((10, 1, ("a",)), (12, 1, ("b",)), (12, -1, ("b",)), (13, 1, ("b",)), is_snapshot=True)
    assert [(state.call, state.time.wall, state.rows) for state in contents.states(first)] == [
        ("snapshot", 10, [("a",)]),
        ("updated", 13, [("a",), ("b",)]),
    ]


def test_a_key_that_was_violated_is_unknown_from_then_on() -> None:
    contents = TableContents(key_width=1, value_width=1)
    contents.fold(
        batch((10, "upsert", ("a", 1)), (10, "upsert", ("b", 1)), (11, "key_violation", ("a", None)))
    )
    contents.fold(batch((12, "upsert", ("a", 3)), (12, "delete", ("b", None))))
    assert contents.rows() == []
    assert list(contents.unknown_keys.values()) == [("a",)]


def test_the_values_after_are_kept_of_debezium_rows() -> None:
    contents = TableContents(key_width=1, value_width=1)
    contents.fold(batch((10, "insert", ("a", None, 1)), (11, "upsert", ("a", 1, 2))))
    assert contents.rows() == [("a", 2)]


def test_stored_rows_are_held_as_they_were() -> None:
    contents, keyed = TableContents(), TableContents(key_width=1, value_width=1)
    contents.restore([("a",), ("a",)])
    contents.fold(batch((10, -1, ("a",))))
    assert contents.rows() == [("a",)]
    keyed.restore([("a", 1), ("b", 2)])
    keyed.fold(batch((10, "upsert", ("a", 3)), (10, "delete", ("b", None))))
    assert keyed.rows() == [("a", 3)]
