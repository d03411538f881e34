"""Avro records read back: each by the schema that it names, and nothing else taken for a record."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.changefeed.encoding.avro.tables_of_types import AVRO, sql_table
from tests.unit.changefeed.tables import FOO, deletion, row
from tidegate.changefeed.definition.feed import TableName
from tidegate.changefeed.definition.options import Envelope, FeedOptions, OnOversize
from tidegate.changefeed.definition.oversize import OVERSIZE_HEADER
from tidegate.changefeed.encoding.avro.decode import MAX_SCHEMAS
from tidegate.changefeed.encoding.avro_decoder import AvroDecoder
from tidegate.changefeed.encoding.confluent import frame_prefix
from tidegate.changefeed.encoding.decoder import decoder_for
from tidegate.changefeed.encoding.encoder import compile_encoder, compile_marker
from tidegate.changefeed.encoding.record import MarkerRecord, RowRecord
from tidegate.errors import MalformedRecord, RegistryAway
from tidegate.hlc import ResolvedTimestamp, Timestamp
from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.row import Row
from tidegate.rows.types import Datum

_OF_A_NUMBER = '{"type":"record","name":"r","fields":[{"name":"resolved","type":"long"}]}'

AT = Timestamp(1, 2)
BAR = row(FOO, a=1, b="bar")
GONE = deletion(FOO, 1)
BAR_FIELDS = {"a": 1, "b": "bar"}


class Registry:
    """Schema ids in the order of their first use, and how often each text was asked for."""

    def __init__(self) -> None:
        self.texts: dict[int, str] = {}
        self.asked: list[int] = []

    def frame(self, text: str, body: bytes) -> bytes:
        known = {each: number for number, each in self.texts.items()}
        number = known.setdefault(text, len(known) + 1)
        self.texts[number] = text
        return frame_prefix(number) + body

    def text(self, schema_id: int) -> str:
        self.asked.append(schema_id)
        if schema_id not in self.texts:
            raise MalformedRecord(f"no schema {schema_id}")
        return self.texts[schema_id]


class Feed:
    """Encodes rows and markers with framing, and has the decoder of the same options."""

    def __init__(self, table: TableDescriptor = FOO, **options: Any) -> None:
        self.options: FeedOptions = replace(AVRO, **options)
        self.registry = Registry()
        self.encoder = compile_encoder(table, self.options)
        self.decoder = decoder_for(self.options, self.registry.text)

    def encode(self, version: Row) -> tuple[bytes, bytes | None]:
        key, value = self.encoder.encode(version, AT)
        schemas = self.encoder.schemas
        assert schemas is not None
        framed = self.registry.frame(schemas.value.text, value) if value else value
        return self.registry.frame(schemas.key.text, key), framed

    def through(self, version: Row) -> Any:
        return self.decoder.decode(*self.encode(version))

    def marker(self) -> bytes:
        encoder = compile_marker(TableName.of(FOO), self.options)
        assert encoder.schema is not None
        return self.registry.frame(encoder.schema.text, encoder.encode(ResolvedTimestamp(AT)))


def test_a_wrapped_feed_is_read_back() -> None:
    feed = Feed(updated=True, mvcc_timestamp=True)
    assert feed.through(BAR) == RowRecord((1,), {"a": 1, "b": "bar"}, False, AT, AT)
    assert feed.through(GONE) == RowRecord((1,), None, True, AT, AT)
    assert feed.decoder.decode(None, feed.marker()) == MarkerRecord(ResolvedTimestamp(AT))


def test_the_row_before_is_read_back() -> None:
    feed = Feed(diff=True)
    changed = BAR._replace(previous=(1, "old"))
    assert feed.through(changed) == RowRecord((1,), BAR_FIELDS, False, previous={"a": 1, "b": "old"})
    assert feed.through(BAR) == RowRecord((1,), BAR_FIELDS, False, previous=None)
    gone = GONE._replace(previous=(1, "old"))
    assert feed.through(gone) == RowRecord((1,), None, True, previous={"a": 1, "b": "old"})


def test_a_bare_row_with_more_than_its_key_is_no_deletion_and_others_may_be() -> None:
    feed = Feed(envelope=Envelope.BARE, updated=True)
    assert feed.through(BAR) == RowRecord((1,), BAR_FIELDS, False, AT)
    assert feed.through(GONE) == RowRecord((1,), {"a": 1, "b": None}, None, AT)
    assert feed.decoder.decode(None, feed.marker()) == MarkerRecord(ResolvedTimestamp(AT))


def test_a_bare_value_without_a_record_is_malformed() -> None:
    feed = Feed(envelope=Envelope.BARE)
    key, value = feed.encode(BAR)
    assert value is not None
    with pytest.raises(MalformedRecord, match="record is null"):
        feed.decoder.decode(key, value[:5] + b"\x00")


@pytest.mark.parametrize("envelope", [Envelope.WRAPPED, Envelope.BARE, Envelope.ENRICHED])
def test_a_record_without_a_timestamp_that_the_feed_asks_for_is_malformed(envelope: Envelope) -> None:
    plain, stamped = Feed(envelope=envelope), Feed(envelope=envelope, updated=True)
    for one, other in ((plain, stamped), (stamped, plain)):
        key, value = one.encode(BAR)
        with pytest.raises(MalformedRecord):
            decoder_for(other.options, one.registry.text).decode(key, value)


def test_a_timestamp_that_is_null_is_malformed() -> None:
    feed = Feed(updated=True)
    key, value = feed.encode(BAR)
    stamp = AT.decimal().encode()
    assert value is not None
    assert value.endswith(b"\x02" + bytes([2 * len(stamp)]) + stamp)
    with pytest.raises(MalformedRecord):
        feed.decoder.decode(key, value[: -len(stamp) - 2] + b"\x00")


def test_key_only_says_nothing_of_the_row() -> None:
    feed = Feed(envelope=Envelope.KEY_ONLY)
    assert feed.through(BAR) == feed.through(GONE) == RowRecord((1,), None, None)
    for value in (feed.marker(), None):
        with pytest.raises(MalformedRecord, match="should be empty"):
            feed.decoder.decode(feed.encode(BAR)[0], value)


@pytest.mark.parametrize("envelope", [Envelope.UPSERT, Envelope.DEBEZIUM])
def test_connects_envelopes_are_read_back(envelope: Envelope) -> None:
    feed = Feed(envelope=envelope)
    change = feed.through(BAR._replace(previous=(1, "old")))
    assert (change.key, change.row, change.deleted) == ((1,), BAR_FIELDS, False)
    gone = feed.through(GONE._replace(previous=(1, "old")))
    assert (gone.key, gone.row, gone.deleted, gone.tombstone) == ((1,), None, True, False)
    key, _ = feed.encode(BAR)
    tombstone = feed.decoder.decode(key, None)
    assert isinstance(tombstone, RowRecord)
    assert (tombstone.deleted, tombstone.tombstone) == (True, feed.decoder.tombstones)
    assert feed.decoder.tombstones == (envelope is Envelope.DEBEZIUM)


def test_debeziums_envelope_tells_the_row_before_and_when() -> None:
    record = Feed(envelope=Envelope.DEBEZIUM).through(BAR._replace(previous=(1, "old")))
    assert (record.previous, record.updated) == ({"a": 1, "b": "old"}, AT)


@pytest.mark.parametrize(
    "options", [{}, {"enriched_properties": "source"}, {"updated": True}, {"diff": True}]
)
def test_the_enriched_envelope_is_read_back(options: dict[str, Any]) -> None:
    feed = Feed(envelope=Envelope.ENRICHED, **options)
    old = {"a": 1, "b": "old"} if options.get("diff") else None
    stamp = AT if options.get("updated") else None
    changed = BAR._replace(previous=(1, "old"))
    assert feed.through(changed) == RowRecord((1,), BAR_FIELDS, False, stamp, previous=old)
    gone = GONE._replace(previous=(1, "old"))
    assert feed.through(gone) == RowRecord((1,), None, True, stamp, previous=old)
    assert feed.decoder.decode(None, feed.marker()) == MarkerRecord(ResolvedTimestamp(AT))


def test_both_timestamps_of_an_enriched_record_are_read_back() -> None:
    feed = Feed(envelope=Envelope.ENRICHED, updated=True, mvcc_timestamp=True, enriched_properties="source")
    assert feed.through(BAR) == RowRecord((1,), BAR_FIELDS, False, AT, AT)


def test_columns_have_their_sql_names() -> None:
    odd = sql_table("☃", ("a b",), **{"a b": "INT", "🍦": "STRING"})
    datums: dict[str, Datum] = {"a b": 1, "🍦": "x"}
    assert Feed(odd).through(row(odd, **datums)).row == datums


def test_logical_types_come_as_python_has_them() -> None:
    wide = sql_table("t", ("a",), a="DATE", b="TIME", c="TIMESTAMPTZ", d="DECIMAL(5,2)", e="BIT(3)")
    datums: dict[str, Datum] = {
        "a": 17_898,
        "b": 1,
        "c": 1_546_398_245_000_000_000,
        "d": Decimal("1.50"),
        "e": "010",
    }
    assert Feed(wide).through(row(wide, **datums)).row == {
        "a": date(2019, 1, 2),
        "b": time(microsecond=1),
        "c": datetime(2019, 1, 2, 3, 4, 5, tzinfo=UTC),
        "d": Decimal("1.50"),
        "e": [3, 2**62],
    }


@pytest.mark.parametrize(
    ("column", "datum", "number"),
    [
        ("a", 3_000_000, 3_000_000),  # the year 10183
        ("a", -1_000_000, -1_000_000),  # 768 BC
        ("b", 86_400_000_000, 86_400_000_000),  # 24:00
        ("c", 10**21, 10**18),
    ],
)
def test_what_pythons_calendar_has_not_comes_in_numbers(column: str, datum: int, number: int) -> None:
    wide = sql_table("t", ("a",), a="DATE", b="TIME", c="TIMESTAMP", d="DECIMAL(5,2)")
    datums: dict[str, Datum] = {"a": 0, "b": 1, "c": 2_000, "d": Decimal("1.50"), column: datum}
    expected = {"a": 0, "b": 1, "c": 2, "d": Decimal("1.50"), column: number}
    assert Feed(wide).through(row(wide, **datums)).row == expected


def test_each_schema_is_asked_for_once() -> None:
    feed = Feed()
    for _ in range(3):
        feed.through(BAR)
    assert sorted(feed.registry.asked) == [1, 2]


def test_rows_of_two_versions_of_a_table_are_read_by_their_own_schemas() -> None:
    old, registry = Feed(), Registry()
    new = Feed(sql_table("foo", ("a",), a="INT", b="STRING", c="INT"))
    old.registry = new.registry = registry
    decoder = decoder_for(AVRO, registry.text)
    wider = row(sql_table("foo", ("a",), a="INT", b="STRING", c="INT"), a=2, b=None, c=3)
    read = [decoder.decode(*old.encode(BAR)), decoder.decode(*new.encode(wider))]
    assert [each.row for each in read if isinstance(each, RowRecord)] == [
        BAR_FIELDS,
        {"a": 2, "b": None, "c": 3},
    ]


def test_the_schemas_that_are_kept_are_bounded() -> None:
    text = '{"type":"record","name":"r","fields":[]}'
    asked: list[int] = []

    def schema_text(schema_id: int) -> str:
        asked.append(schema_id)
        return text

    decoder = AvroDecoder(replace(AVRO, envelope=Envelope.KEY_ONLY), schema_text)
    for schema_id in range(MAX_SCHEMAS + 1):
        decoder.decode(frame_prefix(schema_id), b"")
    decoder.decode(frame_prefix(MAX_SCHEMAS), b"")  # kept
    decoder.decode(frame_prefix(0), b"")  # gone: the oldest
    assert asked == [*range(MAX_SCHEMAS + 1), 0]


def cut(data: bytes) -> bytes:
    return data[:-1]


def lengthened(data: bytes) -> bytes:
    return data + b"\x00"


def unframed(data: bytes) -> bytes:
    return data[5:]


def of_no_schema(data: bytes) -> bytes:
    return frame_prefix(99) + data[5:]


@pytest.mark.parametrize("spoil", [cut, lengthened, unframed, of_no_schema])
def test_spoilt_bytes_are_no_record(spoil: Callable[[bytes], bytes]) -> None:
    feed = Feed(updated=True)
    key, value = feed.encode(BAR)
    assert value is not None
    for record in ((spoil(key), value), (key, spoil(value)), (None, spoil(feed.marker()))):
        with pytest.raises(MalformedRecord):
            feed.decoder.decode(*record)


def test_a_record_of_another_shape_is_none_of_this_feeds() -> None:
    wrapped, bare = Feed(updated=True), Feed(envelope=Envelope.BARE)
    bare.registry = wrapped.registry
    key, value = wrapped.encode(BAR)
    marker, (_, bare_value) = wrapped.marker(), bare.encode(BAR)
    for record in ((key, None), (key, b""), (key, key), (key, marker), (key, bare_value), (None, value)):
        with pytest.raises(MalformedRecord, match="wrapped envelope"):
            wrapped.decoder.decode(*record)
    with pytest.raises(MalformedRecord, match="bare envelope"):
        decoder_for(bare.options, wrapped.registry.text).decode(key, value)


@pytest.mark.parametrize(
    "text", ["", "{", "7", '"nothing"', '{"type":"record"}', '{"type":"record","name":1}']
)
def test_a_schema_that_is_none_is_said_with_its_id(text: str) -> None:
    with pytest.raises(MalformedRecord, match="schema 7 is not an Avro schema"):
        AvroDecoder(AVRO, lambda _: text).decode(frame_prefix(7), None)


def test_a_schema_of_no_record_is_none_of_a_feed() -> None:
    with pytest.raises(MalformedRecord, match="schema 7 is not of a record"):
        AvroDecoder(AVRO, lambda _: '"long"').decode(frame_prefix(7) + b"\x02", None)


@pytest.mark.parametrize(
    "header",
    [
        b'{"bytes":9,"deleted":false,"mvcc_timestamp":"1.0000000000","updated":1}',
        pytest.param(b"[" * 200_000, id="nested too deep"),
    ],
)
def test_a_header_that_no_feed_wrote_is_refused(header: bytes) -> None:
    options = replace(AVRO, on_oversize=OnOversize.KEY_ONLY, max_row_bytes=10)
    decoder = AvroDecoder(options, lambda _: _OF_A_NUMBER.replace("resolved", "id"))
    with pytest.raises(MalformedRecord, match="not an Avro record"):
        decoder.decode(frame_prefix(7) + b"\x02", b"", [(OVERSIZE_HEADER, header)])


def test_a_marker_whose_schema_has_a_number_is_none() -> None:
    with pytest.raises(MalformedRecord, match="not an HLC timestamp: 1"):
        AvroDecoder(AVRO, lambda _: _OF_A_NUMBER).decode(None, frame_prefix(7) + b"\x02")


def test_a_registry_that_is_away_is_no_fault_of_the_record() -> None:
    def away(_: int) -> str:
        raise RegistryAway("the registry does not answer")

    with pytest.raises(RegistryAway):
        AvroDecoder(AVRO, away).decode(frame_prefix(7) + b"\x02", None)


def test_without_a_registry_it_says_so() -> None:
    with pytest.raises(MalformedRecord, match="no schema registry is known"):
        decoder_for(AVRO).decode(frame_prefix(7) + b"\x02", None)


WIDE = sql_table(
    "t",
    ("a",),
    a="INT",
    b="STRING",
    c="DECIMAL(9,2)",
    d="TIMESTAMP",
    e="INT[]",
    f="DATE",
    g="TIME",
    h="FLOAT",
)
WIDE_ROW = row(WIDE, a=1, b="x", c=Decimal("1.50"), d=10**18, e=(1, None), f=1, g=1, h=0.5)


@given(st.data())
def test_damaged_bytes_are_read_or_refused_but_never_anything_else(data: st.DataObject) -> None:
    feed = Feed(WIDE, updated=True)
    key, value = feed.encode(WIDE_ROW)
    assert value is not None
    at = data.draw(st.integers(5, len(value)))
    drop = data.draw(st.integers(0, 4))
    damaged = value[:at] + data.draw(st.binary(max_size=10)) + value[at + drop :]
    with suppress(MalformedRecord):
        assert isinstance(feed.decoder.decode(key, damaged), RowRecord)
