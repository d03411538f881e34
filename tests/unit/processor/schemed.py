"""A format with schemas that needs no encoding of its own: rows are the JSON ones, unframed."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tidegate.changefeed.definition.feed import TableName
from tidegate.changefeed.definition.options import FeedOptions, Format
from tidegate.changefeed.definition.table_topics import key_subject, value_subject
from tidegate.changefeed.encoding.confluent import RecordSchemas, SubjectSchema
from tidegate.changefeed.encoding.encoder import compile_encoder
from tidegate.changefeed.encoding.record_encoder import RecordEncoder
from tidegate.rows import TableDescriptor

REGISTRY: Final = "http://registry.invalid:8081"
#: To be put where the processor finds its encoders.
COMPILE_ENCODER: Final = "tidegate.processor.feeds.emitter.compile_encoder"


def schemed_options(prefix: str = "", **more: object) -> FeedOptions:
    """Options of a feed in that format."""
    options = FeedOptions(
        format=Format.AVRO,
        updated=True,
        resolved_interval_ns=0,
        topic_prefix=prefix,
        confluent_schema_registry=REGISTRY,
    )
    return replace(options, **more)  # type: ignore[arg-type]


def schemas_for(table: TableDescriptor, options: FeedOptions) -> RecordSchemas:
    """The schemas of a table version: the value's tells the version."""
    name = TableName.of(table)
    return RecordSchemas(
        SubjectSchema(key_subject(name, options), f"key of {table.name}"),
        SubjectSchema(value_subject(name, options), f"version {table.version} of {table.name}"),
    )


def compile_schemed(table: TableDescriptor, options: FeedOptions) -> RecordEncoder:
    """In the place of ``compile_encoder``; other formats are as they are."""
    if options.format is not Format.AVRO:
        return compile_encoder(table, options)
    encoder = compile_encoder(table, replace(options, format=Format.JSON))
    return encoder._replace(schemas=schemas_for(table, options))
