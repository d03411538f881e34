"""Chooses the decoder for a feed's records."""

from __future__ import annotations

from tidegate.changefeed.definition.options import FeedOptions, Format, OnOversize
from tidegate.changefeed.encoding.avro_decoder import AvroDecoder
from tidegate.changefeed.encoding.csv_records import CsvDecoder
from tidegate.changefeed.encoding.envelopes.registry import form_of
from tidegate.changefeed.encoding.json_decoder import JsonDecoder
from tidegate.changefeed.encoding.record import RecordDecoder, SchemaText
from tidegate.errors import MalformedRecord


def _no_registry(schema_id: int) -> str:
    raise MalformedRecord(f"schema {schema_id} is needed, and no schema registry is known to ask for it")


def decoder_for(
    options: FeedOptions, schema_text: SchemaText = _no_registry, *, whole: bool = True
) -> RecordDecoder:
    """Return the decoder of a feed's records. It asks ``schema_text`` once for each schema id.

    If the options are not the ``whole`` options of the feed, records may have any member of their envelope.
    """
    match options.format:
        case Format.JSON:
            return JsonDecoder(
                options.envelope,
                row_keys=not options.key_column,
                connect_schema=options.connect_schema,
                enriched_schema=options.enriched_schema,
                members=form_of(options.envelope).json.members(options) if whole else None,
                oversize=options.on_oversize is OnOversize.KEY_ONLY or not whole,
            )
        case Format.AVRO:
            return AvroDecoder(options, schema_text, whole=whole)
        case Format.CSV:
            return CsvDecoder()
