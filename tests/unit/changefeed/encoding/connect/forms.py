"""The four forms of a feed for Kafka Connect, and what writes and reads their records."""

from __future__ import annotations

from typing import Final

from tidegate.changefeed.definition.options import Envelope, FeedOptions, Format
from tidegate.changefeed.encoding.confluent import frame_prefix
from tidegate.changefeed.encoding.decoder import decoder_for
from tidegate.changefeed.encoding.encoder import compile_encoder
from tidegate.changefeed.encoding.record import RowRecord
from tidegate.hlc import Timestamp
from tidegate.rows.row import Row

AT: Final = Timestamp(1_743_530_146_812_942_001, 7)
REGISTRY: Final = "http://registry:8081"
FORMS: Final = {
    "json-upsert": FeedOptions(envelope=Envelope.UPSERT, connect_schema=True),
    "json-debezium": FeedOptions(envelope=Envelope.DEBEZIUM, connect_schema=True),
    "avro-upsert": FeedOptions(
        format=Format.AVRO, envelope=Envelope.UPSERT, confluent_schema_registry=REGISTRY
    ),
    "avro-debezium": FeedOptions(
        format=Format.AVRO, envelope=Envelope.DEBEZIUM, confluent_schema_registry=REGISTRY
    ),
}


def read_back(row: Row, options: FeedOptions) -> RowRecord:
    """The row's record, encoded and decoded again."""
    encoder = compile_encoder(row.table, options)
    key, value = encoder.encode(row, AT)
    texts = {}
    if encoder.schemas is not None:
        texts = {1: encoder.schemas.key.text, 2: encoder.schemas.value.text}
        key = frame_prefix(1) + key
        value = None if value is None else frame_prefix(2) + value
    record = decoder_for(options, texts.__getitem__).decode(key, value)
    assert isinstance(record, RowRecord)
    return record
