"""Reads the bytes of Avro records back.

Each key and value names the schema that it was written with, and is read by that schema, whatever version of
the table the schema belongs to.
"""

from __future__ import annotations

import json
from functools import lru_cache
from io import BytesIO
from typing import Any, Final, NamedTuple, TypeAlias

from fastavro import parse_schema, schemaless_reader
from fastavro.types import Schema as ParsedSchema

from tidegate.changefeed.definition.names import sql_name
from tidegate.changefeed.encoding.avro.decimal_reader import with_bounded_decimals
from tidegate.changefeed.encoding.avro.envelope import AFTER, BEFORE, RECORD
from tidegate.changefeed.encoding.avro.schema_bounds import schema_fault
from tidegate.changefeed.encoding.confluent import unframe
from tidegate.changefeed.encoding.quoted import quoted_error, quoted_schema
from tidegate.changefeed.encoding.record import SchemaText
from tidegate.errors import MalformedRecord
from tidegate.hlc import Timestamp, parse_decimal

Fields: TypeAlias = dict[str, Any]

#: The most schemas that are kept. A feed has two for each version of each of its tables, and one for the
#: markers of each table.
MAX_SCHEMAS: Final = 1000
_ROWS: Final = frozenset({BEFORE, AFTER, RECORD})
#: Logical types with values outside Python's calendar, such as the year 10000 or the time 24:00.
_CALENDAR: Final = frozenset({"date", "time-micros", "timestamp-micros"})
#: The errors that fastavro raises for bytes that its schema does not fit.
_UNREADABLE: Final = (ValueError, TypeError, KeyError, EOFError, IndexError, ArithmeticError, MemoryError)

_column_name = lru_cache(maxsize=4096)(sql_name)


class _WriterSchema(NamedTuple):
    """A schema for reading, and the same schema with dates and times as numbers."""

    parsed: ParsedSchema
    in_numbers: ParsedSchema


class AvroReader:
    """Reads keys and values by the schemas that they name.

    Columns come as fastavro gives them: ``datetime``, ``date``, ``time`` and ``Decimal`` for logical types.
    When a record has a date or time outside Python's calendar, all of its dates and times come as numbers.
    A record with a decimal of more than ``BYTES_MAX`` bytes (``decimal_reader``) is not read.
    """

    __slots__ = ("_schema_text", "_schemas")

    def __init__(self, schema_text: SchemaText) -> None:
        self._schema_text = schema_text
        self._schemas: dict[int, _WriterSchema] = {}

    def read(self, data: bytes | None) -> Fields:
        """Return the fields of a framed record.

        Raises ``ValueError`` or ``TypeError`` for bytes that are no such record. Raises ``MalformedRecord``
        for bytes without a frame, and for a schema that is no Avro schema or that no feed writes.
        """
        if not data:
            raise ValueError("nothing there")
        schema_id, body = unframe(data)
        schema = self._schema(schema_id)
        try:
            fields = _read_body(body, schema)
        except _UNREADABLE as error:
            raise ValueError(f"bytes that schema {schema_id} does not fit: {error!r}") from None
        if not isinstance(fields, dict):
            raise TypeError(f"schema {schema_id} is not of a record")
        return fields

    def _schema(self, schema_id: int) -> _WriterSchema:
        known = self._schemas.get(schema_id)
        if known is None:
            known = _parsed(schema_id, self._schema_text(schema_id))
            if len(self._schemas) >= MAX_SCHEMAS:
                del self._schemas[next(iter(self._schemas))]
            self._schemas[schema_id] = known
        return known


def _read_body(body: bytes, schema: _WriterSchema) -> Any:
    try:
        return _read_whole(body, schema.parsed)
    except (ValueError, OverflowError):
        return _read_whole(body, schema.in_numbers)


def _read_whole(body: bytes, schema: ParsedSchema) -> Any:
    buffer = BytesIO(body)
    datum = schemaless_reader(buffer, schema, None)
    if buffer.tell() != len(body):
        raise ValueError(f"{len(body) - buffer.tell()} bytes too many")
    return datum


def _parsed(schema_id: int, text: str) -> _WriterSchema:
    try:
        schema = json.loads(text, object_hook=_without_marks)
        fault = schema_fault(parse_schema(schema))
        bounded = with_bounded_decimals(schema)
        parsed = _WriterSchema(parse_schema(bounded), parse_schema(_in_numbers(bounded)))
    except Exception as error:  # fastavro has no error of its own for text that is no schema
        raise MalformedRecord(
            f"schema {schema_id} is not an Avro schema ({quoted_error(error)}): {quoted_schema(text)}"
        ) from None
    if fault:
        raise MalformedRecord(f"no feed writes schema {schema_id}: {fault}: {quoted_schema(text)}")
    return parsed


def _without_marks(members: dict[str, Any]) -> dict[str, Any]:
    """Leave out the marks of a schema that fastavro has parsed.

    fastavro does not check a schema with such a mark, because the mark says that it was parsed already.
    """
    return {name: value for name, value in members.items() if not name.startswith("__")}


def _in_numbers(schema: Any) -> Any:
    match schema:
        case list():
            return [_in_numbers(branch) for branch in schema]
        case {"type": kind, "logicalType": logical} if logical in _CALENDAR:
            return kind
        case dict():
            return {name: _in_numbers(value) for name, value in schema.items()}
    return schema


def renamed(value: Fields) -> Fields:
    """Return an envelope in which the columns of rows have their SQL names."""
    return {name: columns_of(member) if name in _ROWS else member for name, member in value.items()}


def columns_of(row: Fields | None) -> dict[str, Any] | None:
    """Return a row's columns under their SQL names."""
    if row is None:
        return None
    if not isinstance(row, dict):
        raise TypeError(f"expected a row, not {row!r}")
    return {_column_name(name): value for name, value in row.items()}


def stamp_of(members: Fields, name: str) -> Timestamp | None:
    """Return a timestamp; ``None`` if the feed does not write it."""
    return parse_decimal(members[name]) if name in members else None
