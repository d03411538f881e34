"""Rows of changes that need no consolidation: each version is of a key of its own, or of another timestamp.

So it is for a table without a query, as diffs or by its primary key: at one timestamp a key has one version,
and rows of different keys differ. The result is that of `DiffRows` and `KeyedRows`, in the same order, for a
fraction of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import TypeAlias, TypeVar

from tidegate.subscribe.outputs.keyed_rows import DELETE, INSERT, UPSERT
from tidegate.subscribe.outputs.shape import OutputShape
from tidegate.subscribe.statement.statement import OutputMode
from tidegate.subscribe.updates.row_identity import row_identity
from tidegate.subscribe.updates.update import RowValues
from tidegate.subscribe.updates.value_order import values_key

#: The row before a change and the row after it; ``None`` for no row.
RowChange: TypeAlias = tuple[RowValues | None, RowValues | None]
_Item = TypeVar("_Item")
#: Makes the rows of one timestamp out of its changes: ``head`` stands before each of them.
ShowChanges: TypeAlias = Callable[[RowValues, Iterable[RowChange]], list[RowValues]]


def plain_rows(shape: OutputShape) -> ShowChanges:
    """What shows changes in the form of a statement without a query, by diffs or by the primary key."""
    return _shown_as_diffs if not shape.key else _KeyedChanges(shape).rows


def _shown_as_diffs(head: RowValues, changes: Iterable[RowChange]) -> list[RowValues]:
    """Retractions first, then additions, each in the order of their values."""
    gone: list[RowValues] = []
    come: list[RowValues] = []
    for before, after in changes:
        if before == after and _are_one(before, after):
            continue
        if before is not None:
            gone.append(before)
        if after is not None:
            come.append(after)
    less, more = (*head, -1), (*head, 1)
    return [less + row for row in _in_order(gone)] + [more + row for row in _in_order(come)]


class _KeyedChanges:
    """Shows changes by the primary key: one row for each key that changes, in the order of the keys."""

    __slots__ = ("_key", "_nothing", "_reordered", "_rest", "_with_before")

    def __init__(self, shape: OutputShape) -> None:
        self._key, self._rest = picker(shape.key), picker(shape.rest)
        self._reordered = picker((*shape.key, *shape.rest))
        self._nothing = (None,) * len(shape.rest)
        self._with_before = shape.mode is OutputMode.DEBEZIUM

    def rows(self, head: RowValues, changes: Iterable[RowChange]) -> list[RowValues]:
        """See ``ShowChanges``."""
        changes = [
            change for change in changes if change[0] != change[1] or not _are_one(change[0], change[1])
        ]
        if len(changes) > 1:
            key = self._key
            _sort(changes, lambda change: key(change[1] or change[0] or ()))
        return self._all_values(head, changes) if self._with_before else self._new_values(head, changes)

    def _new_values(self, head: RowValues, changes: Iterable[RowChange]) -> list[RowValues]:
        upsert, delete, reordered = (*head, UPSERT), (*head, DELETE), self._reordered
        return [
            upsert + reordered(after)
            if after is not None
            else delete + self._key(before or ()) + self._nothing
            for before, after in changes
        ]

    def _all_values(self, head: RowValues, changes: Iterable[RowChange]) -> list[RowValues]:
        key, rest, nothing = self._key, self._rest, self._nothing
        shown: list[RowValues] = []
        for before, after in changes:
            if after is None:
                before = before or ()
                shown.append((*head, DELETE, *key(before), *rest(before), *nothing))
            elif before is None:
                shown.append((*head, INSERT, *key(after), *nothing, *rest(after)))
            else:
                shown.append((*head, UPSERT, *key(after), *rest(before), *rest(after)))
        return shown


def _are_one(before: RowValues | None, after: RowValues | None) -> bool:
    """Whether two rows that Python says are equal are one row in SQL, where TRUE is not 1."""
    if before is None or after is None:
        return before is after
    return row_identity(before) == row_identity(after)


def _in_order(rows: list[RowValues]) -> Sequence[RowValues]:
    """Rows in the order of their values, NULLs last."""
    if len(rows) > 1:
        _sort(rows, _itself)
    return rows


def _itself(row: RowValues) -> RowValues:
    return row


def _sort(items: list[_Item], values_of: Callable[[_Item], RowValues]) -> None:
    """Sort items by values: as Python does where it can, which is the same order."""
    try:
        items.sort(key=values_of)
    except TypeError:  # NULLs, or values of several types
        items.sort(key=lambda item: values_key(values_of(item)))


def picker(positions: tuple[int, ...]) -> Callable[[RowValues], RowValues]:
    """What picks these values of a row as a tuple; ``itemgetter`` does not for fewer than two."""
    if len(positions) > 1:
        return itemgetter(*positions)
    if not positions:
        return lambda _: ()
    only = positions[0]
    return lambda row: (row[only],)
