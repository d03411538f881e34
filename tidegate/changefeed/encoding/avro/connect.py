"""Rows and changes as Avro for Kafka Connect.

Values, decimals included, are converted before fastavro writes them. fastavro writes bytes as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tidegate.changefeed.definition.feed import TableName
from tidegate.changefeed.definition.names import avro_name
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.definition.table_topics import key_subject, value_subject
from tidegate.changefeed.encoding.avro.body import NULL, Fields, body_writer, key_writer
from tidegate.changefeed.encoding.avro.connect_schema import branch_of, schema_text
from tidegate.changefeed.encoding.confluent import RecordSchemas, SubjectSchema
from tidegate.changefeed.encoding.connect import schema as connect
from tidegate.changefeed.encoding.connect.record_schemas import (
    ConnectColumn,
    compile_before,
    key_of,
    located,
    row_columns,
    value_schema,
)
from tidegate.changefeed.encoding.debezium_source import source_texts
from tidegate.changefeed.encoding.record_encoder import RecordEncoder
from tidegate.changefeed.encoding.replaced import ChangeForm, operation, require_previous
from tidegate.errors import RowError, UnsupportedTable
from tidegate.hlc import Timestamp
from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.row import Row
from tidegate.rows.types import Datum

_Fill: TypeAlias = Callable[[Sequence[Datum]], Fields]
_Value: TypeAlias = Callable[[Row, Timestamp], Fields | None]


def compile_connect_avro(
    table: TableDescriptor, options: FeedOptions, form: ChangeForm | None
) -> RecordEncoder:
    """Return the encoder for a table version.

    It encodes changes in the form ``form``. If ``form`` is ``None``, it encodes rows by themselves.

    Raises ``UnsupportedTable`` for a table that has no form in Kafka Connect.
    """
    key, columns = key_of(table, options), row_columns(table, options)
    value = value_schema(table, options, columns, change=form is not None)
    schemas = _schemas(table, options, key.schema, value)
    write_key = key_writer(schemas.key.text, table.name, [column.name for column in key.columns])
    write_value = body_writer(schemas.value.text, table.name)
    fill_key = _fill(table, key.columns, unions=key.schema.fields[0].optional)
    fill_value = _value(table, options, columns, value, form)

    def encode(row: Row, timestamp: Timestamp) -> tuple[bytes, bytes | None]:
        record = fill_value(row, timestamp)
        return write_key(fill_key(key.datums(row))), None if record is None else write_value(record)

    return RecordEncoder(encode, schemas)


def _schemas(
    table: TableDescriptor, options: FeedOptions, key: connect.Schema, value: connect.Schema
) -> RecordSchemas:
    name = TableName.of(table)
    try:
        return RecordSchemas(
            SubjectSchema(key_subject(name, options), schema_text(key)),
            SubjectSchema(value_subject(name, options), schema_text(value)),
        )
    except UnsupportedTable as error:
        raise UnsupportedTable(f"table {table.name}: {error}") from None


def _value(
    table: TableDescriptor,
    options: FeedOptions,
    columns: Sequence[ConnectColumn],
    schema: connect.Schema,
    form: ChangeForm | None,
) -> _Value:
    fill = _fill(table, columns, unions=True)
    if form is None:
        return lambda row, _: None if row.values is None else fill(row.values)
    return _change(table, options, fill, schema.fields[0].schema.name, form)


def _change(
    table: TableDescriptor, options: FeedOptions, fill: _Fill, row_name: str, form: ChangeForm
) -> _Value:
    """Return a function that makes the envelope's record.

    It raises ``RowError`` for a row whose previous value is not known.
    """

    texts, before_of = source_texts(table, options), compile_before(table)
    scanned_texts = source_texts(table, options, scanned=True)

    def change(row: Row, timestamp: Timestamp) -> Fields:
        previous = require_previous(row, options, form)
        before = before_of(row, previous)
        updated = row.updated(timestamp)
        wall_ms = updated.wall_ms
        return {
            "before": (row_name, fill(before)) if before else NULL,
            "after": NULL if row.values is None else (row_name, fill(row.values)),
            "source": {
                **(texts if row.scanned_at is None else scanned_texts),
                "ts_hlc": updated.decimal(),
                "ts_ms": wall_ms,
                "ts_ns": updated.wall,
            },
            "op": operation(row, previous, form),
            "ts_ms": ("long", wall_ms),
        }

    return change


def _fill(table: TableDescriptor, columns: Sequence[ConnectColumn], *, unions: bool) -> _Fill:
    """Return a function that makes a record of datums.

    With ``unions`` the record's values name their branch. Without ``unions`` no datum may be NULL.
    """
    converts = [column.type.convert for column in columns]
    slots = [
        (avro_name(column.name), column.position, branch_of(column.type.schema), column.type.convert)
        for column in columns
    ]

    def branches(datums: Sequence[Datum]) -> Fields:
        return {
            name: NULL
            if (datum := datums[at]) is None
            else (branch, datum if convert is None else convert(datum))
            for name, at, branch, convert in slots
        }

    def values(datums: Sequence[Datum]) -> Fields:
        return {
            name: datums[at] if convert is None else convert(datums[at]) for name, at, _, convert in slots
        }

    make = branches if unions else values

    def fill(datums: Sequence[Datum]) -> Fields:
        try:
            return make(datums)
        except RowError as error:
            raise located(table.name, columns, converts, datums, error) from None

    return fill
