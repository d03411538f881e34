"""Rows that are too large: which are, what stands in their place, and that it reads back as nothing else."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.changefeed.tables import FOO, INT, STRING, deletion_of, row, table, update
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.definition.options import Envelope, FeedOptions, Format, OnOversize
from tidegate.changefeed.definition.oversize import (
    DEFAULT_MAX_ROW_BYTES,
    OVERSIZE_HEADER,
    Oversize,
    read_oversize,
)
from tidegate.changefeed.encoding.confluent import frame_prefix
from tidegate.changefeed.encoding.decoder import decoder_for
from tidegate.changefeed.encoding.encoder import compile_encoder
from tidegate.changefeed.encoding.envelopes.registry import form_of
from tidegate.changefeed.encoding.json_decoder import parse_record
from tidegate.changefeed.encoding.record import RowRecord
from tidegate.changefeed.statement.definition import define_feed
from tidegate.errors import MalformedRecord
from tidegate.hlc import Timestamp
from tidegate.rows import Json, Kind, Row, SqlType

AT = Timestamp(1_743_792_394_409_866_000, 2)
SCAN = Timestamp(1_743_792_400_000_000_000)
KEY_ONLY = FeedOptions(on_oversize=OnOversize.KEY_ONLY, max_row_bytes=DEFAULT_MAX_ROW_BYTES)
TRACED = table("traced", {"id": INT, "h": SqlType(Kind.JSONB), "text": STRING}, key=("id",))
ENVELOPES = [envelope for envelope in Envelope if form_of(envelope).may_leave_out]


def written(
    change: Row, options: FeedOptions, at: Timestamp = AT
) -> tuple[bytes, bytes | None, list[tuple[str, bytes]]]:
    """Key, value and headers of the change's record."""
    encoder = compile_encoder(change.table, options)
    key, value = encoder.encode(change, at)
    headers = [] if encoder.headers is None else encoder.headers(change)
    if encoder.limit is not None:
        value, headers = encoder.limit.applied(change, at, key, value, headers)
    return key, value, headers


