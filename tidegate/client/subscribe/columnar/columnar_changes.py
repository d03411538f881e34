"""Shows versions of a table as columns. `PlainPath` shows them as rows, with the same result.

A statement can be shown so if it has no query and no PROGRESS, and

| it asks for | and the feed |
|---|---|
| ENVELOPE UPSERT by the primary key | does not tell the row before |
| diffs | tells the row before (`diff`) |

Booleans and numbers have the types of the table's columns. All other values are texts, as in JSON, and
`arrow_table` gives these columns their types.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.client.subscribe.columnar.array_order import order_of
from tidegate.client.subscribe.columnar.wrapped_arrays import (
    ReadArrays,
    RowArrays,
    WrappedArrays,
    array_types,
)
from tidegate.hlc import Timestamp
from tidegate.subscribe.changes.key_rows import MemoryKeyRows
from tidegate.subscribe.changes.plain_changes import PlainChanges
from tidegate.subscribe.changes.plain_keys import PlainKeys
from tidegate.subscribe.changes.row_updates import RowBefore
from tidegate.subscribe.columnar_rows import MakeTable
from tidegate.subscribe.gate.opened_rows import DecodeRow, OpenedRows
from tidegate.subscribe.gate.row_chunk import IntColumn, Mask, below
from tidegate.subscribe.outputs.keyed_rows import DELETE, UPSERT
from tidegate.subscribe.outputs.plain_rows import leave_out_unchanged
from tidegate.subscribe.plan import SubscribePlan
from tidegate.subscribe.statement.statement import OutputMode
from tidegate.subscribe.subscription import is_plain, reduced_columns, row_before

#: 19 digits of nanoseconds, and 10 of the logical part.
TIMESTAMP_TYPE: Final = pa.decimal128(29, 10)
_PAUSE_BITS: Final = 6
_WHOLE_TYPE, _FRACTION_TYPE = pa.decimal128(19, 0), pa.decimal128(19, 10)


def columnar_changes(plan: SubscribePlan, *, tells_before: bool) -> MakeTable | None:
    """Return the function that shows a plan's versions as columns; ``None`` if only rows can show them."""
    types = array_types(plan.relation)
    if types is None or plan.shape.progress or not is_plain(plan) or reduced_columns(plan):
        return None
    before, mode = row_before(plan, tells_before=tells_before), plan.shape.mode
    reader = _VersionReader(plan, types)
    if mode is OutputMode.UPSERT and before is RowBefore.NOWHERE:
        return _Attempts(_Upserts(plan, types, reader).table).table
    if mode is OutputMode.DIFFS and before is RowBefore.RECORD:
        return _Attempts(_Diffs(plan, reader).table).table
    return None


class _Attempts:
    """Makes tables. It pauses after versions that could not be shown as columns, because each attempt costs
    time.

    After n failures in a row it makes no table for the next 2 ** n - 1 openings, 63 at most.
    """

    def __init__(self, make_table: MakeTable) -> None:
        self._make_table = make_table
        self._failures = self._pause = 0

    def table(self, opened: OpenedRows, as_of: Timestamp | None, decode: DecodeRow) -> pa.Table | None:
        """See `MakeTable`."""
        if self._pause:
            self._pause -= 1
            return None
        table = None
        with suppress(pa.ArrowException):  # more than an array holds
            table = self._make_table(opened, as_of, decode)
        self._failures = 0 if table is not None else min(self._failures + 1, _PAUSE_BITS)
        self._pause = 2**self._failures - 1
        return table


class _VersionReader:
    """Reads versions as arrays, if all of them have the columns and types of their relation."""

    def __init__(self, plan: SubscribePlan, types: Sequence[pa.DataType]) -> None:
        self._relation = plan.relation
        self._arrays = WrappedArrays(plan.relation, types)
        self.keys = PlainKeys()

    def read(self, opened: OpenedRows) -> ReadArrays | None:
        relation = self._relation
        if any(opened.records) or not self.keys.are_plain(opened.keys):
            return None
        changed = bool(relation.added or relation.removed)
        if changed and below(opened.walls, opened.logicals, relation.exact_from).any():
            return None  # versions with other columns
        return self._arrays.read(opened.values)


class _Upserts:
    """Shows versions by the primary key: the row that each one sets, or the key of the row that it deletes.

    These are the rows of ENVELOPE UPSERT.
    """

    def __init__(self, plan: SubscribePlan, types: Sequence[pa.DataType], reader: _VersionReader) -> None:
        self._header = list(plan.shape.header)
        self._key, self._in_order = plan.shape.key, (*plan.shape.key, *plan.shape.rest)
        #: The positions of the columns whose values stand in the key of a record.
        self._primary_key = [plan.relation.positions(name)[0] for name in plan.relation.primary_key]
        self._types = types
        self._reader = reader

    def table(self, opened: OpenedRows, as_of: Timestamp | None, _: DecodeRow) -> pa.Table | None:
        """See `MakeTable`."""
        read = self._reader.read(opened)
        return None if read is None else self._shown(opened, read.after, as_of)

    def _shown(self, opened: OpenedRows, after: RowArrays, as_of: Timestamp | None) -> pa.Table | None:
        there, columns = after
        walls, logicals = opened.walls, opened.logicals
        if as_of is not None:
            at = np.flatnonzero(there)
            columns = [column.take(pa.array(at)) for column in columns]
            walls, logicals, there = _repeated(as_of.wall, at), _repeated(as_of.logical, at), there[at]
        elif not there.all():
            with_keys = self._with_keys(columns, np.flatnonzero(~there), opened.keys)
            if with_keys is None:
                return None
            columns = with_keys
        order = order_of([walls, logicals], [columns[at] for at in self._key])
        if order is None:
            return None
        states = pc.if_else(pa.array(there[order]), UPSERT, DELETE)
        positions = pa.array(order)
        shown = [columns[at].take(positions) for at in self._in_order]
        return pa.Table.from_arrays(
            [_timestamps(walls[order], logicals[order]), states, *shown], names=self._header
        )

    def _with_keys(
        self, columns: Sequence[pa.Array], deleted: IntColumn, keys: Sequence[bytes]
    ) -> list[pa.Array] | None:
        """Return the columns with the keys of deleted rows filled in. The value of a deletion has no row.

        Returns ``None`` if a key does not fit the columns of the primary key.
        """
        values = [self._reader.keys.values(keys[at]) for at in deleted.tolist()]
        if any(len(each) != len(self._primary_key) for each in values):
            return None
        count = len(columns[0])
        positions = np.arange(count)
        positions[deleted] = count + np.arange(len(deleted))
        filled = list(columns)
        for at, of_column in zip(self._primary_key, zip(*values, strict=True), strict=True):
            array = _key_array(self._types[at], of_column)
            if array is None:
                return None
            filled[at] = pa.concat_arrays([columns[at], array]).take(pa.array(positions))
        return filled


