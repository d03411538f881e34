"""Tests what a version of a row means, wherever the row before comes from."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.changefeed.definition.feed import TableName
from tidegate.changefeed.encoding.record import RowRecord
from tidegate.errors import SchemaMismatch, UnreadableRow
from tidegate.hlc import Timestamp
from tidegate.subscribe.changes.key_rows import MemoryKeyRows
from tidegate.subscribe.changes.row_updates import RowBefore, RowUpdates
from tidegate.subscribe.gate.feed_record import RowVersion
from tidegate.subscribe.updates.relation import Relation

RELATION = Relation(TableName("t"), ("id", "v"), ("id",))
Plain = list[tuple[int, int, tuple[Any, ...]]]


def version(
    wall: int, row: dict[str, Any] | None, previous: dict[str, Any] | None = None, deleted: bool | None = None
) -> RowVersion:
    """A version of the key 1."""
    deleted = row is None if deleted is None else deleted
    record = RowRecord((1,), row, deleted, updated=Timestamp(wall), previous=previous)
    return RowVersion(Timestamp(wall), "t", b"[1]", 0, wall, wall, record)


HISTORY = [
    version(1, {"id": 1, "v": 1}),
    version(2, {"v": 2, "id": 1}, {"id": 1, "v": 1}),
    version(3, None, {"id": 1, "v": 2}),
]


def plain(before: RowBefore, as_of: int = 0, versions: list[RowVersion] | None = None) -> Plain:
    """The updates of some versions, with their wall times."""
    updates = RowUpdates(RELATION, before, MemoryKeyRows(), Timestamp(as_of)).updates(versions or HISTORY)
    return [(update.time.wall, update.diff, update.row) for update in updates]


@pytest.mark.parametrize("before", [RowBefore.RECORD, RowBefore.KEY_ROWS])
def test_the_row_before_goes_and_the_row_comes(before: RowBefore) -> None:
    assert plain(before) == [(1, 1, (1, 1)), (2, -1, (1, 1)), (2, 1, (1, 2)), (3, -1, (1, 2))]


def test_without_the_row_before_a_deletion_retracts_the_key_alone() -> None:
    assert plain(RowBefore.NOWHERE) == [(1, 1, (1, 1)), (2, 1, (1, 2)), (3, -1, (1, None))]


def test_the_snapshot_has_one_row_a_key_all_the_same() -> None:
    assert plain(RowBefore.NOWHERE, as_of=2) == [
        (1, 1, (1, 1)),
        (2, -1, (1, 1)),
        (2, 1, (1, 2)),
        (3, -1, (1, None)),
    ]


@pytest.mark.parametrize("key", [(), (1, 2)])
def test_a_deletion_with_another_key_is_a_mismatch_that_names_the_key(key: tuple[int, ...]) -> None:
    gone = RowVersion(Timestamp(7), "t", b"", 0, 7, 7, RowRecord(key, None, True, updated=Timestamp(7)))
    with pytest.raises(SchemaMismatch, match=rf"offset 7 of t\[0\] has {len(key)} values") as caught:
        plain(RowBefore.NOWHERE, versions=[gone])
    assert "1 columns (id)" in str(caught.value)
    assert caught.value.offset == 7


def test_a_deletion_of_nothing_is_nothing() -> None:
    gone = [version(1, None)]
    assert plain(RowBefore.RECORD, versions=gone) == plain(RowBefore.KEY_ROWS, versions=gone) == []


@pytest.mark.parametrize("row", [{"id": 1}, {"id": 1, "v": 1, "w": 2}, {"id": 1, "w": 2}])
def test_other_columns_are_a_mismatch_that_names_them(row: dict[str, Any]) -> None:
    with pytest.raises(SchemaMismatch, match=r"offset 7 of t\[0\]") as caught:
        plain(RowBefore.RECORD, versions=[version(7, row)])
    assert ("new columns: w" in str(caught.value)) == ("w" in row)
    assert caught.value.offset == 7


def test_a_row_that_may_be_a_deletion_is_refused() -> None:
    record = RowRecord((1,), None, None, updated=Timestamp(1))
    unclear = RowVersion(Timestamp(1), "t", b"[1]", 0, 5, 0, record)
    with pytest.raises(UnreadableRow, match="does not say whether it is a deletion"):
        plain(RowBefore.KEY_ROWS, versions=[unclear])
