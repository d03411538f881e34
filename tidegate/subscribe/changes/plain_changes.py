"""Rows of an opening as what they replace and what they are, for thousands of them in one go.

A row that waits as bytes has the wrapped envelope. It is decoded here with the columns' names known, which
takes a sixth of the time that decoding takes otherwise. Whatever that refuses is decoded the other way, so
that errors are the same; so is a row with a member that may stand there twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from decimal import Decimal
from itertools import repeat
from operator import attrgetter, is_not
from typing import Any, Final

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from tidegate.hlc import Timestamp
from tidegate.subscribe.changes.key_rows import KeyRows
from tidegate.subscribe.changes.row_updates import RowBefore, row_of
from tidegate.subscribe.changes.row_values import RowLines
from tidegate.subscribe.gate.opened_rows import DecodeRow, OpenedRows
from tidegate.subscribe.gate.row_chunk import IntColumn, Mask, int_column
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
        *("_before", "_columns", "_key", "_key_decoder", "_key_rows", "_lines", "_optional"),
        *("_width", "_wrapped"),
    )

    def __init__(self, relation: Relation, before: RowBefore, key_rows: KeyRows) -> None:
        self._before = before
        self._key_rows = key_rows
        self._lines = RowLines(relation)
        self._wrapped = _WrappedValues(relation)
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
            wrapped, members = self._wrapped.decoded(values)
        except _REFUSALS:  # they are decoded the other way: it tells what is wrong, if anything is
            return self._decoded_alone(opened, decode)
        after = self._tuples(map(_AFTER, wrapped), members)
        before = self._tuples(map(_BEFORE, wrapped), members)
        if self._before is not RowBefore.RECORD:
            before = [None] * len(after)
        # The fast decoder takes the last one of a member that stands there twice.
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

    def _tuples(self, rows: Iterable[Any], members: IntColumn) -> _Rows:
        """Return the values of decoded rows; adds to ``members`` how many members each row has."""
        tuples: _Rows = [_tuple_of(row) if row else None for row in rows]
        members += self._columns * np.fromiter(map(is_not, tuples, repeat(None)), np.int64, len(tuples))
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


class _WrappedValues:
    """Decodes wrapped values.

    Values of one feed usually have the same members. They are decoded by a decoder that knows just these, so
    nobody has to count the members of each value.
    """

    __slots__ = ("_any", "_exact", "_row")

    def __init__(self, relation: Relation) -> None:
        self._row = _row_struct(relation)
        self._any = _decoder(self._row, None)
        self._exact: dict[tuple[str, ...], Any] = {}

    def decoded(self, values: Sequence[bytes]) -> tuple[list[Any], IntColumn]:
        """Return the decoded values, and how many members each has beside those of its rows.

        Raises what msgspec raises.
        """
        if not values:
            return [], np.zeros(0, np.int64)
        first = self._any.decode(values[0])
        members = tuple([name for name in _BESIDE if getattr(first, name) is not UNSET])
        if (exact := self._exact.get(members)) is None:
            exact = self._exact[members] = _decoder(self._row, members)
        with suppress(msgspec.ValidationError):
            return list(map(exact.decode, values)), np.full(len(values), len(members), np.int64)
        wrapped = list(map(self._any.decode, values))
        counts = len(_BESIDE) - int_column([_tuple_of(each).count(UNSET) for each in wrapped])
        return wrapped, counts


def _row_struct(relation: Relation) -> Any:
    """Return the type of rows in wrapped values; columns of older versions' rows stand behind the others."""
    names = [*relation.columns, *sorted(relation.removed)]
    fields: list[Any] = []
    for at, name in enumerate(names):
        optional = name in relation.added or at >= len(relation.columns)
        fields.append((f"c{at}", Any, UNSET) if optional else (f"c{at}", Any))
    return msgspec.defstruct(
        "Row",
        fields,
        rename={f"c{at}": name for at, name in enumerate(names)},
        forbid_unknown_fields=True,
        kw_only=True,
        gc=False,
    )


def _decoder(row: Any, members: Sequence[str] | None) -> Any:
    """Return a decoder of wrapped values that have exactly these ``members``; ``None`` for any members."""
    types = {"after": row | None, "before": row | None, "key": list[Any]}
    fields: list[Any] = []
    for name in _BESIDE:
        if name in (("after", "updated") if members is None else members):
            fields.append((name, types.get(name, str)))
        else:
            fields.append((name, types.get(name, str) if members is None else UnsetType, UNSET))
    wrapped = msgspec.defstruct("Wrapped", fields, forbid_unknown_fields=True, kw_only=True, gc=False)
    return msgspec.json.Decoder(wrapped, float_hook=Decimal)


def maybe_twice(values: Sequence[bytes], members: IntColumn) -> list[int]:
    """Return which of some texts of JSON may have a member twice: they may have more than were decoded.

    ``members`` is how many each has at least. A text within one may look like a member: it is among these
    then, though nothing stands there twice.
    """
    found: list[int] = []
    for begin in range(0, len(values), _PIECE):
        piece, own = values[begin : begin + _PIECE], members[begin : begin + _PIECE]
        colons = _member_colons(piece)
        # No text has fewer than were decoded, so that equal sums are of equal numbers.
        if np.count_nonzero(colons) == own.sum():
            continue
        ends = np.cumsum(np.fromiter(map(len, piece), np.int64, len(piece)))
        counts = np.diff(np.searchsorted(np.flatnonzero(colons), ends - 1), prepend=0)
        found += (np.flatnonzero(counts != own) + begin).tolist()
    return found


def _member_colons(texts: Sequence[bytes]) -> Mask:
    """Return which bytes of some texts are followed by the colon of a member: quotes and white space."""
    text = np.frombuffer(b"".join(texts), np.uint8)
    lead = text[:-1]
    colons: Mask = (lead == _QUOTE) | (lead <= _SPACE)
    colons &= text[1:] == _COLON
    return colons
