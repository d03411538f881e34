"""Encodes rows into the bodies of Avro keys and values: one encoder per table version and feed, made once.

The values, for a table foo (a INT PRIMARY KEY, b STRING), as Avro's JSON text:

| envelope | row | deletion |
|---|---|---|
| wrapped | ``{"after": {"foo": {"a": {"long": 1}, "b": {"string": "x"}}}}`` | ``{"after": null}`` |
| bare | ``{"record": {"foo": {"a": {"long": 1}, "b": {"string": "x"}}}}`` | the key's columns and nulls |
| enriched | ``{"after": {...}, "ts_ns": {"long": 1}, "op": {"string": "c"}}`` | ``"after": null``, ``"d"`` |
| key_only | empty | empty |

The key is a record ``foo`` of the primary key's columns in index order, the value a record ``foo_envelope``.
Beside ``after`` stand ``before`` (a record ``foo_before``), ``updated`` and ``mvcc_timestamp`` if they are
asked for. The enriched envelope has these two timestamps in its ``source``. Source: CockroachDB
``pkg/ccl/changefeedccl/encoder_avro.go``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidegate.changefeed.definition.feed import TableName
from tidegate.changefeed.definition.names import avro_name
from tidegate.changefeed.definition.options import Envelope, FeedOptions
from tidegate.changefeed.definition.table_topics import value_subject
from tidegate.changefeed.encoding.avro.body import NULL, Branch, body_writer
from tidegate.changefeed.encoding.avro.enriched import enriched_fields
from tidegate.changefeed.encoding.avro.envelope_field import EnvelopeField
from tidegate.changefeed.encoding.avro.key import compile_key
from tidegate.changefeed.encoding.avro.marker import marker_schema
from tidegate.changefeed.encoding.avro.row_record import row_record
from tidegate.changefeed.encoding.avro.schema_text import (
    envelope_name,
    full_name,
    namespace_of,
    nullable_field,
    record_schema,
    schema_text,
)
from tidegate.changefeed.encoding.columns import public_columns, shown_columns
from tidegate.changefeed.encoding.confluent import RecordSchemas, SubjectSchema
from tidegate.changefeed.encoding.record_encoder import RecordEncoder
from tidegate.changefeed.encoding.replaced import require_previous
from tidegate.errors import UnsupportedTable
from tidegate.hlc import Timestamp
from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.row import Row
from tidegate.rows.types import Datum

BEFORE: Final = "before"
AFTER: Final = "after"
RECORD: Final = "record"
UPDATED: Final = "updated"
MVCC_TIMESTAMP: Final = "mvcc_timestamp"


def compile_avro(table: TableDescriptor, options: FeedOptions) -> RecordEncoder:
    """Return the encoder for a table version.

    Raises ``UnsupportedTable`` for a table that has no Avro form.
    """
    key_schema, write_key = compile_key(table, options)
    name = TableName.of(table)
    if options.envelope is Envelope.KEY_ONLY:
        # No value is ever written, so the only schema of the subject of values is that of markers.
        schemas = RecordSchemas(key_schema, marker_schema(name, options))
        return RecordEncoder(lambda row, _: (write_key(row), b""), schemas)

    fields = _fields(table, options)
    record = record_schema(
        envelope_name(name, options), [each.schema for each in fields], namespace_of(name, options)
    )
    value_schema = SubjectSchema(value_subject(name, options), schema_text(record))
    write_value = body_writer(value_schema.text, table.name)
    members = [(each.schema["name"], each.member) for each in fields]

    def encode(row: Row, timestamp: Timestamp) -> tuple[bytes, bytes | None]:
        return write_key(row), write_value({name: member(row, timestamp) for name, member in members})

    return RecordEncoder(encode, RecordSchemas(key_schema, value_schema))


def _fields(table: TableDescriptor, options: FeedOptions) -> list[EnvelopeField]:
    """Return the fields that the options ask for, in CockroachDB's order."""
    stamps = [
        _stamp(name)
        for name, asked in ((UPDATED, options.updated), (MVCC_TIMESTAMP, options.mvcc_timestamp))
        if asked
    ]
    match options.envelope:
        case Envelope.WRAPPED:
            after = _row_field(table, options, AFTER, lambda row: row.values)
            return [*_before(table, options), after, *stamps]
        case Envelope.ENRICHED:
            after = _row_field(table, options, AFTER, lambda row: row.values)
            return [*_before(table, options), after, *enriched_fields(table, options)]
        case Envelope.BARE:
            return [*stamps, _row_field(table, options, RECORD, _present_or_key(table))]
    raise UnsupportedTable(
        f"table {table.name}: envelope={options.envelope.value} has no Avro form; use envelope=wrapped, "
        "enriched, bare, key_only, upsert or debezium, or format=json"
    )


def _row_field(
    table: TableDescriptor,
    options: FeedOptions,
    name: str,
    datums: Callable[[Row], tuple[Datum, ...] | None],
    suffix: str = "",
) -> EnvelopeField:
    """Return a field that holds a row, or null for no row.

    The row's record is always named by the table alone.
    """
    namespace = namespace_of(TableName.of(table), options)
    record_name = avro_name(table.name) + suffix
    columns = shown_columns(table, options)
    nulls = [column for column in columns if column.virtual]
    record = row_record(table, columns, record_name, namespace, nulls)
    branch, fill = full_name(record_name, namespace), record.fill

    def member(row: Row, _: Timestamp) -> Branch:
        values = datums(row)
        return (branch, fill(values)) if values else NULL

    return EnvelopeField(nullable_field(name, [record.schema]), member)


def _stamp(name: str) -> EnvelopeField:
    """Return the field of a timestamp. The two timestamps differ for rows of a scan."""

    def member(row: Row, timestamp: Timestamp) -> Branch:
        shown = row.updated(timestamp) if name == UPDATED else timestamp
        return "string", shown.decimal()

    return EnvelopeField(nullable_field(name, ["string"]), member)


def _before(table: TableDescriptor, options: FeedOptions) -> list[EnvelopeField]:
    if not options.diff:
        return []
    return [_row_field(table, options, BEFORE, lambda row: require_previous(row, options), "_before")]


def _present_or_key(table: TableDescriptor) -> Callable[[Row], tuple[Datum, ...]]:
    """Return what gives a row's datums; for a deleted row those of its primary key, and nulls."""
    positions = {part.column_id: position for position, part in enumerate(table.primary_key)}
    places = [positions.get(column.id) for column in public_columns(table)]

    def datums(row: Row) -> tuple[Datum, ...]:
        if row.values is not None:
            return row.values
        return tuple([None if place is None else row.key[place] for place in places])

    return datums
