"""Feeds whose format has schemas."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tidegate.changefeed.definition.options import FeedOptions, Format
from tidegate.changefeed.encoding.confluent import RecordSchemas
from tidegate.changefeed.encoding.encoder import compile_encoder
from tidegate.rows import TableDescriptor

REGISTRY: Final = "http://registry.invalid:8081"


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
    """The schemas of a table version in that format."""
    schemas = compile_encoder(table, options).schemas
    assert schemas is not None
    return schemas
