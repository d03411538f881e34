"""The members of the enriched envelope beside its rows: ``source``, ``ts_ns`` and ``op``.

``source`` is a record of that name, with the fields of ``enriched_source.py`` sorted by name, and all of the
timestamps: a timestamp that the feed does not ask for is null. As in JSON, ``ts_ns`` is the wall time of the
row's commit, or of the scan that found it. Source: CockroachDB ``pkg/ccl/changefeedccl/avro/avro.go``
(``NewEnvelopeRecord``) and ``enriched_source_provider.go``.
"""

from __future__ import annotations

from typing import Any, Final

from tidegate.changefeed.definition.feed import TableName
from tidegate.changefeed.definition.names import avro_name
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.encoding.avro.body import FIRST_BYTES, NULL, NULL_BYTES, Branch, body_writer
from tidegate.changefeed.encoding.avro.envelope_field import EnvelopeField
from tidegate.changefeed.encoding.avro.schema_text import (
    AvroField,
    AvroType,
    full_name,
    namespace_of,
    nullable_field,
    record_schema,
    schema_text,
)
from tidegate.changefeed.encoding.enriched_source import (
    MVCC_TIMESTAMP,
    TS_HLC,
    TS_NS,
    SourceValue,
    source_constants,
    source_stamps,
)
from tidegate.changefeed.encoding.replaced import (
    CHANGES,
    CREATE,
    DELETE,
    UPDATE,
    operation,
    require_previous,
)
from tidegate.changefeed.encoding.row_templates import ChangeShape, Piece, Stamp
from tidegate.errors import UnsupportedTable
from tidegate.hlc import Timestamp
from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.row import Row

SOURCE: Final = "source"
OP: Final = "op"
_STAMPS: Final[dict[str, AvroType]] = {MVCC_TIMESTAMP: "string", TS_HLC: "string", TS_NS: "long"}
_PIECES: Final = {MVCC_TIMESTAMP: Stamp.MVCC, TS_HLC: Stamp.DECIMAL, TS_NS: Stamp.WALL_NS}


def enriched_fields(table: TableDescriptor, options: FeedOptions) -> list[EnvelopeField]:
    """Return the fields after ``before`` and ``after``, in CockroachDB's order."""

    schema = nullable_field(OP, ["string"])
    letters = {
        shape: _same(table, schema, ("string", letter))
        for shape, letter in zip(ChangeShape, (CREATE, UPDATE, DELETE, DELETE), strict=True)
    }

    def op(row: Row, _: Timestamp) -> Branch:
        return "string", operation(row, require_previous(row, options, CHANGES), CHANGES)

    return [
        *_source(table, options),
        EnvelopeField(
            nullable_field(TS_NS, ["long"]),
            lambda row, timestamp: _stamp(TS_NS, row, timestamp),
            lambda _: (FIRST_BYTES, Stamp.WALL_NS),
        ),
        EnvelopeField(schema, op, lambda shape: (letters[shape],)),
    ]


def _same(table: TableDescriptor, schema: AvroField, branch: Branch) -> bytes:
    """Return the bytes of a field that has the same value in every record.

    A record that has only this field has the same bytes.
    """
    write = body_writer(schema_text(record_schema("same", [schema], "")), table.name)
    return write({schema["name"]: branch})


def _source(table: TableDescriptor, options: FeedOptions) -> list[EnvelopeField]:
    told, stamps = source_constants(table, options), source_stamps(options)
    if not told and not stamps:
        return []
    if avro_name(table.name) == SOURCE:
        raise UnsupportedTable(
            f"table {table.name}: its rows and the envelope's {SOURCE} would be Avro records of one name; "
            "leave out enriched_properties, updated and mvcc_timestamp, or use envelope=wrapped"
        )
    types = {name: _avro_type(value) for name, value in told.items()} | _STAMPS
    namespace = namespace_of(TableName.of(table), options)
    fields = {name: nullable_field(name, [types[name]]) for name in sorted(types)}
    record = record_schema(SOURCE, fields.values(), namespace)
    branch = full_name(SOURCE, namespace)
    same: dict[str, Any] = dict.fromkeys(_STAMPS, NULL) | {
        name: _branch(value) for name, value in told.items()
    }

    def member(row: Row, timestamp: Timestamp) -> Branch:
        return branch, same | {name: _stamp(name, row, timestamp) for name in stamps}

    pieces: list[Piece] = [FIRST_BYTES]
    for name, schema in fields.items():
        if name in told:
            pieces.append(_same(table, schema, same[name]))
        elif name in stamps:
            pieces += (FIRST_BYTES, _PIECES[name])
        else:
            pieces.append(NULL_BYTES)
    return [EnvelopeField(nullable_field(SOURCE, [record]), member, lambda _: tuple(pieces))]


def _avro_type(value: SourceValue) -> AvroType:
    match value:
        case str():
            return "string"
        case int():
            return "int"
        case _:
            return {"type": "array", "items": "string"}


def _branch(value: SourceValue) -> Branch:
    match value:
        case str():
            return "string", value
        case int():
            return "int", value
        case _:
            return "array", list(value)


def _stamp(name: str, row: Row, timestamp: Timestamp) -> Branch:
    if name == TS_NS:
        return "long", row.updated(timestamp).wall
    shown = timestamp if name == MVCC_TIMESTAMP else row.updated(timestamp)
    return "string", shown.decimal()
