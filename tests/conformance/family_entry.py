"""Key-value pairs of the primary index, of tables with column families too.

What a merge of families will be built of: the key's columns, the family suffix, and a tuple or a bare value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tests.conformance.table_text import TableText
from tidegate.errors import EncodingError
from tidegate.rows import Family, Kind
from tidegate.rows.index_key import IndexKeyCodec
from tidegate.rows.keyside.datums import key_codec
from tidegate.rows.row_layout import RowLayout
from tidegate.rows.table_key import decode_family_suffix, encode_family_suffix
from tidegate.rows.value_frame import ValueTag, ordinary, seal, unseal
from tidegate.rows.valueside.bare import bare_codec
from tidegate.rows.valueside.tuples import TupleCodec

_TUPLE: Final = bytes((ValueTag.TUPLE,))


def has_collated_key(table: TableText) -> bool:
    """Whether a column of the primary key is a collated string, whose key no one here can write."""
    return any(
        table.column(part.column_id).type.kind is Kind.COLLATED_STRING
        for part in table.descriptor.primary_key
    )


class FamilyEntryCodec:
    """Reads and writes the entries of a table's families; datums go by column name."""

    def __init__(self, table: TableText) -> None:
        self.table = table
        descriptor = table.descriptor
        self._layout = RowLayout(descriptor)
        codecs = [
            key_codec(table.column(part.column_id).type, part.descending) for part in descriptor.primary_key
        ]
        self._index = IndexKeyCodec(descriptor.id, descriptor.primary_index_id, codecs)
        self._tuple = TupleCodec(self._layout.columns)

    def decode(self, key: bytes, value: bytes) -> tuple[int, dict[str, Any] | None]:
        """Family id and the entry's datums, key columns included; ``None`` for a tombstone."""
        read = self._index.read(key)
        if read is None:
            raise EncodingError("the key is not of the primary index")
        datums, position = read
        family = self._family(decode_family_suffix(key, position))
        value = ordinary(value)
        if not value:
            return family.id, None
        slots = self._layout.blank.copy()
        for slot, datum in zip(self._layout.key_slots, datums, strict=True):
            slots[slot] = datum
        self._read_value(family, slots, unseal(key, value))
        names = {self.table.column(column_id).name for column_id in family.column_ids}
        names |= {column.name for column in self._layout.key_columns}
        entry = zip(self._layout.columns, slots, strict=True)
        return family.id, {column.name: datum for column, datum in entry if column.name in names}

    def encode_key(self, family_id: int, datums: Mapping[str, Any]) -> bytes:
        """The entry's key; `EncodingError` for a collated string."""
        key_datums = [datums[column.name] for column in self._layout.key_columns]
        return self._index.write(key_datums) + encode_family_suffix(family_id)

    def encode_value(self, key: bytes, family_id: int, datums: Mapping[str, Any]) -> bytes:
        """The value that goes with ``key``."""
        family = self._family(family_id)
        if family.default_column_id:
            column = self.table.column(family.default_column_id)
            codec = bare_codec(column.type)
            return seal(key, bytes((codec.tag,)) + codec.encode(datums[column.name]))
        slots = [datums.get(column.name) for column in self._layout.columns]
        included = self._layout.written_slots(slots) if family_id == 0 else self._layout.value_slots
        return seal(key, _TUPLE + self._tuple.write(slots, included))

    def _read_value(self, family: Family, slots: list[Any], body: bytes) -> None:
        if body[0] == ValueTag.TUPLE:
            self._tuple.read_into(slots, body, 1)
            return
        column = self.table.column(family.default_column_id)
        codec = bare_codec(column.type)
        if body[0] != codec.tag:
            raise EncodingError(f"the value has tag {body[0]}, its column {column.name} {int(codec.tag)}")
        slots[self._layout.columns.index(column)] = codec.decode(body[1:])

    def _family(self, family_id: int) -> Family:
        for family in self.table.descriptor.families:
            if family.id == family_id:
                return family
        raise EncodingError(f"the table has no family {family_id}")
