"""Decodes and encodes the rows of one table version: it turns a key and a value into a row, and back.

A codec is compiled once per descriptor version; `TableCodec.decode` runs for every row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tidegate.errors import ChecksumMismatch, EncodingError, RowError, UnsupportedTable
from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.index_key import IndexKeyCodec
from tidegate.rows.keyside.datums import has_key_form, key_codec
from tidegate.rows.row import Row
from tidegate.rows.row_layout import RowLayout
from tidegate.rows.sql_type import sql_type_text
from tidegate.rows.table_key import FAMILY_ZERO, decode_family_suffix, shortened
from tidegate.rows.types import Datum, Kind
from tidegate.rows.value_frame import ValueTag, ordinary, seal, unseal
from tidegate.rows.valueside.tuples import TupleCodec

_TUPLE: Final = bytes((ValueTag.TUPLE,))
_INTERLEAVED: Final = b"\xfe"  # in place of the family, in a row of a table that is interleaved in this table


class TableCodec:
    """The codec of one table version with one column family.

    Raises `UnsupportedTable`, naming table and reason, for a table that cannot be fed.
    """

    __slots__ = ("_collated_key", "_index", "_layout", "_tuple", "descriptor")

    def __init__(self, descriptor: TableDescriptor) -> None:
        _refuse_unsupported(descriptor)
        self.descriptor = descriptor
        self._layout = RowLayout(descriptor)
        self._collated_key = any(column.type.is_collated for column in self._layout.key_columns)
        self._index = _primary_index(descriptor, self._layout)
        self._tuple = TupleCodec(self._layout.columns, {column.id for column in self._layout.key_columns})

    def decode(self, key: bytes, value: bytes) -> Row | None:
        """Return the row version that ``value`` stores under ``key`` (a roachpb key, with or without tenant
        prefix).

        Returns ``None`` for a key of another index of this table, and for a row of a table that is
        interleaved in this table. An empty ``value`` is a deletion. Its key datums are read from the key
        alone, so a decimal has lost its scale. Raises `EncodingError` if the key or the value is malformed,
        and `ChecksumMismatch` if the value is damaged. Both errors name table and key.
        """
        try:
            read = self._index.read(key)
            if read is None:
                return None
            key_datums, position = read
            if key[position:] != FAMILY_ZERO and self._is_interleaved(key, position):
                return None
            value = ordinary(value)
            if not value:
                return self._deleted(key_datums)
            return self._present(key_datums, unseal(key, value))
        except ChecksumMismatch as error:
            raise ChecksumMismatch(self._located(key, error)) from None
        except EncodingError as error:
            raise EncodingError(self._located(key, error)) from None

    def encode(self, values: Mapping[str, Datum] | Sequence[Datum]) -> tuple[bytes, bytes]:
        """Return key and value of a row. The datums are given by column name (a missing one is NULL), or in
        the order of the columns that rows have.

        Raises `EncodingError`, which names table and column, for a wrong type, an unknown name, or a NULL in
        a column that is NOT NULL.
        """
        try:
            slots = self._layout.arrange(values)
            self._layout.require_not_null(slots)
            key = self._write_key(slots)
            body = self._tuple.write(slots, self._layout.written_slots(slots))
        except EncodingError as error:
            raise EncodingError(f"table {self.descriptor.name}: {error}") from None
        return key, seal(key, _TUPLE + body)

    def encode_key(self, values: Mapping[str, Datum] | Sequence[Datum]) -> bytes:
        """Return the key of a row. The row is given as for `encode`.

        If datums are given by name, those of the primary key are enough.
        """
        try:
            return self._write_key(self._layout.arrange(values))
        except EncodingError as error:
            raise EncodingError(f"table {self.descriptor.name}: {error}") from None

    def _present(self, key_datums: list[Any], body: bytes) -> Row:
        if body[0] != ValueTag.TUPLE:
            raise EncodingError(f"the value has tag {body[0]} where a row has {int(ValueTag.TUPLE)}")
        layout = self._layout
        slots = layout.blank.copy()
        for slot, datum in zip(layout.key_slots, key_datums, strict=True):
            slots[slot] = datum
        self._tuple.read_into(slots, body, 1)
        if layout.composites:
            key_datums = [slots[slot] for slot in layout.key_slots]
            if None in key_datums:
                raise EncodingError(self._null_in_key(key_datums))
        return Row(self.descriptor, tuple(key_datums), tuple(slots[: layout.in_rows]))

    def _null_in_key(self, key_datums: list[Any]) -> str:
        column = self._layout.key_columns[key_datums.index(None)]
        if column.type.kind is Kind.COLLATED_STRING:
            return "a collated string of the key is missing in the value"
        return f"column {column.name} of the key is NULL in the value"

    def _deleted(self, key_datums: list[Any]) -> Row:
        if self._collated_key:
            raise EncodingError(
                "a deletion does not name its row: the key holds a collated string's sort key"
            )
        return Row(self.descriptor, tuple(key_datums), None)

    def _is_interleaved(self, key: bytes, position: int) -> bool:
        """Return whether the key belongs to a row of another table.

        Raises `EncodingError` for an unknown column family.
        """
        if key[position : position + 1] == _INTERLEAVED:
            return True
        family_id = decode_family_suffix(key, position)
        raise EncodingError(f"the key is of column family {family_id}, the table has family 0 only")

    def _write_key(self, slots: list[Any]) -> bytes:
        layout = self._layout
        for column, slot in zip(layout.key_columns, layout.key_slots, strict=True):
            if slots[slot] is None:
                raise EncodingError(f"primary key column {column.name} is NULL")
        return self._index.write([slots[slot] for slot in layout.key_slots]) + FAMILY_ZERO

    def _located(self, key: bytes, error: RowError) -> str:
        return f"table {self.descriptor.name}, key {shortened(key)}: {error}"


def _primary_index(descriptor: TableDescriptor, layout: RowLayout) -> IndexKeyCodec:
    directions = [part.descending for part in descriptor.primary_key]
    codecs = [
        key_codec(column.type, descending)
        for column, descending in zip(layout.key_columns, directions, strict=True)
    ]
    return IndexKeyCodec(descriptor.id, descriptor.primary_index_id, codecs)


def _refuse_unsupported(descriptor: TableDescriptor) -> None:
    key_ids = {part.column_id for part in descriptor.primary_key}
    if len(descriptor.families) > 1:
        names = ", ".join(family.name for family in descriptor.families)
        raise UnsupportedTable(
            f"table {descriptor.name} has {len(descriptor.families)} column families ({names}): this version "
            "feeds tables with one family; merge them with ALTER TABLE or leave the table out of the feed"
        )
    twice = descriptor.repeated_name
    if twice is not None:
        raise UnsupportedTable(
            f"table {descriptor.name} has several columns named {twice}, and records name columns: the "
            "source has to give each of them another name, in a later version of the table"
        )
    for column in descriptor.columns:
        if column.type.kind is Kind.ARRAY and column.type.element is None:
            raise UnsupportedTable(
                f"table {descriptor.name}: column {column.name} is an array without an element type"
            )
        if column.id in key_ids and not has_key_form(column.type):
            raise UnsupportedTable(
                f"table {descriptor.name} has a {sql_type_text(column.type)} column in its primary key, "
                f"{column.name}: this version reads no keys of that type, leave the table out of the feed"
            )
