"""Decodes the versions of an opening, thousands together. Each gives the row before it and the row that it
sets.

A version that waits as bytes has the wrapped envelope, and is decoded by `WrappedValues`. The general decoder
decodes versions that `WrappedValues` refuses, so that the errors are those of the general decoder. It also
decodes versions in which a JSON member may stand twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import repeat
from operator import attrgetter, is_not
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET

from tidegate.hlc import Timestamp
from tidegate.subscribe.changes.key_rows import KeyRows
from tidegate.subscribe.changes.plain_keys import PlainKeys
from tidegate.subscribe.changes.reduced_keys import ReducedColumns
from tidegate.subscribe.changes.row_updates import RowBefore, row_of
from tidegate.subscribe.changes.row_values import RowLines
from tidegate.subscribe.gate.opened_rows import DecodeRow, OpenedRows
from tidegate.subscribe.gate.row_chunk import IntColumn, below
from tidegate.subscribe.gate.wrapped_values import REFUSALS, WrappedValues, maybe_twice
from tidegate.subscribe.updates.relation import Relation
from tidegate.subscribe.updates.update import RowValues, Update

_AFTER, _BEFORE = attrgetter("after"), attrgetter("before")
_tuple_of = msgspec.structs.astuple

#: Rows of an opening; ``None`` for no row.
_Rows = list[RowValues | None]


class PlainChanges:
    """Makes the row before and the row after each version of one relation. Values are in the order of its
    columns.
    """

    __slots__ = (
        *("_before", "_exact_from", "_form", "_key", "_key_rows", "_keys", "_lines"),
        *("_older_form", "_reduced", "_width"),
    )

    def __init__(
        self,
        relation: Relation,
        before: RowBefore,
        key_rows: KeyRows,
        reduced: Collection[str] = (),
    ) -> None:
        """Rows have the columns ``reduced`` in the form that their deletions have (`ReducedColumns`)."""
        self._reduced = ReducedColumns(relation, reduced) if reduced else None
        self._before = before
        self._key_rows = key_rows
        self._lines = RowLines(relation)
        self._form = self._older_form = _RowForm(relation.columns)
        if relation.added or relation.removed:
            self._older_form = _RowForm(relation.columns, relation.added, relation.removed)
        self._exact_from = relation.exact_from
        self._keys = PlainKeys()
        self._key = [relation.positions(name)[0] for name in relation.primary_key]
        self._width = len(relation.columns)

    def begin(self, opened: OpenedRows, decode: DecodeRow) -> _Rows:
        """Return the row that each version sets; ``None`` for a deletion.

        The caller gives only one version of each key. The rows that the keys had before are not looked at.

        Raises as ``RowUpdates.updates`` does.
        """
        _, rows = self._decoded(opened, decode)
        if self._before is RowBefore.KEY_ROWS and rows:
            self._key_rows.replace_all(list(zip(opened.keys, rows, strict=True)))
        return self._shown(rows)

    def pairs(self, opened: OpenedRows, decode: DecodeRow) -> tuple[_Rows, _Rows]:
        """Return the row before each version, and the row that it sets; ``None`` for no row.

        If the row before comes from nowhere (`RowBefore.NOWHERE`), the row before a deletion has its key and
        NULLs, and there is none before any other version.
        """
        before, after = self._decoded(opened, decode)
        if self._before is RowBefore.KEY_ROWS:
            before = self._key_rows.replace_all(list(zip(opened.keys, after, strict=True)))
        elif self._before is RowBefore.NOWHERE:
            for at in [at for at, row in enumerate(after) if row is None]:
                before[at] = self._key_alone(opened, at, decode)
        return self._shown(before), self._shown(after)

    def updates(self, opened: OpenedRows, decode: DecodeRow) -> list[Update]:
        """Return the updates of all versions; of each version the retraction comes first.

        Raises as ``RowUpdates.updates`` does.
        """
        updates: list[Update] = []
        times = map(Timestamp, opened.walls.tolist(), opened.logicals.tolist())
        for time, before, after in zip(times, *self.pairs(opened, decode), strict=True):
            if before is not None:
                updates.append(Update(time, -1, before))
            if after is not None:
                updates.append(Update(time, 1, after))
        return updates

    def _shown(self, rows: _Rows) -> _Rows:
        return rows if self._reduced is None else self._reduced.rows(rows)

    def _decoded(self, opened: OpenedRows, decode: DecodeRow) -> tuple[_Rows, _Rows]:
        """Return the row before each version if records tell it, and the row that each version sets."""
        if any(opened.records):
            return self._decoded_alone(opened, decode)
        older = below(opened.walls, opened.logicals, self._exact_from)
        if self._form is self._older_form or not older.any():
            return self._decoded_as(self._form, opened, decode)
        if older.all():
            return self._decoded_as(self._older_form, opened, decode)
        before: _Rows = [None] * len(opened)
        after: _Rows = [None] * len(opened)
        for form, chosen in ((self._older_form, older), (self._form, ~older)):
            positions = np.flatnonzero(chosen).tolist()
            some_before, some_after = self._decoded_as(form, opened.at(positions), decode)
            for at, gone, row in zip(positions, some_before, some_after, strict=True):
                before[at], after[at] = gone, row
        return before, after

    def _decoded_as(self, form: _RowForm, opened: OpenedRows, decode: DecodeRow) -> tuple[_Rows, _Rows]:
        try:
            values: Any = opened.values  # a row without a value is refused, as damaged values are
            # Each value is read by itself: if all were one text, damaged values could complete each other.
            wrapped, members = form.values.decoded(values)
        except REFUSALS:
            wrapped = None
        if wrapped is None or not self._keys.are_plain(opened.keys):
            return self._decoded_alone(opened, decode)  # which says what is wrong, if anything is
        after = form.tuples(map(_AFTER, wrapped), members)
        told = list(map(_BEFORE, wrapped))
        before: _Rows = [None] * len(after)
        if told.count(UNSET) < len(told):
            counted = form.tuples(told, members)
            before = counted if self._before is RowBefore.RECORD else before
        # If a value has a member twice, the fast decoder takes the last one.
        for at in maybe_twice(values, members):
            before[at], after[at] = self._decoded_row(opened, at, decode)
        return before, after

    def _decoded_alone(self, opened: OpenedRows, decode: DecodeRow) -> tuple[_Rows, _Rows]:
        before, after = _Rows(), _Rows()
        for at in range(len(opened)):
            previous, row = self._decoded_row(opened, at, decode)
            before.append(previous)
            after.append(row)
        return before, after

    def _decoded_row(
        self, opened: OpenedRows, at: int, decode: DecodeRow
    ) -> tuple[RowValues | None, RowValues | None]:
        version = opened.version(at, decode)
        previous = version.record.previous if self._before is RowBefore.RECORD else None
        before = None if previous is None else self._lines.values(previous, version)
        return before, row_of(self._lines, version)

    def _key_alone(self, opened: OpenedRows, at: int, decode: DecodeRow) -> RowValues:
        """Return a row that has NULLs except in its primary key, which is read from the key of the record."""
        if opened.records[at] is None:
            key = self._keys.values(opened.keys[at])
            if len(key) == len(self._key):
                values: list[Any] = [None] * self._width
                for position, value in zip(self._key, key, strict=True):
                    values[position] = value
                return tuple(values)
        return self._lines.key_alone(opened.version(at, decode))


class _RowForm:
    """The members of rows in wrapped values, before or after a change of the table's columns.

    A row has ``columns``, but may lack those in ``added``. It may also have the columns in ``removed``, which
    are left out.
    """

    __slots__ = ("_members", "_optional", "_width", "values")

    def __init__(
        self, columns: Sequence[str], added: Collection[str] = (), removed: Collection[str] = ()
    ) -> None:
        self._width = len(columns)
        self._members = self._width + len(removed)
        self._optional = bool(added or removed)
        # columns of older versions' rows stand after the others
        self.values = WrappedValues([*columns, *sorted(removed)], {*added, *removed})

    def tuples(self, rows: Iterable[Any], members: IntColumn) -> _Rows:
        """Return a tuple of values for each row, ``None`` for no row.

        Adds to each count in ``members`` the number of JSON members of its row.
        """
        tuples: _Rows = [_tuple_of(row) if row else None for row in rows]
        members += self._members * np.fromiter(map(is_not, tuples, repeat(None)), np.int64, len(tuples))
        if not self._optional:
            return tuples
        for at, row in enumerate(tuples):
            if row is not None and (absent := row.count(UNSET)):
                members[at] -= absent
                tuples[at] = tuple([None if value is UNSET else value for value in row])
        return [row and row[: self._width] for row in tuples]