class _Diffs:
    """Shows versions as diffs: the row before each one is retracted, the row that it sets is added."""

    def __init__(self, plan: SubscribePlan, reader: _VersionReader) -> None:
        self._header = list(plan.shape.header)
        self._reader = reader
        self._changes = PlainChanges(plan.relation, RowBefore.RECORD, MemoryKeyRows())

    def table(self, opened: OpenedRows, as_of: Timestamp | None, decode: DecodeRow) -> pa.Table | None:
        """See `MakeTable`."""
        read = self._reader.read(opened)
        if read is None or read.before is None:
            return None
        if as_of is not None:
            return self._snapshot(read.after, as_of)
        return self._shown(opened, read.before, read.after, decode)

    def _snapshot(self, after: RowArrays, as_of: Timestamp) -> pa.Table | None:
        at = np.flatnonzero(after.there)
        columns = [column.take(pa.array(at)) for column in after.columns]
        return self._ordered(
            columns, _repeated(as_of.wall, at), _repeated(as_of.logical, at), _repeated(1, at)
        )

    def _shown(
        self, opened: OpenedRows, before: RowArrays, after: RowArrays, decode: DecodeRow
    ) -> pa.Table | None:
        differs = ~self._unchanged(opened, before, after, decode)
        gone, come = np.flatnonzero(before.there & differs), np.flatnonzero(after.there & differs)
        positions = pa.array(np.concatenate([gone, len(opened) + come]))
        columns = [
            pa.concat_arrays([old, new]).take(positions)
            for old, new in zip(before.columns, after.columns, strict=True)
        ]
        at = np.concatenate([gone, come])
        diffs = np.concatenate([_repeated(-1, gone), _repeated(1, come)])
        return self._ordered(columns, opened.walls[at], opened.logicals[at], diffs)

    def _ordered(
        self, columns: Sequence[pa.Array], walls: IntColumn, logicals: IntColumn, diffs: IntColumn
    ) -> pa.Table | None:
        order = order_of([walls, logicals, diffs], columns)
        if order is None:
            return None
        positions = pa.array(order)
        own = [_timestamps(walls[order], logicals[order]), pa.array(diffs[order])]
        return pa.Table.from_arrays([*own, *(each.take(positions) for each in columns)], names=self._header)

    def _unchanged(self, opened: OpenedRows, before: RowArrays, after: RowArrays, decode: DecodeRow) -> Mask:
        """Return which versions set the same row that was there before.

        Rows that are equal as columns may still be written differently, as 1 and 1.0: they are decoded.
        """
        unchanged = before.there & after.there
        for old, new in zip(before.columns, after.columns, strict=True):
            if not unchanged.any():
                return unchanged
            unchanged &= _equal(old, new)
        at = np.flatnonzero(unchanged).tolist()
        old_rows, new_rows = self._changes.pairs(opened.at(at), decode)
        leave_out_unchanged(old_rows, new_rows)
        unchanged[at] = [row is None for row in new_rows]
        return unchanged


def _key_array(type_: pa.DataType, values: Sequence[Any]) -> pa.Array | None:
    """Return values of a key column as an array; ``None`` if they are not what JSON has for this type."""
    expected = {pa.int64(): int, pa.string(): str, pa.bool_(): bool}.get(type_)
    if not {*map(type, values)} <= {expected}:
        return None
    with suppress(pa.ArrowException, OverflowError, UnicodeError):
        return pa.array(values, type_)
    return None


def _equal(old: pa.Array, new: pa.Array) -> Mask:
    """Return where two columns have equal values; NULL is equal to NULL."""
    equal = pc.fill_null(pc.equal(old, new), False)
    mask: Mask = pc.or_(equal, pc.and_(old.is_null(), new.is_null())).to_numpy(zero_copy_only=False)
    return mask


def _repeated(number: int, positions: IntColumn) -> IntColumn:
    """Return the number once for each position."""
    return np.full(len(positions), number, np.int64)


def _timestamps(walls: IntColumn, logicals: IntColumn) -> pa.Array:
    """Return timestamps as HLC decimals: the logical part has the ten digits behind the point."""
    whole, logical = pa.array(walls).cast(_WHOLE_TYPE), pa.array(logicals).cast(_WHOLE_TYPE)
    fraction = pa.Array.from_buffers(_FRACTION_TYPE, len(logical), logical.buffers())
    return pc.add(whole, fraction).cast(TIMESTAMP_TYPE)
