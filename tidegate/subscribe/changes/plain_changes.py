"""Rows of an opening as what they replace and what they are, for thousands of them in one go.

A row that waits as bytes is of the wrapped envelope. It is decoded here with the columns' names known, which
takes a sixth of the time that decoding takes otherwise. Whatever that refuses is decoded the other way, so
that errors are the same; so is a row with a member that may stand there twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from operator import attrgetter
from typing import Any, Final

import msgspec
import numpy as np
from msgspec import UNSET

from tidegate.hlc import Timestamp
from tidegate.subscribe.changes.key_rows import KeyRows
from tidegate.subscribe.changes.row_updates import RowBefore, row_of
from tidegate.subscribe.changes.row_values import RowLines
from tidegate.subscribe.gate.opened_rows import DecodeRow, OpenedRows
from tidegate.subscribe.gate.row_chunk import IntColumn, int_column
from tidegate.subscribe.updates.relation import Relation
from tidegate.subscribe.updates.update import RowValues, Update

_REFUSALS: Final = (msgspec.MsgspecError, ArithmeticError, RecursionError, TypeError, ValueError)
_AFTER, _BEFORE = attrgetter("after"), attrgetter("before")
_tuple_of = msgspec.structs.astuple
#: The members of a wrapped value; the first two are always there.
_BESIDE: Final = ("after", "updated", "before", "key", "mvcc_timestamp", "topic")
#: So many values are looked through at a time.
_PIECE: Final = 2_000
_QUOTE, _COLON, _SPACE = b'": '

#: Rows of an opening; ``None`` for no row.
_Rows = list[RowValues | None]


class PlainChanges:
    """Makes the rows before and after of one relation's versions, in the order of its columns."""

    __slots__ = (
        *("_before", "_columns", "_decoder", "_key", "_key_decoder", "_key_rows", "_lines", "_optional"),
        "_width",
    )

    def __init__(self, relation: Relation, before: RowBefore, key_rows: KeyRows) -> None:
        self._before = before
        self._key_rows = key_rows
        self._lines = RowLines(relation)
        self._decoder = _decoder(relation)
        self._key_decoder = msgspec.json.Decoder(list[Any], float_hook=Decimal)
        self._key = [relation.positions(name)[0] for name in relation.primary_key]
        self._width = len(relation.columns)
        self._columns = self._width + len(relation.removed)
        self._optional = bool(relation.removed or relation.added)

    def begin(self, opened: OpenedRows, decode: DecodeRow) -> _Rows:
        """Return the row that each version sets; ``None`` for a deletion.

        Each version is the first of its key.

        Raises as ``RowUpdates.updates`` does.
        """
        _, rows = self._decoded(opened, decode)
        if self._before is RowBefore.KEY_ROWS and rows:
            self._key_rows.replace_all(list(zip(opened.keys, rows, strict=True)))
        return rows

    def pairs(self, opened: OpenedRows, decode: DecodeRow) -> tuple[_Rows, _Rows]:
        """Return the row before each version, and the row that it sets; ``None`` for no row.

        Where the row before is not known, a deletion has a row of its key and NULLs before it.
        """
        before, after = self._decoded(opened, decode)
        if self._before is RowBefore.KEY_ROWS:
            before = self._key_rows.replace_all(list(zip(opened.keys, after, strict=True)))
        elif self._before is RowBefore.NOWHERE:
            for at in [at for at, row in enumerate(after) if row is None]:
                before[at] = self._key_alone(opened, at, decode)
        return before, after

    def updates(self, opened: OpenedRows, decode: DecodeRow) -> list[Update]:
        """Return the updates of all versions, retractions first. Raises as ``RowUpdates.updates`` does."""
        updates: list[Update] = []
        times = map(Timestamp, opened.walls.tolist(), opened.logicals.tolist())
        for time, before, after in zip(times, *self.pairs(opened, decode), strict=True):
            if before is not None:
                updates.append(Update(time, -1, before))
            if after is not None:
                updates.append(Update(time, 1, after))
        return updates

    def _decoded(self, opened: OpenedRows, decode: DecodeRow) -> tuple[_Rows, _Rows]:
        """Return the row before each version if records tell it, and the row that each version sets."""
        if any(opened.records):
            return self._decoded_alone(opened, decode)
        try:
            values: Any = opened.values  # one without a value is refused, as all damage is
            # Each by itself: read as one text, damaged values could complete each other.
            wrapped = list(map(self._decoder.decode, values))
        except _REFUSALS:  # they are decoded the other way: it tells what is wrong, if anything is
            return self._decoded_alone(opened, decode)
        members = len(_BESIDE) - int_column([_tuple_of(each).count(UNSET) for each in wrapped])
        after = self._tuples(map(_AFTER, wrapped), members)
        before = self._tuples(map(_BEFORE, wrapped), members)
        if self._before is not RowBefore.RECORD:
            before = [None] * len(after)
        # The fast decoder takes the last one of a member that stands there twice.
        for at in np.flatnonzero(members != most_members(values)).tolist():
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

    def _tuples(self, rows: Iterable[Any], members: IntColumn) -> _Rows:
        """Return the values of decoded rows; adds to ``members`` how many members each row has."""
        tuples: _Rows = [_tuple_of(row) if row else None for row in rows]
        members += self._columns * int_column([row is not None for row in tuples])
        if not self._optional:
            return tuples
        for at, row in enumerate(tuples):
            if row is not None and (absent := row.count(UNSET)):
                members[at] -= absent
                tuples[at] = tuple([None if value is UNSET else value for value in row])
        return [row and row[: self._width] for row in tuples]

    def _key_alone(self, opened: OpenedRows, at: int, decode: DecodeRow) -> RowValues:
        """Return a row that has its primary key and NULLs. The key is read from the bytes in its record."""
        if opened.records[at] is None:
            try:
                key: Sequence[Any] = self._key_decoder.decode(opened.keys[at])
            except _REFUSALS:
                key = ()
            if len(key) == len(self._key):
                values: list[Any] = [None] * self._width
                for position, value in zip(self._key, key, strict=True):
                    values[position] = value
                return tuple(values)
        return self._lines.key_alone(opened.version(at, decode))


