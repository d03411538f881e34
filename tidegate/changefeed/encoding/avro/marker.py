"""Markers as Avro: an envelope record with one field, ``resolved``.

The record has the name of the rows' envelope, and is registered for the same subject. So a registry finds
the two schemas compatible: a reader with one of them reads its fields as null in records of the other.
Source: CockroachDB ``pkg/ccl/changefeedccl/encoder_avro.go``, which leaves ``avro_schema_prefix`` out of a
marker's subject.
"""

from __future__ import annotations

from tidegate.changefeed.definition.feed import TableName
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.definition.table_topics import value_subject
from tidegate.changefeed.encoding.avro.body import body_writer
from tidegate.changefeed.encoding.avro.schema_text import (
    envelope_name,
    namespace_of,
    nullable_field,
    record_schema,
    schema_text,
)
from tidegate.changefeed.encoding.confluent import SubjectSchema
from tidegate.changefeed.encoding.record_encoder import MarkerEncoder
from tidegate.hlc import ResolvedTimestamp


def compile_avro_marker(table: TableName, options: FeedOptions) -> MarkerEncoder:
    """Return the encoder of the markers on a table's topic.

    Raises ``UnsupportedTable`` if ``avro_schema_prefix`` cannot be a namespace.
    """
    schema = marker_schema(table, options)
    write = body_writer(schema.text, table.name)

    def encode(resolved: ResolvedTimestamp) -> bytes:
        if resolved.wall <= 0:
            raise ValueError(f"a marker cannot say {resolved.decimal()}: nothing is resolved yet")
        return write({"resolved": ("string", resolved.decimal())})

    return MarkerEncoder(encode, schema)


def marker_schema(table: TableName, options: FeedOptions) -> SubjectSchema:
    """Return the schema of a marker's value."""
    record = record_schema(
        envelope_name(table, options), [nullable_field("resolved", ["string"])], namespace_of(table, options)
    )
    return SubjectSchema(value_subject(table, options), schema_text(record))
