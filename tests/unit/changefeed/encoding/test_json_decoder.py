"""Markers have exact bytes, and records read back as what was written."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.changefeed.tables import FOO, INT, STRING, deletion, deletion_of, row, table, update
from tidegate.changefeed.definition.options import Envelope, FeedOptions
from tidegate.changefeed.encoding.decoder import decoder_for
from tidegate.changefeed.encoding.encoder import compile_encoder
from tidegate.changefeed.encoding.json_decoder import JsonDecoder, parse_record
from tidegate.changefeed.encoding.marker import marker_value
from tidegate.changefeed.encoding.record import MarkerRecord, RowRecord
from tidegate.errors import MalformedRecord
from tidegate.hlc import MAX_LOGICAL, ZERO_RESOLVED, ResolvedTimestamp, Timestamp
from tidegate.rows.types import Json, JsonValue, Kind, SqlType

AT = Timestamp(1, 2)
TIMESTAMPS = st.builds(Timestamp, st.integers(1, 2**63 - 1), st.integers(0, MAX_LOGICAL))


def test_marker_of_the_wrapped_envelope_stands_at_the_top() -> None:
    assert marker_value(ResolvedTimestamp(AT), Envelope.WRAPPED) == b'{"resolved":"1.0000000002"}'


@pytest.mark.parametrize("envelope", [Envelope.ROW, Envelope.KEY_ONLY])
def test_marker_of_other_envelopes_stands_under_the_metadata_member(envelope: Envelope) -> None:
    assert marker_value(ResolvedTimestamp(AT), envelope) == b'{"__crdb__":{"resolved":"1.0000000002"}}'


def test_a_marker_is_never_zero() -> None:
    with pytest.raises(ValueError, match="nothing is resolved"):
        marker_value(ZERO_RESOLVED, Envelope.WRAPPED)


@given(TIMESTAMPS, st.sampled_from(Envelope))
def test_markers_read_back(resolved: Timestamp, envelope: Envelope) -> None:
    value = marker_value(ResolvedTimestamp(resolved), envelope)
    assert parse_record(None, value, envelope) == MarkerRecord(ResolvedTimestamp(resolved))


@given(
    TIMESTAMPS,
    st.text(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([Envelope.WRAPPED, Envelope.ROW, Envelope.BARE, Envelope.ENRICHED]),
)
def test_rows_read_back(at: Timestamp, b: str, updated: bool, mvcc: bool, envelope: Envelope) -> None:
    options = FeedOptions(envelope=envelope, updated=updated, mvcc_timestamp=mvcc)
    key, value = compile_encoder(FOO, options).encode(row(FOO, a=1, b=b), at)
    for decoder in (decoder_for(options), JsonDecoder(envelope)):
        assert decoder.decode(key, value) == RowRecord(
            key=(1,),
            row={"a": 1, "b": b},
            deleted=False,
            updated=at if updated else None,
            mvcc_timestamp=at if mvcc else None,
        )


DELETIONS = {
    Envelope.WRAPPED: RowRecord((7,), None, deleted=True),
    Envelope.ROW: RowRecord((7,), None, deleted=True),
    Envelope.KEY_ONLY: RowRecord((7,), None, deleted=None),
    Envelope.BARE: RowRecord((7,), {"a": 7, "b": None}, deleted=None),
    Envelope.ENRICHED: RowRecord((7,), None, deleted=True),
    Envelope.UPSERT: RowRecord((7,), None, deleted=True),
    Envelope.DEBEZIUM: RowRecord((7,), None, deleted=True, updated=AT, previous={"a": 7, "b": None}),
}


@pytest.mark.parametrize("envelope", Envelope)
def test_deletions_read_back(envelope: Envelope) -> None:
    key, value = compile_encoder(FOO, FeedOptions(envelope=envelope)).encode(deletion(FOO, 7), AT)
    assert parse_record(key, value, envelope) == DELETIONS[envelope]


SHOWING = [
    FeedOptions(diff=True, updated=True),
    FeedOptions(envelope=Envelope.ENRICHED, diff=True, updated=True),
    FeedOptions(envelope=Envelope.DEBEZIUM),
]


@pytest.mark.parametrize("options", SHOWING, ids=lambda options: options.envelope.value)
def test_the_row_before_is_read_back_where_it_is_shown(options: FeedOptions) -> None:
    encode, decode = compile_encoder(FOO, options).encode, decoder_for(options).decode
    old, new = row(FOO, a=7, b="old"), row(FOO, a=7, b="new")
    was, now = {"a": 7, "b": "old"}, {"a": 7, "b": "new"}
    assert decode(*encode(old, AT)) == RowRecord((7,), was, deleted=False, updated=AT)
    assert decode(*encode(update(old, new), AT)) == RowRecord(
        (7,), now, deleted=False, updated=AT, previous=was
    )
    assert decode(*encode(deletion_of(old), AT)) == RowRecord(
        (7,), None, deleted=True, updated=AT, previous=was
    )


def test_an_enriched_record_without_updated_tells_no_timestamp_though_it_has_wall_time() -> None:
    options = FeedOptions(envelope=Envelope.ENRICHED)
    record = decoder_for(options).decode(*compile_encoder(FOO, options).encode(row(FOO, a=1, b="x"), AT))
    assert record == RowRecord((1,), {"a": 1, "b": "x"}, deleted=False)


def test_an_upserted_row_reads_back() -> None:
    options = FeedOptions(envelope=Envelope.UPSERT)
    key, value = compile_encoder(FOO, options).encode(row(FOO, a=1, b="x"), AT)
    assert decoder_for(options).decode(key, value) == RowRecord((1,), {"a": 1, "b": "x"}, deleted=False)


def test_a_debezium_record_without_a_value_is_a_tombstone_and_tells_no_version() -> None:
    decoder = JsonDecoder(Envelope.DEBEZIUM)
    assert decoder.decode(b'{"a": 7}', None) == RowRecord((7,), None, deleted=True, tombstone=True)
    assert [envelope for envelope in Envelope if JsonDecoder(envelope).tombstones] == [Envelope.DEBEZIUM]


def test_a_bare_row_with_more_values_than_its_key_is_no_deletion() -> None:
    full = parse_record(b"[1]", b'{"a": 1, "b": "x"}', Envelope.BARE)
    assert full == RowRecord((1,), {"a": 1, "b": "x"}, deleted=False)
    other_key = JsonDecoder(Envelope.BARE, row_keys=False).decode(b'["x"]', b'{"a": 1, "b": "x", "c": 2}')
    assert other_key == RowRecord(("x",), {"a": 1, "b": "x", "c": 2}, deleted=None)


def test_the_metadata_of_a_bare_row_is_no_column() -> None:
    options = FeedOptions(envelope=Envelope.BARE, updated=True, key_in_value=True, topic_in_value=True)
    key, value = compile_encoder(FOO, options).encode(row(FOO, a=1, b="x"), AT)
    expected = RowRecord((1,), {"a": 1, "b": "x"}, deleted=False, updated=AT)
    assert decoder_for(options).decode(key, value) == expected


def test_payloads_are_read_out_of_records_with_schemas() -> None:
    options = FeedOptions(envelope=Envelope.UPSERT, connect_schema=True)
    decoder = decoder_for(options)
    key, value = compile_encoder(FOO, options).encode(row(FOO, a=1, b="x"), AT)
    assert decoder.decode(key, value) == RowRecord((1,), {"a": 1, "b": "x"}, deleted=False)
    assert decoder.decode(key, None) == RowRecord((1,), None, deleted=True)


def test_a_wrapped_column_named_like_a_member_stays_a_column() -> None:
    odd = table("odd", {"after": INT, "before": INT, "op": INT, "updated": INT}, key=("after",))
    for options in SHOWING:
        key, value = compile_encoder(odd, options).encode(row(odd, after=1, before=2, op=3, updated=4), AT)
        record = decoder_for(options).decode(key, value)
        assert isinstance(record, RowRecord)
        assert record.row == {"after": 1, "before": 2, "op": 3, "updated": 4}


def test_a_wrapped_deletion_keeps_its_timestamp() -> None:
    key, value = compile_encoder(FOO, FeedOptions(updated=True)).encode(deletion(FOO, 7), AT)
    assert parse_record(key, value) == RowRecord((7,), None, deleted=True, updated=AT)


def test_a_column_with_the_name_of_the_metadata_stays_a_column() -> None:
    odd = table("odd", {"__crdb__": STRING, "a": INT}, key=("a",))
    key, value = compile_encoder(odd, FeedOptions(envelope=Envelope.ROW)).encode(
        row(odd, __crdb__="mine", a=1), AT
    )
    record = parse_record(key, value, Envelope.ROW)
    assert record == RowRecord((1,), {"__crdb__": "mine", "a": 1}, deleted=False)


@pytest.mark.parametrize("envelope", [Envelope.ROW, Envelope.BARE])
@pytest.mark.parametrize("value", [{"updated": "soon"}, {"updated": "5.0000000000"}, {"key": Decimal(1)}])
def test_a_column_that_looks_like_the_metadata_stays_a_column_of_a_feed_without(
    envelope: Envelope, value: dict[str, JsonValue]
) -> None:
    odd = table("odd", {"a": INT, "__crdb__": SqlType(Kind.JSONB)}, key=("a",))
    options = FeedOptions(envelope=envelope)
    written = compile_encoder(odd, options).encode(row(odd, a=1, __crdb__=Json(value)), AT)
    record = decoder_for(options).decode(*written)
    assert isinstance(record, RowRecord)
    assert (record.row, record.updated) == ({"a": 1, "__crdb__": value}, None)


OF_ANOTHER_FEED = [
    (FeedOptions(updated=True), b'{"after": {"a": 1}}'),
    (FeedOptions(updated=True), b'{"after": {"a": 1}, "updated": null}'),
    (FeedOptions(), b'{"after": {"a": 1}, "updated": "1.0000000002"}'),
    (FeedOptions(), b'{"after": {"a": 1}, "before": null}'),
    (FeedOptions(diff=True), b'{"after": {"a": 1}}'),
    (FeedOptions(key_in_value=True), b'{"after": {"a": 1}}'),
    (FeedOptions(), b'{"after": {"a": 1}, "junk": 1}'),
    (FeedOptions(), b'{"after": null, "after": {"a": 1}}'),
    (FeedOptions(), b'{"after": {"a": 1, "a": 2}}'),
    (FeedOptions(), b'{"after": {"a": NaN}}'),
    (FeedOptions(), b'{"after": {"a": -Infinity}}'),
    (FeedOptions(envelope=Envelope.ROW), None),
    (FeedOptions(envelope=Envelope.ROW, updated=True), b'{"a": 1}'),
    (FeedOptions(envelope=Envelope.ROW, updated=True), b'{"__crdb__": 1, "a": 1}'),
    (FeedOptions(envelope=Envelope.BARE, updated=True), b'{"__crdb__": {"key": [1]}, "a": 1}'),
    (FeedOptions(envelope=Envelope.KEY_ONLY), None),
]


@pytest.mark.parametrize(("options", "value"), OF_ANOTHER_FEED)
def test_a_value_that_these_options_do_not_write_is_refused(
    options: FeedOptions, value: bytes | None
) -> None:
    with pytest.raises(MalformedRecord, match="not a JSON record"):
        decoder_for(options).decode(b"[1]", value)


@pytest.mark.parametrize(
    "options",
    [
        FeedOptions(envelope=Envelope.ENRICHED, updated=True, diff=True, enriched_properties="source"),
        FeedOptions(envelope=Envelope.ENRICHED, key_in_value=True, topic_in_value=True),
        FeedOptions(envelope=Envelope.DEBEZIUM),
    ],
    ids=["enriched-source", "enriched", "debezium"],
)
def test_every_member_of_a_change_is_asked_for_and_no_other(options: FeedOptions) -> None:
    key, value = compile_encoder(FOO, options).encode(row(FOO, a=1, b="x"), AT)
    decoder, members = decoder_for(options), json.loads(value or b"")
    decoder.decode(key, json.dumps(members).encode())
    spoilt = [{name: each for name, each in members.items() if name != gone} for gone in members]
    spoilt.append({**members, "junk": 1})
    source = members.get("source", {})
    spoilt += [
        {**members, "source": {name: each for name, each in source.items() if name != gone}}
        for gone in source
    ]
    for each in spoilt:
        with pytest.raises(MalformedRecord):
            decoder.decode(key, json.dumps(each).encode())


def test_characters_that_are_written_as_surrogate_pairs_are_read() -> None:
    record = parse_record(rb'["\ud83d\ude00"]', rb'{"after": {"a": "\uD83D\uDE00"}}')
    assert isinstance(record, RowRecord)
    assert (record.key, record.row) == (("\U0001f600",), {"a": "\U0001f600"})


def test_numbers_keep_their_digits() -> None:
    record = parse_record(b"[9223372036854775807]", b'{"after": {"d": 26.30, "f": 1E+2}}')
    assert isinstance(record, RowRecord)
    assert record.key == (2**63 - 1,)
    assert record.row is not None
    assert [str(number) for number in record.row.values()] == ["26.30", "1E+2"]
    assert all(type(number) is Decimal for number in record.row.values())


@pytest.mark.parametrize(
    ("key", "value", "envelope"),
    [
        (b"[1]", None, Envelope.WRAPPED),
        (b"[1]", b"", Envelope.WRAPPED),
        (b"[1]", b"{}", Envelope.WRAPPED),
        (b"[1]", b'{"after": 1}', Envelope.WRAPPED),
        (b"[1]", b'{"after": null, "updated": "soon"}', Envelope.WRAPPED),
        (b"[1]", b'{"after": null, "updated": 1}', Envelope.WRAPPED),
        (b"[1", b'{"after": null}', Envelope.WRAPPED),
        (b"1", b'{"after": null}', Envelope.WRAPPED),
        (b"[1]", b'{"after": null}\xff', Envelope.WRAPPED),
        (b"[1]", b"[]", Envelope.ROW),
        (b"[1]", b"{}", Envelope.KEY_ONLY),
        (b"[1]", None, Envelope.KEY_ONLY),
        (b"[1]", None, Envelope.ROW),
        (b"[]", b'{"after": null}', Envelope.WRAPPED),
        (b"{}", None, Envelope.UPSERT),
        (b"[1]", b'{"after": null, "junk": 1}', Envelope.WRAPPED),
        (b"[1]", b'{"after": null, "after": null}', Envelope.WRAPPED),
        (b"[1]", b'{"after": {"a": NaN}}', Envelope.WRAPPED),
        (b"[1]", rb'{"after": {"a": "\ud800"}}', Envelope.WRAPPED),
        (b"[1]", rb'{"after": {"\uDfff": 1}}', Envelope.WRAPPED),
        (rb'["\ude00\ud83d"]', b'{"after": null}', Envelope.WRAPPED),
        (None, b'{"resolved":"1.0000000002","junk":1}', Envelope.WRAPPED),
        (b"[1]", b"", Envelope.BARE),
        (b"[1]", b"[]", Envelope.BARE),
        (b"[1]", b'{"a": 1}', Envelope.UPSERT),
        (b'{"a": 1}', b"", Envelope.UPSERT),
        (b'{"a": 1}', b'{"after": null}', Envelope.ENRICHED),
        (b'{"a": 1}', b'{"after": null, "op": "c"}', Envelope.ENRICHED),
        (b'{"a": 1}', b'{"after": {"a": 1}, "op": "d"}', Envelope.ENRICHED),
        (b'{"a": 1}', b'{"after": {"a": 1}, "op": "r"}', Envelope.ENRICHED),
        (b'{"a": 1}', b'{"after": {"a": 1}, "op": "x"}', Envelope.DEBEZIUM),
        (b'{"a": 1}', b'{"after": null, "op": "r"}', Envelope.DEBEZIUM),
        (b'{"a": 1}', b'{"after": {"a": 1}, "before": 1, "op": "u"}', Envelope.DEBEZIUM),
        (b'{"a": 1}', b'{"after": {"a": 1}, "op": "c", "source": 1}', Envelope.DEBEZIUM),
        (b'{"a": 1}', b"", Envelope.DEBEZIUM),
        (None, b'{"resolved":"1.0000000002"}', Envelope.ROW),
        (None, b'{"resolved":2}', Envelope.WRAPPED),
        (None, b'{"__crdb__":"1.0000000002"}', Envelope.ROW),
        (None, None, Envelope.WRAPPED),
        (b"[1]", b"[" * 100_000, Envelope.WRAPPED),
    ],
)
def test_bytes_that_no_feed_wrote_are_refused(
    key: bytes | None, value: bytes | None, envelope: Envelope
) -> None:
    with pytest.raises(MalformedRecord, match="not a JSON record"):
        parse_record(key, value, envelope)
