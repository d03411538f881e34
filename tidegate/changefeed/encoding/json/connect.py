"""Rows and changes with a schema, for Kafka Connect: ``{"payload": ..., "schema": ...}``.

Connect's own ``JsonConverter`` reads this form with ``schemas.enable=true``. The schema is the same text in
every record of a table version. Source: Apache Kafka ``org.apache.kafka.connect.json``.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.encoding.connect.record_schemas import (
    ConnectColumn,
    Key,
    compile_before,
    key_of,
    located,
    row_columns,
    value_schema,
)
from tidegate.changefeed.encoding.connect.schema import Field, Schema
from tidegate.changefeed.encoding.connect.types import ColumnType, Convert
from tidegate.changefeed.encoding.debezium_source import source_texts
from tidegate.changefeed.encoding.json.headers import compile_headers
from tidegate.changefeed.encoding.json.template import (
    NULL,
    Datums,
    compile_template,
    constant,
    datum,
    json_object,
)
from tidegate.changefeed.encoding.key_fault import not_utf8
from tidegate.changefeed.encoding.record_encoder import RecordEncoder
from tidegate.changefeed.encoding.replaced import ChangeForm, operation, require_previous
from tidegate.changefeed.text.json_text import TextEncoder, float_text, json_string, utf8
from tidegate.changefeed.text.row_bytes import array_texts
from tidegate.changefeed.text.surrogates import is_utf8
from tidegate.errors import RowError
from tidegate.hlc import Timestamp
from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.row import Row

_Text: TypeAlias = Callable[[Datums], str]
_Value: TypeAlias = Callable[[Row, Timestamp], str | None]

#: Types whose names in JSON differ from Connect's own.
_JSON_NAMES: Final = {"float32": "float", "float64": "double"}


def compile_connect_json(
    table: TableDescriptor, options: FeedOptions, form: ChangeForm | None
) -> RecordEncoder:
    """Return the encoder for a table version.

    It encodes changes in the form ``form``. If ``form`` is ``None``, it encodes rows by themselves.

    Raises ``UnsupportedTable`` for a table that has no form in Kafka Connect.
    """
    key, columns = key_of(table, options), row_columns(table, options)
    write_key = _key_writer(table.name, key)
    value = _value(table, options, columns, form)
    value_frame = _frame(value_schema(table, options, columns, change=form is not None))

    def encode(row: Row, timestamp: Timestamp) -> tuple[bytes, bytes | None]:
        text = value(row, timestamp)
        return write_key(row), None if text is None else value_frame(text)

    return RecordEncoder(encode, headers=compile_headers(table, options))


def _key_writer(table_name: str, key: Key) -> Callable[[Row], bytes]:
    """Return a printer of keys in their frame. It raises ``RowError`` for text that is not UTF-8."""
    text, frame = _row_text(table_name, key.columns), _frame(key.schema)

    def write(row: Row) -> bytes:
        datums = key.datums(row)
        payload = text(datums)
        if not payload.isascii() and not is_utf8(payload):
            raise not_utf8(table_name, _first_not_utf8(key, datums))
        return frame(payload)

    return write


def _first_not_utf8(key: Key, datums: Datums) -> str:
    told = (column for column in key.columns if datums[column.position] is not None)
    return next(
        column.name for column in told if not is_utf8(_text_encoder(column.type)(datums[column.position]))
    )


def _frame(schema: Schema) -> Callable[[str], bytes]:
    before, after = '{"payload": ', f', "schema": {schema_text(schema)}}}'
    return lambda payload: utf8(f"{before}{payload}{after}")


def schema_text(schema: Schema, *, optional: bool = False, field: str = "") -> str:
    """Return the schema as Connect's converter reads it. ``field`` names the field that has this schema."""
    members = [
        constant("optional", "true" if optional else "false"),
        constant("type", json_string(_JSON_NAMES.get(schema.type, schema.type))),
    ]
    if field:
        members.append(constant("field", json_string(field)))
    if schema.fields:
        members.append(constant("fields", f"[{', '.join(map(_field_text, schema.fields))}]"))
    if schema.items is not None:
        members.append(constant("items", schema_text(schema.items, optional=True)))
    if schema.name:
        members.append(constant("name", json_string(schema.name)))
    if schema.parameters:
        parameters = [constant(name, json_string(text)) for name, text in schema.parameters.items()]
        members.append(json_object("parameters", parameters))
    if schema.version:
        members.append(constant("version", str(schema.version)))
    return compile_template(json_object("", members))(())


