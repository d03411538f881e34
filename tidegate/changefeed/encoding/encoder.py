"""Chooses the encoders of rows and markers that a feed's options ask for."""

from __future__ import annotations

from dataclasses import replace

from tidegate.changefeed.definition.extra_headers import constant_headers
from tidegate.changefeed.definition.feed import FeedDefinition, TableName
from tidegate.changefeed.definition.options import FeedOptions, Format, OnOversize
from tidegate.changefeed.definition.oversize import RowLimit
from tidegate.changefeed.encoding.avro.marker import compile_avro_marker
from tidegate.changefeed.encoding.confluent import SubjectSchema
from tidegate.changefeed.encoding.csv_records import compile_csv
from tidegate.changefeed.encoding.envelopes.envelope_form import Codec, EnvelopeForm
from tidegate.changefeed.encoding.envelopes.registry import FORMS, form_of
from tidegate.changefeed.encoding.marker import json_marker
from tidegate.changefeed.encoding.record_encoder import Headers, MarkerEncoder, RecordEncoder
from tidegate.changefeed.encoding.row_templates import RowTemplates
from tidegate.errors import UnsupportedTable
from tidegate.rows.descriptor import TableDescriptor


def compile_encoder(table: TableDescriptor, options: FeedOptions) -> RecordEncoder:
    """Return the encoder for a table version.

    Raises ``UnsupportedTable``, naming table and column, for a table that the feed cannot emit.
    """
    encoder = _compile(table, options)
    constants = constant_headers(options.extra_headers)
    if constants:
        encoder = encoder._replace(headers=_with_constants(constants, encoder.headers))
    if options.on_oversize is OnOversize.KEY_ONLY:
        limit = RowLimit(options.max_row_bytes, encoder.schemas is not None, tuple(constants))
        encoder = encoder._replace(limit=limit)
    return encoder


def as_named(table: TableDescriptor, name: TableName | None) -> TableDescriptor:
    """Return the table with the name by which a feed knows it. ``None`` stands for the table's own name.

    A table may be renamed. The topic, subjects, schemas and rows of a feed always have the name in its
    statement. So topics, schemas and readers fit together (docs/envelopes.md).
    """
    if name is None or TableName.of(table) == name:
        return table
    return replace(table, name=name.name, schema=name.schema, database=name.database)


def row_templates(table: TableDescriptor, options: FeedOptions) -> RowTemplates | None:
    """Return the encoder of ``compile_encoder`` as templates; ``None`` if it does more than fill templates.

    Raises ``UnsupportedTable`` as ``compile_encoder`` does.
    """
    codec = None if options.format is Format.CSV else _codec(form_of(options.envelope), options)
    if codec is None or codec.templates is None or options.headers_json_column_name:
        return None
    encoder = compile_encoder(table, options)
    templates = codec.templates(table, options)
    if templates is None:
        return None
    return templates._replace(
        tombstones=encoder.tombstones,
        max_bytes=None if encoder.limit is None else encoder.limit.room_for_row,
        headers=tuple(constant_headers(options.extra_headers)),
        schemas=encoder.schemas,
    )


def _compile(table: TableDescriptor, options: FeedOptions) -> RecordEncoder:
    if options.format is Format.CSV:
        return compile_csv(table, options)
    form = form_of(options.envelope)
    codec = _codec(form, options)
    if codec is None:
        raise UnsupportedTable(_without_avro(table, form))
    return codec.compile(table, options)._replace(tombstones=form.tombstones)


def _codec(form: EnvelopeForm, options: FeedOptions) -> Codec | None:
    return form.json if options.format is Format.JSON else form.avro


def _without_avro(table: TableDescriptor, form: EnvelopeForm) -> str:
    *others, last = [each.name for each in FORMS if each.avro is not None]
    return (
        f"table {table.name}: envelope={form.name} has no Avro form; use envelope={', '.join(others)} or "
        f"{last}, or format=json"
    )


def _with_constants(constants: list[tuple[str, bytes]], row_headers: Headers | None) -> Headers:
    """Return a function that gives a row the feed's headers, and after them the row's own."""
    if row_headers is None:
        return lambda _: constants
    return lambda row: constants + row_headers(row)


def compile_marker(table: TableName, options: FeedOptions) -> MarkerEncoder:
    """Return the encoder of the markers on a table's topic, or on the feed's ``resolved_topic``."""
    if options.format is Format.AVRO and not options.resolved_topic:
        return compile_avro_marker(table, options)
    return json_marker(options)


def marker_schemas(definition: FeedDefinition) -> list[SubjectSchema]:
    """Return the schemas of the feed's markers. Raises ``FeedError`` if its markers can have no schema."""
    options = definition.options
    if options.resolved_interval_ns is None:
        return []
    encoders = (compile_marker(table, options) for table in definition.tables)
    return [encoder.schema for encoder in encoders if encoder.schema is not None]
