"""Rows of the initial scan: when they are said to be updated, and that they replace nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.changefeed.feeds import timestamps
from tests.unit.changefeed.tables import FOO, row
from tidegate.changefeed.definition.options import Envelope, FeedOptions, Format
from tidegate.changefeed.encoding.confluent import frame_prefix
from tidegate.changefeed.encoding.decoder import decoder_for
from tidegate.changefeed.encoding.encoder import compile_encoder
from tidegate.changefeed.encoding.envelopes.registry import form_of
from tidegate.changefeed.encoding.record import RowRecord
from tidegate.errors import MalformedRecord
from tidegate.hlc import Timestamp
from tidegate.rows import Datum, Row, Unreadable

AT: Final = Timestamp(1_743_792_394_409_866_000, 2)
SCAN: Final = Timestamp(1_743_792_395_000_000_000, 1)
LIVE: Final = row(FOO, a=1, b="x")
FOUND: Final = LIVE._replace(previous=None, scanned_at=SCAN)
JSON_FORMS: Final = tuple(
    FeedOptions(envelope=envelope, updated=stamped, mvcc_timestamp=stamped, diff=stamped)
    for envelope in Envelope
    for stamped in (False, True)
    if not (stamped and form_of(envelope).for_sinks)
)
FORMS: Final = (
    *JSON_FORMS,
    FeedOptions(envelope=Envelope.DEBEZIUM, connect_schema=True),
    FeedOptions(envelope=Envelope.UPSERT, connect_schema=True),
    FeedOptions(envelope=Envelope.ENRICHED, enriched_properties="schema,source", updated=True),
    *(replace(each, format=Format.AVRO) for each in JSON_FORMS if each.envelope is not Envelope.ROW),
)


def form_name(options: FeedOptions) -> str:
    asked = [name for name in ("updated", "connect_schema", "enriched_schema") if getattr(options, name)]
    return " ".join((options.format.value, options.envelope.value, *asked))


def read_back(version: Row, at: Timestamp, options: FeedOptions) -> RowRecord:
    encoder = compile_encoder(version.table, options)
    key, value = encoder.encode(version, at)
    texts = {}
    if encoder.schemas is not None:
        texts = {1: encoder.schemas.key.text, 2: encoder.schemas.value.text}
        key, value = frame_prefix(1) + key, frame_prefix(2) + value if value else value
    record = decoder_for(options, texts.__getitem__).decode(key, value)
    assert isinstance(record, RowRecord)
    return record


@pytest.mark.sampled(4)
@pytest.mark.parametrize("options", FORMS, ids=form_name)
@given(at=timestamps, scan=timestamps)
def test_updated_is_the_time_of_the_scan_and_mvcc_timestamp_the_rows_own(
    options: FeedOptions, at: Timestamp, scan: Timestamp
) -> None:
    live, found = read_back(LIVE, at, options), read_back(FOUND._replace(scanned_at=scan), at, options)
    assert live.updated in (None, at)
    assert found == replace(live, updated=None if live.updated is None else scan)
    assert found.mvcc_timestamp in (None, at)


@pytest.mark.parametrize("options", FORMS, ids=form_name)
@pytest.mark.parametrize(
    "previous", [(), (1, "old"), Unreadable("odd bytes")], ids=["nothing", "a row", "unreadable"]
)
def test_a_row_of_a_scan_replaces_nothing_whatever_the_log_holds(
    options: FeedOptions, previous: tuple[Datum, ...] | Unreadable
) -> None:
    encode = compile_encoder(FOO, options).encode
    assert encode(FOUND._replace(previous=previous), AT) == encode(FOUND, AT)


@pytest.mark.parametrize("options", FORMS, ids=form_name)
def test_but_for_debeziums_letter_it_looks_like_a_row_inserted_at_that_time(options: FeedOptions) -> None:
    if options.mvcc_timestamp:
        return
    encode = compile_encoder(FOO, options).encode
    same = encode(FOUND, AT) == encode(LIVE, SCAN)
    assert same is (options.envelope is not Envelope.DEBEZIUM)


@given(st.sampled_from(JSON_FORMS), timestamps)
def test_a_scan_says_nothing_of_a_version_that_is_not_its_own(options: FeedOptions, at: Timestamp) -> None:
    """A live row is as it was before there were scans: its timestamps are one."""
    record = read_back(LIVE, at, options)
    assert {record.updated, record.mvcc_timestamp} <= {None, at}


def test_only_debezium_tells_that_a_row_was_read() -> None:
    read = b'"op": "r", "source": {"connector": "tidegate"'
    _, value = compile_encoder(FOO, FeedOptions(envelope=Envelope.DEBEZIUM)).encode(FOUND, AT)
    assert value is not None
    assert read in value
    assert b'"snapshot": "true"' in value
    key, enriched = compile_encoder(FOO, FeedOptions(envelope=Envelope.ENRICHED)).encode(FOUND, AT)
    assert enriched is not None
    with pytest.raises(MalformedRecord, match="op 'r' does not fit"):
        decoder_for(FeedOptions(envelope=Envelope.ENRICHED)).decode(
            key, enriched.replace(b'"op": "c"', b'"op": "r"')
        )
