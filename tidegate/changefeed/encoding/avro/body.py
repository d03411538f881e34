"""Records of one schema as Avro's binary form, written by fastavro.

A datum of a union comes with the name of its branch, as in ``("long", 1)``. Without the name fastavro needs
more time to find the branch than to write the value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Any, Final, TypeAlias

from fastavro import parse_schema, schemaless_writer
from fastavro.schema import SchemaParseException

from tidegate.changefeed.encoding.key_fault import not_utf8
from tidegate.changefeed.encoding.row_templates import Stamp
from tidegate.changefeed.text.surrogates import LONE_SURROGATE
from tidegate.errors import UnsupportedTable
from tidegate.hlc import Timestamp
from tidegate.rows.valueside.varints import encode_zigzag

#: A datum of a union: the name of its branch, and the datum.
Branch: TypeAlias = tuple[str, Any]
#: The fields of a record by their Avro names.
Fields: TypeAlias = dict[str, Any]
WriteBody: TypeAlias = Callable[[Fields], bytes]

NULL: Final[Branch] = ("null", None)
#: The number of the branch, as it is written before a datum of a union with null: that of null, and that of
#: the first branch after null.
NULL_BYTES: Final = b"\x00"
FIRST_BYTES: Final = b"\x02"


def body_writer(text: str, table_name: str) -> WriteBody:
    """Return a writer of records of the schema with this text.

    Each byte of a string that was not UTF-8 becomes U+FFFD, so that every consumer can read the record.
    Raises ``UnsupportedTable`` for a text that is no Avro schema, for example that of a decimal with more
    places than digits.
    """
    write_valid = _writer(text, table_name)

    def write(record: Fields) -> bytes:
        try:
            return write_valid(record)
        except UnicodeEncodeError:
            return write_valid(_with_valid_text(record))

    return write


def key_writer(text: str, table_name: str, columns: Sequence[str]) -> WriteBody:
    """Return a writer of keys; ``columns`` are the names of the fields' columns, in the order of the fields.

    The writer raises ``RowError`` for bytes that were not UTF-8: if they were replaced, two keys could become
    one.
    """
    write_valid = _writer(text, table_name)

    def write(record: Fields) -> bytes:
        try:
            return write_valid(record)
        except UnicodeEncodeError:
            fields = zip(columns, record.values(), strict=True)
            column = next(name for name, datum in fields if _with_valid_text(datum) != datum)
            raise not_utf8(table_name, column) from None

    return write


def _writer(text: str, table_name: str) -> WriteBody:
    """Return a writer that raises ``UnicodeEncodeError`` for text that is not UTF-8."""
    try:
        schema = parse_schema(json.loads(text))
    except SchemaParseException as error:
        raise UnsupportedTable(f"table {table_name} has no Avro schema: {error} ({text})") from None

    def write(record: Fields) -> bytes:
        buffer = BytesIO()
        schemaless_writer(buffer, schema, record)
        return buffer.getvalue()

    return write


def _with_valid_text(datum: Any) -> Any:
    match datum:
        case str():
            return LONE_SURROGATE.sub("\ufffd", datum)
        case dict():
            return {name: _with_valid_text(value) for name, value in datum.items()}
        case list():
            return [_with_valid_text(item) for item in datum]
        case (branch, value):
            return branch, _with_valid_text(value)
    return datum


def stamp_bytes(stamp: Stamp, at: Timestamp) -> bytes:
    """Return the bytes of a timestamp in an Avro body: a long for wall times, otherwise a string."""
    match stamp:
        case Stamp.WALL_NS:
            return encode_zigzag(at.wall)
        case Stamp.WALL_MS:
            return encode_zigzag(at.wall_ms)
    return string_bytes(at.decimal())


def string_bytes(text: str) -> bytes:
    """Return a string's bytes in an Avro body. As in every body, what was not UTF-8 becomes U+FFFD."""
    data = LONE_SURROGATE.sub("\ufffd", text).encode()
    return encode_zigzag(len(data)) + data
