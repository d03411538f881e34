"""Rows of an opening as what they replace and what they are, for thousands of them in one go.

A row that waits as bytes is of the wrapped envelope. It is decoded here with the columns' names known, which
takes a sixth of the time that decoding takes otherwise. Whatever that refuses is decoded the other way, so
that errors are the same.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, TypeAlias

import msgspec

from tidegate.subscribe.changes.key_rows import KeyRows
from tidegate.subscribe.changes.row_updates import RowBefore, row_of
from tidegate.subscribe.changes.row_values import RowLines
from tidegate.subscribe.gate.feed_record import RowVersion
from tidegate.subscribe.gate.opened_rows import DecodeRow, OpenedRows
from tidegate.subscribe.updates.relation import Relation
from tidegate.subscribe.updates.update import RowValues

#: The row that a version sets, and the row before it; ``None`` for no row.
_RowAndBefore: TypeAlias = tuple[RowValues | None, RowValues | None]


class PlainChanges:
    """Makes the rows before and after of one relation's versions, in the order of its columns."""

    __slots__ = ("_before", "_decoder", "_key_rows", "_lines", "_width")

    def __init__(self, relation: Relation, before: RowBefore, key_rows: KeyRows) -> None:
        self._before = before
        self._key_rows = key_rows
        self._lines = RowLines(relation)
        self._decoder = _decoder(relation)
        self._width = len(relation.columns)

    def begin(self, opened: OpenedRows, decode: DecodeRow) -> list[RowValues | None]:
        """The row that each version sets, which is the first of its key; ``None`` for a deletion.

        Raises as ``RowUpdates.updates`` does.
        """
        rows = [after for after, _ in self._decoded(opened, decode)]
        if self._before is RowBefore.KEY_ROWS and rows:
            self._key_rows.replace_all(list(zip(opened.keys, rows, strict=True)))
        return rows

    def pairs(
        self, opened: OpenedRows, decode: DecodeRow
    ) -> tuple[list[RowValues | None], list[RowValues | None]]:
        """The row before each version, and the row that it sets; ``None`` for no row.

        Where the row before is not known, a deletion has a row of its key and NULLs before it.
        """
        found = self._decoded(opened, decode)
        after = [row for row, _ in found]
        if self._before is RowBefore.KEY_ROWS:
            return self._key_rows.replace_all(list(zip(opened.keys, after, strict=True))), after
        if self._before is RowBefore.RECORD:
            return [before for _, before in found], after
        before = [
            self._lines.key_alone(opened.version(at, decode)) if row is None else None
            for at, row in enumerate(after)
        ]
        return before, after

    def _decoded(self, opened: OpenedRows, decode: DecodeRow) -> list[_RowAndBefore]:
        """The row that each version sets, and the row before it if the record has that."""
        if not any(opened.records):
            try:
                values: Any = opened.values  # one without a value is refused, as all damage is
                # A line each: within one array, damaged values could complete each other.
                wrapped = self._decoder.decode_lines(b"\n".join(values))
            except (msgspec.MsgspecError, RecursionError, TypeError, ValueError):
                wrapped = []  # they are decoded the other way: it tells what is wrong, if anything is
            if len(wrapped) == len(opened):
                row = self._values
                return [(row(each.after), row(each.before)) for each in wrapped]
        return [self._decoded_alone(opened.version(at, decode)) for at in range(len(opened))]

    def _decoded_alone(self, version: RowVersion) -> _RowAndBefore:
        previous = version.record.previous
        before = None if previous is None else self._lines.values(previous, version)
        return row_of(self._lines, version), before

    def _values(self, row: Any) -> RowValues | None:
        if row is None:
            return None
        values: RowValues = msgspec.structs.astuple(row)
        return values if len(values) == self._width else values[: self._width]


def _decoder(relation: Relation) -> Any:
    """A decoder of wrapped values; columns of older versions' rows stand behind the others."""
    names = [*relation.columns, *sorted(relation.removed)]
    fields: list[Any] = []
    for at, name in enumerate(names):
        optional = name in relation.added or at >= len(relation.columns)
        fields.append((f"c{at}", Any, None) if optional else (f"c{at}", Any))
    row = msgspec.defstruct(
        "Row",
        fields,
        rename={f"c{at}": name for at, name in enumerate(names)},
        forbid_unknown_fields=True,
        kw_only=True,
        gc=False,
    )
    wrapped = msgspec.defstruct("Wrapped", [("after", row | None), ("before", row | None, None)], gc=False)
    return msgspec.json.Decoder(wrapped, float_hook=Decimal)
