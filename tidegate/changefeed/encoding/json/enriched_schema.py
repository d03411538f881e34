"""``enriched_properties='schema'``: ``{"payload": ..., "schema": ...}``, for keys and for values.

The form is Kafka Connect's, but the names of types are CockroachDB's own: ``float64`` where Connect's
converter reads ``double``, and ``json`` for types that Connect does not have. In the schema a value's
``after`` is not optional, though a deletion has none. So this is for consumers that know CockroachDB; for
Connect's converter there is ``connect_schema``. The schema is the same text in every record of a table
version. Source: CockroachDB ``pkg/ccl/changefeedccl/kcjsonschema`` and ``encoder_json.go``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.encoding.columns import named_column, shown_columns
from tidegate.changefeed.encoding.enriched_source import (
    PRIMARY_KEYS,
    TABLE_ID,
    TS_NS,
    source_constants,
    source_stamps,
)
from tidegate.changefeed.encoding.json.template import (
    compile_template,
    constant,
    enclosed,
    json_object,
)
from tidegate.changefeed.encoding.record_encoder import RecordEncoder
from tidegate.changefeed.encoding.row_templates import Body, Filling, Member, ReplacedTemplates, RowTemplates
from tidegate.changefeed.text.json_text import json_string, utf8
from tidegate.hlc import Timestamp
from tidegate.rows.descriptor import Column, TableDescriptor
from tidegate.rows.row import Row
from tidegate.rows.types import Kind, SqlType

_TYPES: Final[Mapping[Kind, str]] = {
    Kind.INT: "int64",
    Kind.FLOAT: "float64",
    Kind.DECIMAL: "float64",
    Kind.BOOL: "boolean",
    Kind.BYTES: "bytes",
    Kind.JSONB: "json",
    Kind.GEOMETRY: "json",
    Kind.GEOGRAPHY: "json",
}
_NAMES: Final[Mapping[Kind, str]] = {
    Kind.DECIMAL: "decimal",
    Kind.DATE: "date",
    Kind.TIME: "time",
    Kind.TIMETZ: "time",
    Kind.TIMESTAMP: "timestamp",
    Kind.TIMESTAMPTZ: "timestamp",
    Kind.GEOMETRY: "geometry",
    Kind.GEOGRAPHY: "geography",
}


def with_schema(encoder: RecordEncoder, table: TableDescriptor, options: FeedOptions) -> RecordEncoder:
    """Return an encoder of the records of ``encoder``, each with its schema beside the payload."""
    key_end, value_end = map(utf8, _schema_ends(table, options))

    def encode(row: Row, timestamp: Timestamp) -> tuple[bytes, bytes | None]:
        key, value = encoder.encode(row, timestamp)
        return b'{"payload": %s%s' % (key, key_end), b'{"payload": %s%s' % (value, value_end)

    return encoder._replace(encode=encode)


def templates_with_schema(
    templates: RowTemplates, table: TableDescriptor, options: FeedOptions
) -> RowTemplates:
    """Return templates of the records of ``templates``, each with its schema beside the payload."""
    key_end, value_end = _schema_ends(table, options)

    def with_end(filling: Filling | Body, end: str) -> Filling:
        assert isinstance(filling, Filling)  # which templates of JSON are
        return filling._replace(member=enclosed('{"payload": ', filling.member, end))

    replaced = templates.replaced
    return templates._replace(
        key=with_end(templates.key, key_end),
        deleted_key=with_end(templates.deleted_key, key_end),
        row=with_end(templates.row, value_end),
        deletion=with_end(templates.deletion, value_end),
        scanned=templates.scanned and with_end(templates.scanned, value_end),
        replaced=replaced and ReplacedTemplates(*(with_end(each, value_end) for each in replaced)),
    )


def _schema_ends(table: TableDescriptor, options: FeedOptions) -> tuple[str, str]:
    """Return the text that follows a key's payload, and the text that follows a value's payload."""
    key, value = _key(table, _key_columns(table, options)), _envelope(table, options)
    return f', "schema": {_text(key)}}}', f', "schema": {_text(value)}}}'


def _text(schema: Member) -> str:
    return compile_template(schema)(())


def _schema(of: str, field: str = "", *others: Member, optional: bool = False) -> Member:
    """Return a schema as an object. ``field`` names the field that has this schema; empty for none."""
    members = [
        constant("type", json_string(of)),
        constant("optional", "true" if optional else "false"),
        *others,
    ]
    if field:
        members.append(constant("field", json_string(field)))
    return json_object("", members)


def _named(name: str) -> Member:
    return constant("name", json_string(name))


def _struct(name: str, fields: Iterable[Member], field: str = "", *, optional: bool = False) -> Member:
    listed = [constant("fields", f"[{', '.join(map(_text, fields))}]")]
    return _schema("struct", field, _named(name), *listed, optional=optional)


def _key_columns(table: TableDescriptor, options: FeedOptions) -> list[Column]:
    key = _primary_key(table)
    if not options.key_column:
        return key
    _, column = named_column(table, options.key_column, "key_column")
    # A deletion has the column only if it is in the primary key.
    return [column if column in key else replace(column, nullable=True)]


def _primary_key(table: TableDescriptor) -> list[Column]:
    by_id = {column.id: column for column in table.columns}
    return [by_id[part.column_id] for part in table.primary_key]


def _key(table: TableDescriptor, columns: Iterable[Column], field: str = "") -> Member:
    return _struct(f"{table.name}.key", map(_column, columns), field)


def _envelope(table: TableDescriptor, options: FeedOptions) -> Member:
    row = [_column(column) for column in shown_columns(table, options)]
    fields = [_struct(f"{table.name}.before.value", row, "before", optional=True)] if options.diff else []
    fields += [_struct(f"{table.name}.after.value", row, "after"), *_source(table, options)]
    if options.key_in_value:
        fields.append(_key(table, _primary_key(table), "key"))
    if options.topic_in_value:
        fields.append(_schema("string", "topic"))
    fields += [_schema("int64", "ts_ns"), _schema("string", "op")]
    return _struct("cockroachdb.envelope", fields)


def _source(table: TableDescriptor, options: FeedOptions) -> list[Member]:
    """Return the schema of ``source`` if there is one; its fields are sorted by name."""
    fields = {name: _source_constant(name) for name in source_constants(table, options)}
    stamps = source_stamps(options)
    fields |= {name: _schema("int64" if name == TS_NS else "string", name, optional=True) for name in stamps}
    ordered = [fields[name] for name in sorted(fields)]
    return [_struct("cockroachdb.source", ordered, "source", optional=True)] if ordered else []


def _source_constant(name: str) -> Member:
    if name == PRIMARY_KEYS:
        return _schema("array", name, constant("items", _text(_schema("string"))))
    return _schema("int32" if name == TABLE_ID else "string", name)


def _column(column: Column) -> Member:
    # A virtual column is always null here, whatever it is declared as.
    return _of_type(column.type, column.name, optional=column.nullable or column.virtual)


def _of_type(sql_type: SqlType, field: str = "", *, optional: bool = False) -> Member:
    if sql_type.kind is Kind.ARRAY and sql_type.element is not None:
        return _schema(
            "array", field, constant("items", _text(_of_type(sql_type.element))), optional=optional
        )
    others = [_named(_NAMES[sql_type.kind])] if sql_type.kind in _NAMES else []
    if sql_type.kind is Kind.DECIMAL:
        digits = {"precision": sql_type.width, "scale": sql_type.scale}
        texts = [constant(name, json_string(str(number))) for name, number in digits.items()]
        others.append(json_object("parameters", texts))
    return _schema(_TYPES.get(sql_type.kind, "string"), field, *others, optional=optional)
