"""Entries of secondary indexes. A feed passes over them; only the cases take them apart.

    key   = index columns [primary key columns] [old stored columns] | 88
    value = BYTES: [primary key columns] [old stored columns] [tuple of stored and composite columns]

The first brackets are filled when the index is not unique or an indexed column is NULL, those in the value
when it is unique. Source: CockroachDB docs/tech-notes/encoding.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from tests.conformance.table_text import IndexText, TableText
from tidegate.errors import EncodingError
from tidegate.rows import Column
from tidegate.rows.composite import needs_value_form
from tidegate.rows.keyside.datums import KeyCodec, key_codec, nullable
from tidegate.rows.table_key import FAMILY_ZERO, decode_family_suffix, index_prefix
from tidegate.rows.value_frame import ValueTag, seal, unseal
from tidegate.rows.valueside.tuples import TupleCodec

_BYTES: Final = bytes((ValueTag.BYTES,))


class IndexEntryCodec:
    """Reads and writes the entries of one secondary index; datums go by column name."""

    def __init__(self, table: TableText, index: IndexText) -> None:
        self._prefix = index_prefix(table.descriptor.id, index.id)
        self._unique = index.unique
        self._columns = table.descriptor.columns
        self._indexed = [_part(table.column(p.column_id), p.descending) for p in index.parts]
        indexed_ids = {part.column_id for part in index.parts}
        implicit = [p.column_id for p in table.descriptor.primary_key if p.column_id not in indexed_ids]
        self._implicit = [_part(table.column(column_id), False) for column_id in implicit]
        self._stored = [table.column(column_id) for column_id in index.stored]
        self._stored_old = [_part(column, False) for column in self._stored if index.stored_in_key_form]
        in_key_form = [*(column for column, _ in self._indexed), *(column for column, _ in self._implicit)]
        self._composite = [column for column in in_key_form if needs_value_form(column.type)]
        self._tuple = TupleCodec(self._columns)

    def decode(self, key: bytes, value: bytes) -> dict[str, Any]:
        """The entry's datums."""
        if not key.startswith(self._prefix):
            raise EncodingError("the key is not of this index")
        datums, position = _read(self._indexed, key, len(self._prefix))
        if not self._unique or None in datums.values():
            extra, position = _read([*self._implicit, *self._stored_old], key, position)
            datums |= extra
        if decode_family_suffix(key, position) != 0:
            raise EncodingError("the entry is not of family 0")
        return self._decode_value(datums, unseal(key, value))

    def encode(self, datums: Mapping[str, Any]) -> tuple[bytes, bytes]:
        """Key and value of an entry; `EncodingError` for an indexed collated string."""
        key = self._prefix + _write(self._indexed, datums)
        extra = _write([*self._implicit, *self._stored_old], datums)
        if not self._unique or any(datums[column.name] is None for column, _ in self._indexed):
            key += extra
        key += FAMILY_ZERO
        return key, self.encode_value(key, datums)

    def encode_value(self, key: bytes, datums: Mapping[str, Any]) -> bytes:
        """The value that goes with ``key``."""
        body = _write([*self._implicit, *self._stored_old], datums) if self._unique else b""
        included = {column.id for column in self._stored if not self._stored_old}
        for column in self._composite:
            test = needs_value_form(column.type)
            if datums[column.name] is not None and test is not None and test(datums[column.name]):
                included.add(column.id)
        slots = [datums.get(column.name) for column in self._columns]
        chosen = {slot for slot, column in enumerate(self._columns) if column.id in included}
        return seal(key, _BYTES + body + self._tuple.write(slots, chosen))

    def _decode_value(self, datums: dict[str, Any], body: bytes) -> dict[str, Any]:
        if body[0] != ValueTag.BYTES:
            raise EncodingError(f"the value has tag {body[0]}")
        position = 1
        if self._unique:
            extra, position = _read([*self._implicit, *self._stored_old], body, position)
            datums |= extra
        slots: list[Any] = [datums.get(column.name) for column in self._columns]
        self._tuple.read_into(slots, body, position)
        entry = {column.name: slots[slot] for slot, column in enumerate(self._columns)}
        known = {*datums, *(column.name for column in self._stored)}
        return {name: datum for name, datum in entry.items() if name in known}


def _part(column: Column, descending: bool) -> tuple[Column, KeyCodec]:
    return column, nullable(key_codec(column.type, descending), descending)


def _read(parts: Iterable[tuple[Column, KeyCodec]], data: bytes, position: int) -> tuple[dict[str, Any], int]:
    datums: dict[str, Any] = {}
    for column, codec in parts:
        datums[column.name], position = codec.decode(data, position)
    return datums, position


def _write(parts: Iterable[tuple[Column, KeyCodec]], datums: Mapping[str, Any]) -> bytes:
    return b"".join(codec.encode(datums.get(column.name)) for column, codec in parts)