def _decoder(relation: Relation) -> Any:
    """Make a decoder of wrapped values. Columns of older versions' rows stand behind the others."""
    names = [*relation.columns, *sorted(relation.removed)]
    fields: list[Any] = []
    for at, name in enumerate(names):
        optional = name in relation.added or at >= len(relation.columns)
        fields.append((f"c{at}", Any, UNSET) if optional else (f"c{at}", Any))
    row = msgspec.defstruct(
        "Row",
        fields,
        rename={f"c{at}": name for at, name in enumerate(names)},
        forbid_unknown_fields=True,
        kw_only=True,
        gc=False,
    )
    types = {"after": row | None, "before": row | None, "key": list[Any]}
    members: list[Any] = [
        (name, types.get(name, str)) if name in ("after", "updated") else (name, types.get(name, str), UNSET)
        for name in _BESIDE
    ]
    wrapped = msgspec.defstruct("Wrapped", members, forbid_unknown_fields=True, gc=False)
    return msgspec.json.Decoder(wrapped, float_hook=Decimal)


def most_members(values: Sequence[bytes]) -> IntColumn:
    """Count how many members each text of JSON may have: as many as it has, or more if a text within it looks
    like a member.

    A colon behind a member's name stands behind a quote or white space.
    """
    counts = []
    for begin in range(0, len(values), _PIECE):
        piece = values[begin : begin + _PIECE]
        text = np.frombuffer(b"".join(piece), np.uint8)
        at = np.flatnonzero(text == _COLON)
        before = text[at - 1]
        at = at[(before == _QUOTE) | (before <= _SPACE)]
        ends = np.cumsum(np.fromiter(map(len, piece), np.int64, len(piece)))
        counts.append(np.diff(np.searchsorted(at, ends), prepend=0))
    return np.concatenate(counts) if counts else np.zeros(0, np.int64)
