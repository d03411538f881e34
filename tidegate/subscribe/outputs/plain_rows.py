"""Makes the rows of changes that need no consolidation: no two versions have the same key and timestamp.

This holds for a table without a query, as diffs or by its primary key: at one timestamp a key has one
version, and rows of different keys differ. The result is that of `DiffRows` and `KeyedRows`, in the same
order, for a fraction of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from itertools import repeat
from operator import add, is_not, itemgetter
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tidegate.subscribe.gate.row_chunk import IntColumn, Mask, int_column
from tidegate.subscribe.outputs.keyed_rows import DELETE, INSERT, UPSERT
from tidegate.subscribe.outputs.shape import OutputShape
from tidegate.subscribe.statement.statement import OutputMode
from tidegate.subscribe.updates.row_identity import written_identity
from tidegate.subscribe.updates.update import RowValues
from tidegate.subscribe.updates.value_order import value_key, values_key

#: Rows before or after some changes; ``None`` for no row.
_Rows: TypeAlias = list[RowValues | None]
#: The changes of one timestamp: the values that stand before each of their rows, the position of the first
#: change, and the position after the last change.
TimeGroup: TypeAlias = tuple[RowValues, int, int]
#: Types whose values Python orders as SQL does; a ``Decimal`` of a row is a number.
_NUMBERS: Final = frozenset({int, Decimal})
_ORDERED: Final = frozenset({bool, bytes, str})
#: A function that makes the rows that show changes. It takes the groups of the changes, the rows before each
#: change and the rows after each change. It may set elements of the two lists.
ShowChanges: TypeAlias = Callable[[Iterable[TimeGroup], _Rows, _Rows], list[RowValues]]


def plain_rows(shape: OutputShape) -> ShowChanges:
    """Return the function that shows changes of a statement without a query: as diffs, or by key."""
    if not shape.key:
        return _shown_as_diffs
    changes = _KeyedChanges(shape)
    return changes.with_before if shape.mode is OutputMode.DEBEZIUM else changes.new_values


def _shown_as_diffs(groups: Iterable[TimeGroup], before: _Rows, after: _Rows) -> list[RowValues]:
    """Show retractions first, then additions, each in the order of their values."""
    leave_out_unchanged(before, after)
    groups = list(groups)
    gone, come = _there(before), _there(after)
    rows: list[Any] = [*map(before.__getitem__, gone.tolist()), *map(after.__getitem__, come.tolist())]
    if (numbers := _first_numbers(rows)) is None:
        return _diffs_one_by_one(groups, before, after)
    heads = [(*head, diff) for head, _, _ in groups for diff in (-1, 1)]
    group_of = _groups_of_rows(groups)
    ranks = np.concatenate((2 * group_of[gone], 2 * group_of[come] + 1))
    order = np.lexsort((numbers, ranks))
    ranks, numbers = ranks[order], numbers[order]
    ordered = list(map(rows.__getitem__, order.tolist()))
    for begin, end in _runs((ranks[1:] == ranks[:-1]) & (numbers[1:] == numbers[:-1])):
        alike = ordered[begin:end]
        _sort_rows(alike)
        ordered[begin:end] = alike
    return list(map(add, map(heads.__getitem__, ranks.tolist()), ordered))


def _diffs_one_by_one(groups: Iterable[TimeGroup], before: _Rows, after: _Rows) -> list[RowValues]:
    """Return the diffs of rows whose first values are no numbers. The rows of each timestamp are sorted
    separately."""
    shown: list[RowValues] = []
    for head, begin, end in groups:
        for diff, rows in ((-1, before), (1, after)):
            first = (*head, diff)
            if end - begin == 1:
                if (row := rows[begin]) is not None:
                    shown.append(first + row)
                continue
            there = [row for row in rows[begin:end] if row is not None]
            if len(there) > 1:
                _sort_rows(there)
            shown += [first + row for row in there]
    return shown


def _there(rows: _Rows) -> IntColumn:
    """Return the positions of the rows that are not ``None``."""
    return np.flatnonzero(np.fromiter(map(is_not, rows, repeat(None)), np.bool_, len(rows)))


def _groups_of_rows(groups: Sequence[TimeGroup]) -> IntColumn:
    """Return the number of the group of each change; groups follow each other without a gap."""
    return np.repeat(np.arange(len(groups)), [end - begin for _, begin, end in groups])


def _first_numbers(rows: Sequence[RowValues]) -> NDArray[np.float64] | None:
    """Return the first value of each row, rounded; ``None`` if one of them is no number, or NaN.

    If two rounded numbers differ, the numbers themselves are in the same order. If they are equal, the
    numbers themselves may still differ.
    """
    if not rows or not rows[0]:
        return None
    firsts = list(map(itemgetter(0), rows))
    if not {*map(type, firsts)} <= _NUMBERS:
        return None
    try:
        numbers = np.fromiter(map(float, firsts), np.float64, len(firsts))
    except OverflowError:
        return None
    return None if np.isnan(numbers).any() else numbers


def _runs(same: Mask) -> list[tuple[int, int]]:
    """Return the runs of equal elements: the index at which each begins, and the index after its end.

    ``same`` says whether the second element is equal to the first, and so on. Runs of one element are left
    out.
    """
    if not same.any():
        return []
    edges = np.diff(np.concatenate(([False], same, [False])).astype(np.int8))
    return list(
        zip(np.flatnonzero(edges == 1).tolist(), (np.flatnonzero(edges == -1) + 1).tolist(), strict=True)
    )


class _KeyedChanges:
    """Shows changes by the primary key: one row for each key that changes, in the order of the keys."""

    __slots__ = ("_key", "_nothing", "_only_key", "_reordered", "_rest")

    def __init__(self, shape: OutputShape) -> None:
        self._key, self._rest = picker(shape.key), picker(shape.rest)
        #: The function that gives what rows are sorted by: the key's values, or its only value by itself.
        self._only_key: Callable[[Any], Any] = itemgetter(*shape.key)
        in_order = (*shape.key, *shape.rest)
        self._reordered = None if in_order == tuple(range(len(in_order))) else picker(in_order)
        self._nothing = (None,) * len(shape.rest)

    def new_values(self, groups: Iterable[TimeGroup], before: _Rows, after: _Rows) -> list[RowValues]:
        """Show changes as rows of ENVELOPE UPSERT."""
        leave_out_unchanged(before, after)
        groups = list(groups)
        order = self._order_at_once(groups, before, after)
        if order is not None:
            before, after = list(map(before.__getitem__, order)), list(map(after.__getitem__, order))
            return self._upserts_at_once(groups, before, after)
        key, nothing, reordered = self._key, self._nothing, self._reordered
        shown: list[RowValues] = []
        for head, begin, end in groups:
            upsert, delete = (*head, UPSERT), (*head, DELETE)
            for gone, row in zip(*self._in_order(before, after, begin, end), strict=True):
                if row is not None:
                    shown.append(upsert + (row if reordered is None else reordered(row)))
                elif gone is not None:
                    shown.append(delete + key(gone) + nothing)
        return shown

    def _upserts_at_once(self, groups: Sequence[TimeGroup], before: _Rows, after: _Rows) -> list[RowValues]:
        """Show changes as rows of ENVELOPE UPSERT. They are in order, and each has a row before or after
        it."""
        group_of = _groups_of_rows(groups).tolist()
        deleted = {at: before[at] for at, row in enumerate(after) if row is None}
        come: Any = after
        if deleted:
            come = [() if row is None else row for row in after]
        if self._reordered is not None:
            come = [row and self._reordered(row) for row in come]
        heads = [(*head, UPSERT) for head, _, _ in groups]
        shown = list(map(add, map(heads.__getitem__, group_of), come))
        for at, gone in deleted.items():
            assert gone is not None  # that has a row
            shown[at] = (*groups[group_of[at]][0], DELETE, *self._key(gone), *self._nothing)
        return shown

    def with_before(self, groups: Iterable[TimeGroup], before: _Rows, after: _Rows) -> list[RowValues]:
        """Show changes as rows of ENVELOPE DEBEZIUM."""
        leave_out_unchanged(before, after)
        key, rest, nothing = self._key, self._rest, self._nothing
        shown: list[RowValues] = []
        for head, begin, end in groups:
            insert, upsert, delete = (*head, INSERT), (*head, UPSERT), (*head, DELETE)
            for gone, row in zip(*self._in_order(before, after, begin, end), strict=True):
                if row is None:
                    if gone is not None:
                        shown.append(delete + key(gone) + rest(gone) + nothing)
                elif gone is None:
                    shown.append(insert + key(row) + nothing + rest(row))
                else:
                    shown.append(upsert + key(row) + rest(gone) + rest(row))
        return shown

    def _order_at_once(self, groups: Sequence[TimeGroup], before: _Rows, after: _Rows) -> list[int] | None:
        """Return the positions of all changes, by group and then by key, if all keys are whole numbers of 64
        bits.

        Returns ``None`` for other keys, for no changes, and if a change has no row before and no row after
        it.
        """
        rows = [old if new is None else new for old, new in zip(before, after, strict=True)]
        if not rows or None in rows:
            return None
        keys = list(map(self._only_key, rows))
        if {*map(type, keys)} != {int}:
            return None
        try:
            numbers = int_column(keys)
        except OverflowError:
            return None
        order: list[int] = np.lexsort((numbers, _groups_of_rows(groups))).tolist()
        return order

    def _in_order(self, before: _Rows, after: _Rows, begin: int, end: int) -> tuple[_Rows, _Rows]:
        """Return the changes of a group in the order of their keys. Changes with no row before and after are
        left out, unless the group has only one change."""
        before, after = before[begin:end], after[begin:end]
        if end - begin == 1:
            return before, after
        rows = [old if new is None else new for old, new in zip(before, after, strict=True)]
        if None in rows:
            there = [at for at, row in enumerate(rows) if row is not None]
            before, after = [before[at] for at in there], [after[at] for at in there]
            rows = [rows[at] for at in there]
        order = _order(list(map(self._only_key, rows)))
        return [before[at] for at in order], [after[at] for at in order]


def leave_out_unchanged(before: _Rows, after: _Rows) -> None:
    """Set both rows of each change that changes nothing to ``None``."""
    for at, old in enumerate(before):
        if old is None:
            continue
        new = after[at]
        if new is not None and (old == new or _differ_by_nan(old, new)) and _are_one(old, new):
            before[at] = after[at] = None


def _differ_by_nan(before: RowValues, after: RowValues) -> bool:
    """Whether the first values in which two rows differ are NaN, or lists with NaN: NaN equals NaN in SQL."""
    for old, new in zip(before, after, strict=True):
        if old != new:
            return bool(old != old) or (type(old) is list and any(each != each for each in old))
    return False


def _are_one(before: RowValues, after: RowValues) -> bool:
    """Whether two rows are the same row and are written alike. TRUE is not 1 here, and NaN equals NaN."""
    return written_identity(before) == written_identity(after)


def _sort_rows(rows: list[RowValues]) -> None:
    """Sort rows by their values, NULLs last. Python compares them itself if that gives the same order."""
    if _python_orders(zip(*rows, strict=True), len(rows)):
        rows.sort()
    else:
        rows.sort(key=values_key)


def _order(keys: Sequence[Any]) -> list[int]:
    """Return the positions of keys in their order, NULLs last. A key is a value, or a tuple of several."""
    columns = zip(*keys, strict=True) if keys and type(keys[0]) is tuple else [keys]
    if _python_orders(columns, len(keys)):
        return sorted(range(len(keys)), key=keys.__getitem__)
    return sorted(range(len(keys)), key=lambda at: value_key(keys[at]))


def _python_orders(columns: Iterable[Sequence[Any]], count: int) -> bool:
    """Whether Python orders rows as SQL does. It does not for NULL, NaN, and JSON values of several types."""
    for column in columns:
        types = {*map(type, column)}
        if not (types <= _NUMBERS or (len(types) == 1 and types <= _ORDERED)):
            return False
        if len({*column}) == count:
            return True  # the columns after this one do not change the order
    return True


def picker(positions: tuple[int, ...]) -> Callable[[RowValues], RowValues]:
    """Return a function that picks these values of a row as a tuple. ``itemgetter`` gives no tuple for fewer
    than two."""
    if len(positions) > 1:
        return itemgetter(*positions)
    if not positions:
        return lambda _: ()
    only = positions[0]
    return lambda row: (row[only],)
