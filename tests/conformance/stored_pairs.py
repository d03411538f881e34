"""Stored pairs as an encoder would write them: readers take more forms than anyone writes.

A pair may have a tenant in its key, an MVCC header before its value, no checksum, NULLs that are spelled out,
and columns that the table does not know. All of that is read, and none of it is written.
"""

from __future__ import annotations

from tests.conformance.table_text import TableText
from tidegate.rows.table_key import table_start
from tidegate.rows.value_frame import ValueTag, ordinary, seal, unseal
from tidegate.rows.valueside.tags import WireType, decode_tag, encode_tag, skip_datum


def as_written(table: TableText, key: bytes, value: bytes) -> tuple[bytes, bytes]:
    """Key and value of a pair that is not a tombstone. Raises ``RowError`` for a damaged one."""
    body = unseal(key, ordinary(value))
    if body[0] == ValueTag.TUPLE:
        body = body[:1] + _known_columns({column.id for column in table.descriptor.columns}, body)
    plain = key[table_start(key) :]
    return plain, seal(plain, body)


def _known_columns(known: set[int], body: bytes) -> bytes:
    """The datums of known columns that are not NULL, with their tags."""
    kept, position, column_id, last_id = b"", 1, 0, 0
    while position < len(body):
        delta, wire_type, start = decode_tag(body, position)
        column_id += delta
        position = skip_datum(body, start, wire_type)
        if column_id in known and wire_type != WireType.NULL:
            kept += encode_tag(column_id - last_id, wire_type) + body[start:position]
            last_id = column_id
    return kept
