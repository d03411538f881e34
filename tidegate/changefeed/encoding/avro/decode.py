"""Reads Avro records back, for consumers, for the audit and for ``tail``.

Each key and value names the schema that it was written with, and is read by that schema, whatever its version
of the table.
"""

from __future__ import annotations

import json
from functools import lru_cache
from io import BytesIO
from typing import Any, Final, NamedTuple, TypeAlias

from fastavro import parse_schema, schemaless_reader
from fastavro.types import Schema as ParsedSchema

from tidegate.changefeed.definition.names import sql_name
from tidegate.changefeed.definition.options import Envelope, FeedOptions, OnOversize
from tidegate.changefeed.encoding.avro.enriched import SOURCE
from tidegate.changefeed.encoding.avro.envelope import AFTER, BEFORE, MVCC_TIMESTAMP, RECORD, UPDATED
from tidegate.changefeed.encoding.avro.schema_bounds import schema_fault
from tidegate.changefeed.encoding.confluent import unframe
from tidegate.changefeed.encoding.record import (
    MAY_LEAVE_OUT,
    Headers,
    MarkerRecord,
    Record,
    RowRecord,
    SchemaText,
    bare_deleted,
    change_record,
    key_only_record,
    oversize_record,
    wrapped_record,
)
from tidegate.changefeed.encoding.value_members import any_members, value_members
from tidegate.errors import MalformedRecord
from tidegate.hlc import ResolvedTimestamp, Timestamp, parse_decimal

_Fields: TypeAlias = dict[str, Any]

#: The most schemas that are kept. A feed has two for each version of each of its tables, and one for its
#: markers.
MAX_SCHEMAS: Final = 1000
_RESOLVED: Final = "resolved"
_ROWS: Final = frozenset({BEFORE, AFTER, RECORD})
#: Logical types with values outside Python's calendar, such as the year 10000 or the time 24:00.
_CALENDAR: Final = frozenset({"date", "time-micros", "timestamp-micros"})
#: What fastavro raises for bytes that its schema does not fit.
_UNREADABLE: Final = (ValueError, TypeError, KeyError, EOFError, IndexError, ArithmeticError, MemoryError)

_column_name = lru_cache(maxsize=4096)(sql_name)


class _WriterSchema(NamedTuple):
    """A schema for reading, and the same schema with dates and times as numbers."""

    parsed: ParsedSchema
    in_numbers: ParsedSchema


class AvroDecoder:
    """Reads the Avro records of one feed.

    Columns come as fastavro gives them: ``datetime``, ``date``, ``time`` and ``Decimal`` for logical types.
    When a record has a date or time outside Python's calendar, all of its dates and times come as numbers.
    """

    __slots__ = ("_envelope", "_members", "_oversize", "_row_keys", "_schema_text", "_schemas")

    def __init__(self, options: FeedOptions, schema_text: SchemaText, *, whole: bool = True) -> None:
        self._envelope = options.envelope
        self._members = value_members(options) if whole else any_members(options.envelope, options.format)
        left_out = options.on_oversize is OnOversize.KEY_ONLY or not whole
        self._oversize = left_out and options.envelope in MAY_LEAVE_OUT
        self._row_keys = not options.key_column
        self._schema_text = schema_text
        self._schemas: dict[int, _WriterSchema] = {}

    @property
    def tombstones(self) -> bool:
        """Whether each deletion's record is followed by a tombstone."""
        return self._envelope is Envelope.DEBEZIUM

    def decode(self, key: bytes | None, value: bytes | None, headers: Headers = ()) -> Record:
        """Read one record. Raises ``MalformedRecord`` for a record that this feed cannot have written."""
        try:
            if key is None:
                return self._marker(value)
            if value == b"" and self._oversize:
                return oversize_record(tuple(self._read(key).values()), headers)
            return self._row(tuple(self._read(key).values()), value)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise MalformedRecord(
                f"not an Avro record of the {self._envelope.value} envelope ({error!r}): "
                f"key {key!r}, value {value!r}"
            ) from None

    def _marker(self, value: bytes | None) -> MarkerRecord:
        ((name, resolved),) = self._read(value).items()
        if name != _RESOLVED:
            raise ValueError(f"a marker has the field {_RESOLVED}, not {name}")
        return MarkerRecord(ResolvedTimestamp(parse_decimal(resolved)))

    def _row(self, key: tuple[Any, ...], value: bytes | None) -> RowRecord:
        match self._envelope:
            case Envelope.WRAPPED:
                return wrapped_record(key, _renamed(self._read(value)), self._members)
            case Envelope.BARE:
                return self._bare(key, self._read(value))
            case Envelope.KEY_ONLY:
                return key_only_record(key, value)
            case Envelope.UPSERT if value is None:
                return RowRecord(key, None, deleted=True)
            case Envelope.UPSERT:
                return RowRecord(key, _columns(self._read(value)), deleted=False)
            case Envelope.ENRICHED:
                return change_record(key, _enriched(self._read(value)), self._members, self._envelope)
            case Envelope.DEBEZIUM if value is None:
                return RowRecord(key, None, deleted=True, tombstone=True)
            case Envelope.DEBEZIUM:
                return change_record(key, _renamed(self._read(value)), self._members, self._envelope)
            case _:
                raise ValueError("this envelope has no Avro form")

    def _bare(self, key: tuple[Any, ...], value: _Fields) -> RowRecord:
        self._members.value.require(value.keys())
        members = _renamed(value)
        row = members[RECORD]
        if row is None:
            raise ValueError(f"{RECORD} is null")
        deleted = bare_deleted(key, row, row_keys=self._row_keys)
        return RowRecord(key, row, deleted, _stamp(members, UPDATED), _stamp(members, MVCC_TIMESTAMP))

    def _read(self, data: bytes | None) -> _Fields:
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
        parsed = _WriterSchema(parse_schema(schema), parse_schema(_in_numbers(schema)))
        fault = schema_fault(parsed.parsed)
    except Exception as error:  # fastavro has no error of its own for text that is no schema
        raise MalformedRecord(f"schema {schema_id} is not an Avro schema ({error!r}): {text}") from None
    if fault:
        raise MalformedRecord(f"schema {schema_id} is of no feed: {fault}: {text}")
    return parsed


def _without_marks(members: dict[str, Any]) -> dict[str, Any]:
    """Leave out the marks of a schema that fastavro has parsed.

    It checks nothing in a schema with such a mark.
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


def _renamed(value: _Fields) -> _Fields:
    """Return an envelope in which the columns of rows have their SQL names."""
    return {name: _columns(member) if name in _ROWS else member for name, member in value.items()}


def _enriched(value: _Fields) -> _Fields:
    """Return the members as JSON has them: ``source`` without members that are null."""
    members = _renamed(value)
    source = members.get(SOURCE)
    if not isinstance(source, dict):
        return members
    return {**members, SOURCE: {name: each for name, each in source.items() if each is not None}}


def _columns(row: _Fields | None) -> dict[str, Any] | None:
    if row is None:
        return None
    if not isinstance(row, dict):
        raise TypeError(f"expected a row, not {row!r}")
    return {_column_name(name): value for name, value in row.items()}


def _stamp(members: _Fields, name: str) -> Timestamp | None:
    return parse_decimal(members[name]) if name in members else None