def limited(max_row_bytes: int, **more: object) -> FeedOptions:
    return replace(KEY_ONLY, max_row_bytes=max_row_bytes, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("envelope", ENVELOPES)
def test_a_row_at_the_limit_is_whole_and_one_byte_more_leaves_its_value_out(envelope: Envelope) -> None:
    change = row(FOO, a=1, b="x" * 100)
    key, value, _ = written(change, limited(10_000, envelope=envelope))
    size = len(key) + len(value or b"")
    assert written(change, limited(size, envelope=envelope)) == (key, value, [])
    assert written(change, limited(size - 1, envelope=envelope)) == (
        key,
        b"",
        [
            (
                OVERSIZE_HEADER,
                b'{"bytes":%d,"deleted":false,"mvcc_timestamp":"1743792394409866000.0000000002",'
                b'"updated":"1743792394409866000.0000000002"}' % size,
            )
        ],
    )


def test_without_the_option_no_row_is_too_large_for_an_encoder() -> None:
    assert compile_encoder(FOO, FeedOptions()).limit is None


@pytest.mark.parametrize("envelope", ENVELOPES)
def test_the_ids_of_schemas_count_as_they_go_out(envelope: Envelope) -> None:
    options = FeedOptions(format=Format.AVRO, envelope=envelope)
    change = row(FOO, a=1, b="x" * 100)
    key, value, _ = written(change, options)
    size = len(frame_prefix(1) + key) + len(frame_prefix(1) + (value or b""))
    fits = replace(options, on_oversize=OnOversize.KEY_ONLY, max_row_bytes=size)
    assert written(change, fits)[1] == value
    _, left_out, ((_, header),) = written(change, replace(fits, max_row_bytes=size - 1))
    assert (left_out, json.loads(header)["bytes"]) == (b"", size)


def test_headers_of_the_row_count_and_are_left_out_and_those_of_the_feed_stay() -> None:
    options = limited(10_000, headers_json_column_name="h", extra_headers='{"team": "blue"}')
    change = row(TRACED, id=1, h=Json({"trace": "x" * 500}), text="short")
    key, value, headers = written(change, options)
    assert [name for name, _ in headers] == ["team", "trace"]
    size = len(key) + len(value or b"") + sum(len(name) + len(text) + 10 for name, text in headers)
    assert written(change, replace(options, max_row_bytes=size)) == (key, value, headers)
    key, value, headers = written(change, replace(options, max_row_bytes=size - 1))
    assert (key, value) == (b"[1]", b"")
    assert [name for name, _ in headers] == ["team", OVERSIZE_HEADER]


def test_a_row_of_a_scan_tells_when_it_was_scanned_and_which_version_it_is() -> None:
    found = row(FOO, a=1, b="x" * 100)._replace(previous=None, scanned_at=SCAN)
    *_, headers = written(found, limited(50))
    assert read_oversize(headers) == Oversize(131, False, SCAN, AT)


def test_a_deletion_that_shows_a_large_row_before_it_says_that_it_is_one() -> None:
    change = deletion_of(row(FOO, a=1, b="x" * 100))
    assert written(change, limited(100))[1] == b'{"after": null}'
    key, value, headers = written(change, limited(100, diff=True))
    record = parse_record(key, value, headers=headers)
    assert isinstance(record, RowRecord)
    assert (record.deleted, record.row) == (True, None)
    assert record.oversize_bytes > 100


@given(
    text=st.text(max_size=80),
    before=st.none() | st.text(max_size=80),
    deleted=st.booleans(),
    max_row_bytes=st.integers(1, 250),
    envelope=st.sampled_from(ENVELOPES),
    diff=st.booleans(),
    scanned=st.booleans(),
)
def test_every_row_is_whole_or_left_out_by_its_size_alone_and_reads_back_as_that(
    text: str,
    before: str | None,
    deleted: bool,
    max_row_bytes: int,
    envelope: Envelope,
    diff: bool,
    scanned: bool,
) -> None:
    new, old = row(FOO, a=1, b=text), row(FOO, a=1, b=before)
    change = deletion_of(old) if deleted else new if before is None else update(old, new)
    if scanned and not deleted:
        change = new._replace(previous=(), scanned_at=SCAN)
    plain = FeedOptions(envelope=envelope, diff=diff and envelope is not Envelope.BARE, updated=True)
    options = replace(plain, on_oversize=OnOversize.KEY_ONLY, max_row_bytes=max_row_bytes)
    whole, found = written(change, plain), written(change, options)
    assert found == written(change, options), "not a function of the row"
    assert found[0] == whole[0]
    size = len(whole[0]) + len(whole[1] or b"")
    if size <= max_row_bytes:
        assert found == whole
    record = decoder_for(options).decode(*found)
    assert isinstance(record, RowRecord)
    assert record.oversize_bytes == (size if size > max_row_bytes else 0)
    assert record.updated == change.updated(AT)
    if record.oversize_bytes:
        assert (record.row, record.deleted, record.mvcc_timestamp) == (None, deleted, AT)
        with pytest.raises(MalformedRecord):  # who reads no headers takes it for nothing else
            decoder_for(options).decode(*found[:2])
        with pytest.raises(MalformedRecord):  # nor may another feed have such a record
            decoder_for(plain).decode(*found)


@pytest.mark.parametrize(
    "header",
    [
        None,
        b"",
        b"1234",
        b"[]",
        b'{"bytes":0,"deleted":false,"mvcc_timestamp":"1.0000000000","updated":"1.0000000000"}',
        b'{"bytes":true,"deleted":false,"mvcc_timestamp":"1.0000000000","updated":"1.0000000000"}',
        b'{"bytes":9,"deleted":0,"mvcc_timestamp":"1.0000000000","updated":"1.0000000000"}',
        b'{"bytes":9,"deleted":false,"mvcc_timestamp":"now","updated":"1.0000000000"}',
        b'{"bytes":9,"deleted":false}',
        b'{"bytes":9,"deleted":false,"mvcc_timestamp":1,"updated":"1.0000000000"}',
        b'{"bytes":9,"deleted":false,"mvcc_timestamp":"1.0000000000","updated":null}',
        b'{"bytes":9,"deleted":false,"mvcc_timestamp":"1.0000000000","updated":[]}',
        b'{"bytes":9,"deleted":false,"mvcc_timestamp":"1.0000000000","updated":1.5}',
        pytest.param(b"[" * 200_000, id="nested too deep"),
    ],
)
def test_a_header_that_no_feed_wrote_is_refused(header: bytes | None) -> None:
    with pytest.raises(MalformedRecord):
        parse_record(b"[1]", b"", headers=[(OVERSIZE_HEADER, header)])


def test_a_header_that_stands_there_twice_is_refused() -> None:
    header = Oversize(9, False, AT, AT).header()
    with pytest.raises(MalformedRecord):
        parse_record(b"[1]", b"", headers=[header, header])


def test_the_header_of_a_column_does_not_make_a_whole_row_one_that_was_left_out() -> None:
    header = Oversize(9, False, AT, AT).header()
    record = parse_record(b"[1]", b'{"after": {"a": 1}}', headers=[header])
    assert isinstance(record, RowRecord)
    assert (record.row, record.oversize_bytes) == ({"a": 1}, 0)
    deletion = parse_record(b"[1]", b"", Envelope.ROW, [header])
    assert isinstance(deletion, RowRecord)
    assert (deletion.deleted, deletion.oversize_bytes) == (True, 0)


def test_the_limit_is_a_number_of_the_definition() -> None:
    statement = "CREATE CHANGEFEED FOR TABLE foo INTO 'kafka://k:9092' WITH on_oversize='key_only'"
    definition = define_feed(statement, FeedId("1"), 0).definition
    assert definition.options.max_row_bytes == DEFAULT_MAX_ROW_BYTES
    assert "max_row_bytes = '999000', on_oversize = 'key_only'" in definition.description
    assert define_feed(definition.description, FeedId("1"), 0).definition == definition