def _field_text(field: Field) -> str:
    return schema_text(field.schema, optional=field.optional, field=field.name)


def _value(
    table: TableDescriptor,
    options: FeedOptions,
    columns: Sequence[ConnectColumn],
    form: ChangeForm | None,
) -> _Value:
    row_text = _row_text(table.name, columns)
    if form is None:
        return lambda row, _: None if row.values is None else row_text(row.values)
    return _change(table, options, row_text, form)


def _change(table: TableDescriptor, options: FeedOptions, row_text: _Text, form: ChangeForm) -> _Value:
    """Return a printer of the envelope. It raises ``RowError`` if a row's previous value is not known."""

    changed, scanned = (_source_text(table, options, scanned=scanned) for scanned in (False, True))
    before_of = compile_before(table)

    def change(row: Row, timestamp: Timestamp) -> str:
        previous = require_previous(row, options, form)
        replaced = before_of(row, previous)
        after = NULL if row.values is None else row_text(row.values)
        before = row_text(replaced) if replaced else NULL
        op, updated = operation(row, previous, form), row.updated(timestamp)
        wall_ms = updated.wall_ms
        source_text = changed if row.scanned_at is None else scanned
        source = source_text((wall_ms, updated.wall, updated.decimal()))
        return (
            f'{{"after": {after}, "before": {before}, "op": "{op}", "source": {source}, "ts_ms": {wall_ms}}}'
        )

    return change


def _source_text(table: TableDescriptor, options: FeedOptions, *, scanned: bool) -> _Text:
    """Return a printer of the source.

    The printer takes a wall time in milliseconds, the same time in nanoseconds, and a timestamp's text.
    """
    told = source_texts(table, options, scanned=scanned)
    texts = [constant(name, json_string(text)) for name, text in told.items()]
    times = [datum("ts_ms", 0, str), datum("ts_ns", 1, str), datum("ts_hlc", 2, json_string)]
    return compile_template(json_object("", [*texts, *times]))


def _row_text(table_name: str, columns: Sequence[ConnectColumn]) -> _Text:
    texts = [_text_encoder(column.type) for column in columns]
    slots = zip(columns, texts, strict=True)
    fill = compile_template(
        json_object("", [datum(column.name, column.position, text) for column, text in slots])
    )

    def text(datums: Datums) -> str:
        try:
            return fill(datums)
        except RowError as error:
            raise located(table_name, columns, texts, datums, error) from None

    return text


def _text_encoder(column: ColumnType) -> TextEncoder:
    """Return the printer of a column's datums that are not NULL."""
    print_value, convert = _printer(column.schema), column.convert
    if convert is None:
        return print_value
    return _chained(convert, print_value)


def _chained(convert: Convert, print_value: TextEncoder) -> TextEncoder:
    return lambda datum: print_value(convert(datum))


def _printer(schema: Schema) -> TextEncoder:
    if schema.items is not None:
        return _array_printer(_printer(schema.items))
    return _PRINTERS[schema.type]


def _array_printer(item: TextEncoder) -> TextEncoder:
    def text(items: Sequence[Any]) -> str:
        return f"[{', '.join(array_texts(items, item, NULL))}]"

    return text


def _bool_text(value: bool) -> str:
    return "true" if value else "false"


def _finite_text(value: float) -> str:
    # Connect's converter would read a string in place of a number as zero.
    if not math.isfinite(value):
        raise RowError(f"{value} cannot be told to Kafka Connect in JSON: use format=avro")
    return float_text(value)


def _base64_text(value: bytes) -> str:
    return f'"{base64.b64encode(value).decode()}"'


_PRINTERS: Final[dict[str, TextEncoder]] = {
    "boolean": _bool_text,
    "int16": str,
    "int32": str,
    "int64": str,
    "float32": _finite_text,
    "float64": _finite_text,
    "string": json_string,
    "bytes": _base64_text,
}
