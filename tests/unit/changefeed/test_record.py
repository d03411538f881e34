"""Markers have exact bytes, and records read back as what was written."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.changefeed.tables import FOO, INT, STRING, deletion, row, table
from tidegate.changefeed.encoder import compile_encoder
from tidegate.changefeed.marker import marker_value
from tidegate.changefeed.options import Envelope, FeedOptions
from tidegate.changefeed.record import MarkerRecord, RowRecord, decoder_for, parse_record
from tidegate.errors import MalformedRecord
from tidegate.hlc import MAX_LOGICAL, ZERO_RESOLVED, ResolvedTimestamp, Timestamp

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


@given(TIMESTAMPS, st.text(), st.booleans(), st.booleans(), st.sampled_from([Envelope.WRAPPED, Envelope.ROW]))
def test_rows_read_back(at: Timestamp, b: str, updated: bool, mvcc: bool, envelope: Envelope) -> None:
    options = FeedOptions(envelope=envelope, updated=updated, mvcc_timestamp=mvcc)
    key, value = compile_encoder(FOO, options).encode(row(FOO, a=1, b=b), at)
    assert decoder_for(FeedOptions(envelope=envelope)).decode(key, value) == RowRecord(
        key=(1,),
        row={"a": 1, "b": b},
        deleted=False,
        updated=at if updated else None,
        mvcc_timestamp=at if mvcc else None,
    )


def test_deletions_read_back() -> None:
    for envelope, deleted in ((Envelope.WRAPPED, True), (Envelope.ROW, True), (Envelope.KEY_ONLY, None)):
        key, value = compile_encoder(FOO, FeedOptions(envelope=envelope)).encode(deletion(FOO, 7), AT)
        assert parse_record(key, value, envelope) == RowRecord((7,), None, deleted)


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
