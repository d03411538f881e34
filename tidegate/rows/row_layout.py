"""Assigns a slot to each datum of one table version, for reading and writing rows.

The first slots are for the columns that rows have (public and stored), in table order. Then come slots for
the other columns of the key. A row is read by filling the slots. The first slots are the values of the row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tidegate.errors import EncodingError, UnsupportedTable
from tidegate.rows.composite import NeedsValueForm, needs_value_form
from tidegate.rows.descriptor import Column, TableDescriptor
from tidegate.rows.types import Datum


class RowLayout:
    """The slots of one table version, and which of them are the key's."""

    __slots__ = ("blank", "columns", "composites", "in_rows", "key_columns", "key_slots", "value_slots")

    def __init__(self, descriptor: TableDescriptor) -> None:
        key_ids = {part.column_id for part in descriptor.primary_key}
        in_rows = [column for column in descriptor.columns if column.in_rows]
        others = [column for column in descriptor.columns if column.id in key_ids and not column.in_rows]
        self.columns: tuple[Column, ...] = (*in_rows, *others)
        self.in_rows = len(in_rows)
        self.blank: list[Any] = [None] * len(self.columns)
        slots = {column.id: slot for slot, column in enumerate(self.columns)}
        if not key_ids or not key_ids <= slots.keys():
            raise UnsupportedTable(
                f"table {descriptor.name}: its primary key names no column, or an unknown one"
            )
        self.key_slots = tuple(slots[part.column_id] for part in descriptor.primary_key)
        self.key_columns = tuple(self.columns[slot] for slot in self.key_slots)
        self.composites = self._composites()
        self.value_slots = frozenset(range(len(self.columns))) - frozenset(self.key_slots)

    def arrange(self, values: Mapping[str, Datum] | Sequence[Datum]) -> list[Any]:
        """Return the slots of a row. The datums are given by column name (a missing one is NULL), or in the
        table order of the columns that rows have.

        Raises `EncodingError` for an unknown name or a wrong number of datums.
        """
        slots = self.blank.copy()
        if isinstance(values, Mapping):
            unknown = values.keys() - {column.name for column in self.columns}
            if unknown:
                raise EncodingError(f"there is no column {', '.join(sorted(unknown))}")
            for slot, column in enumerate(self.columns):
                slots[slot] = values.get(column.name)
        elif len(values) == self.in_rows:
            slots[: self.in_rows] = values
        else:
            raise EncodingError(f"{len(values)} datums were given for {self.in_rows} public columns")
        return slots

    def require_not_null(self, slots: Sequence[Any]) -> None:
        """Raise `EncodingError`, which names the column, if a column that is NOT NULL has NULL."""
        for column, datum in zip(self.columns, slots, strict=True):
            if datum is None and not column.nullable:
                raise EncodingError(f"column {column.name} is NOT NULL")

    def written_slots(self, slots: Sequence[Any]) -> frozenset[int]:
        """Return the slots whose datums are in the value: those of columns outside the key, and those of
        composite columns whose datum needs it.
        """
        if not self.composites:
            return self.value_slots
        return self.value_slots | {slot for slot, needed in self.composites if needed(slots[slot])}

    def _composites(self) -> tuple[tuple[int, NeedsValueForm], ...]:
        tests = ((slot, needs_value_form(self.columns[slot].type)) for slot in self.key_slots)
        return tuple((slot, test) for slot, test in tests if test is not None)
