"""Makes the encoder of Avro records from fields, once for each table version and feed.

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

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from tidegate.changefeed.definition.feed import TableName
from tidegate.changefeed.definition.names import avro_name
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.definition.table_topics import value_subject
from tidegate.changefeed.encoding.avro.body import FIRST_BYTES, NULL, NULL_BYTES, Branch, body_writer
from tidegate.changefeed.encoding.avro.envelope_field import EnvelopeField
from tidegate.changefeed.encoding.avro.key import compile_key, key_templates
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
from tidegate.changefeed.encoding.replaced import CHANGES, require_previous
from tidegate.changefeed.encoding.row_templates import (
    Body,
    ChangeShape,
    Piece,
    ReplacedTemplates,
    RowPart,
    RowTemplates,
    Stamp,
)
from tidegate.hlc import Timestamp
from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.row import Row
from tidegate.rows.types import Datum

#: Returns the fields of a table version's values, in their order. Raises ``UnsupportedTable``.
CompileFields: TypeAlias = Callable[[TableDescriptor, FeedOptions], Sequence[EnvelopeField]]

#: A part of a row, and the positions of columns' datums in it; ``None`` for a column that is null.
Places: TypeAlias = tuple[RowPart, Sequence[int | None]]

BEFORE: Final = "before"
AFTER: Final = "after"
RECORD: Final = "record"
UPDATED: Final = "updated"
MVCC_TIMESTAMP: Final = "mvcc_timestamp"


def avro_encoder(
    table: TableDescriptor, options: FeedOptions, compile_fields: CompileFields
) -> RecordEncoder:
    """Return the encoder for a table version whose values have these fields.

    Raises ``UnsupportedTable`` for a table that has no Avro form.
    """
    key_schema, write_key = compile_key(table, options)
    name, fields = TableName.of(table), compile_fields(table, options)
    record = record_schema(
        envelope_name(name, options), [each.schema for each in fields], namespace_of(name, options)
    )
    value_schema = SubjectSchema(value_subject(name, options), schema_text(record))
    write_value = body_writer(value_schema.text, table.name)
    members = [(each.schema["name"], each.member) for each in fields]

    def encode(row: Row, timestamp: Timestamp) -> tuple[bytes, bytes | None]:
        return write_key(row), write_value({name: member(row, timestamp) for name, member in members})

    return RecordEncoder(encode, RecordSchemas(key_schema, value_schema))


def avro_templates(
    table: TableDescriptor, options: FeedOptions, compile_fields: CompileFields
) -> RowTemplates | None:
    """Return templates for the records of `avro_encoder`.

    Return ``None`` for a table without columns, whose rows are null.
    """
    if not public_columns(table):
        return None
    fields = compile_fields(table, options)
    created, updated, deleted, missing = (
        Body(tuple(piece for field in fields for piece in field.pieces(shape))) for shape in ChangeShape
    )
    tells_previous = (created, missing) != (updated, deleted)
    replaced = ReplacedTemplates(updated, deleted) if tells_previous else None
    return RowTemplates(*key_templates(table, options), created, missing, replaced)


def row_field(
    table: TableDescriptor,
    options: FeedOptions,
    name: str,
    datums: Callable[[Row], tuple[Datum, ...] | None],
    places: Callable[[ChangeShape], Places | None],
    suffix: str = "",
) -> EnvelopeField:
    """Return a field that holds a row, or null for no row.

    ``places`` returns where the datums of a row of the given shape are; ``None`` if such a row has none. The
    record of the row is named by the table alone, without a prefix, and with the ``suffix`` at its end.
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

    def pieces(shape: ChangeShape) -> tuple[Piece, ...]:
        found = places(shape)
        return (NULL_BYTES,) if found is None else (FIRST_BYTES, *record.pieces(*found))

    return EnvelopeField(nullable_field(name, [record.schema]), member, pieces)


def stamp_fields(options: FeedOptions) -> list[EnvelopeField]:
    """Return the fields ``updated`` and ``mvcc_timestamp``, each only if the feed asks for it.

    The two timestamps of a row differ if a scan has brought the row.
    """
    asked = ((UPDATED, options.updated), (MVCC_TIMESTAMP, options.mvcc_timestamp))
    return [_stamp(name) for name, wanted in asked if wanted]


def after_fields(table: TableDescriptor, options: FeedOptions) -> list[EnvelopeField]:
    """Return ``before``, if the feed asks for it, and ``after``."""
    positions = range(len(public_columns(table)))
    after = row_field(
        table,
        options,
        AFTER,
        lambda row: row.values,
        lambda shape: (RowPart.VALUES, positions) if shape.is_present else None,
    )
    if not options.diff:
        return [after]
    before = row_field(
        table,
        options,
        BEFORE,
        lambda row: require_previous(row, options, CHANGES),
        lambda shape: (RowPart.PREVIOUS, positions) if shape.was_present else None,
        "_before",
    )
    return [before, after]


def _stamp(name: str) -> EnvelopeField:
    def member(row: Row, timestamp: Timestamp) -> Branch:
        shown = row.updated(timestamp) if name == UPDATED else timestamp
        return "string", shown.decimal()

    stamp = Stamp.DECIMAL if name == UPDATED else Stamp.MVCC
    return EnvelopeField(nullable_field(name, ["string"]), member, lambda _: (FIRST_BYTES, stamp))
