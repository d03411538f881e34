"""Records of output topics, as consumers, the audit and other engines read them back.

An input begins with a byte that chooses the feed, and has key, value and (for Avro) a schema behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Final, NamedTuple

from tests.fuzz.json_mutators import altered_json
from tests.fuzz.mutators import damaged
from tests.fuzz.parts import joined, parted
from tests.fuzz.target import Target
from tests.fuzz.targets.log_entries import TABLE, row
from tests.hostile.growing_rows import ENCODERS
from tidegate.changefeed.definition.feed import TableName
from tidegate.changefeed.definition.options import Envelope, FeedOptions, Format
from tidegate.changefeed.encoding.confluent import frame_prefix
from tidegate.changefeed.encoding.decoder import decoder_for
from tidegate.changefeed.encoding.encoder import compile_encoder, compile_marker
from tidegate.changefeed.encoding.record_encoder import RecordEncoder
from tidegate.changefeed.encoding.resolved_topic import OffsetMarkerDecoder, offset_marker_value
from tidegate.errors import MalformedRecord
from tidegate.hlc import ResolvedTimestamp, Timestamp

_AT: Final = Timestamp(1_700_000_000_000_000_000, 1)
_KEY_SCHEMA, _VALUE_SCHEMA = 1, 2
_FEEDS: Final = (
    *ENCODERS.values(),
    *(
        FeedOptions(envelope=each)
        for each in (Envelope.BARE, Envelope.ROW, Envelope.UPSERT, Envelope.KEY_ONLY)
    ),
    FeedOptions(envelope=Envelope.DEBEZIUM),
    FeedOptions(updated=True, diff=True, key_in_value=True, mvcc_timestamp=True),
)


class _Seed(NamedTuple):
    """A record of a feed; ``schemas`` are the texts of those of its key and its value."""

    feed: int
    key: bytes | None
    value: bytes | None
    schemas: tuple[bytes, ...]


def _seeds() -> Iterator[_Seed]:
    for number, options in enumerate(_FEEDS):
        encoder = compile_encoder(TABLE.descriptor, options)
        read = TABLE.codec.decode(*TABLE.pair(*row(1)))
        assert read is not None
        known = read._replace(previous=read.values)
        versions = [known, read._replace(previous=()), known._replace(values=None)]
        for each in versions[:1] if options.format is Format.CSV else versions:
            key, value = encoder.encode(each, _AT)
            yield _Seed(number, _framed(encoder, key, 1), _framed(encoder, value, 2), _texts(encoder))
        if options.format is not Format.CSV:
            marker = compile_marker(TableName.of(TABLE.descriptor), options)
            value = marker.encode(ResolvedTimestamp(_AT))
            texts = (marker.schema.text.encode(),) * 2 if marker.schema else ()
            yield _Seed(number, None, frame_prefix(_VALUE_SCHEMA) + value if texts else value, texts)


def _framed(encoder: RecordEncoder, body: bytes | None, schema_id: int) -> bytes | None:
    return frame_prefix(schema_id) + body if encoder.schemas and body else body


def _texts(encoder: RecordEncoder) -> tuple[bytes, ...]:
    return () if encoder.schemas is None else tuple(each.text.encode() for each in encoder.schemas)


_SEEDS: Final = tuple(_seeds())
_JSON: Final = tuple(seed for seed in _SEEDS if _FEEDS[seed.feed].format is Format.JSON)
_CSV: Final = tuple(seed for seed in _SEEDS if _FEEDS[seed.feed].format is Format.CSV)
_AVRO: Final = tuple(seed for seed in _SEEDS if _FEEDS[seed.feed].format is Format.AVRO)


def _drawn(
    seeds: tuple[_Seed, ...], change: Callable[[Random, bytes], bytes], schemas: float = 0
) -> Callable[[Random], bytes]:
    """``schemas``: how often a schema is damaged, and the record is not."""

    def draw(chance: Random) -> bytes:
        feed, key, value, texts = chance.choice(seeds)
        if chance.random() < schemas:
            texts = tuple(altered_json(chance, text) for text in texts)
        else:
            key = key if key is None or chance.random() < 0.7 else change(chance, key)
            value = None if value is None else change(chance, value)
        return bytes([feed]) + joined((key, value, *texts))

    return draw


def _run(data: bytes) -> None:
    options = _FEEDS[data[0] % len(_FEEDS)] if data else _FEEDS[0]
    key, value, *texts = [*parted(data[1:]), None, None][: max(2, len(list(parted(data[1:]))))]

    def schema_text(schema_id: int) -> str:
        if not _KEY_SCHEMA <= schema_id <= len(texts):
            raise MalformedRecord(f"there is no schema {schema_id}")
        return (texts[schema_id - 1] or b"").decode(errors="replace")

    for whole in (True, False):
        decoder_for(options, schema_text, whole=whole).decode(key, value)


_MARKER: Final = offset_marker_value(ResolvedTimestamp(_AT), {"t": 5})


def _target(name: str, draw: Callable[[Random], bytes], run: Callable[[bytes], object] = _run) -> Target:
    return Target(name, draw, run, (MalformedRecord,))


TARGETS: Final = (
    _target("json-records", _drawn(_JSON, altered_json)),
    _target("csv-records", _drawn(_CSV, damaged)),
    _target("avro-records", _drawn(_AVRO, damaged)),
    _target("avro-schemas", _drawn(_AVRO, damaged, schemas=1)),
    _target(
        "offset-markers",
        lambda chance: altered_json(chance, _MARKER),
        lambda data: OffsetMarkerDecoder().decode(None, data),
    ),
)
