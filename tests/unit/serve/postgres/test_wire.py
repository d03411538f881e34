"""Frames and messages, and bytes that are none."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.serve.postgres.served import frame
from tidegate.errors import WireBroken
from tidegate.serve.postgres import wire
from tidegate.serve.stream_source import ShownType, StreamColumns

PHASES = (wire.SASL_FIRST, wire.SASL_FINAL, wire.QUERIES)


def test_a_frame_is_as_long_as_it_says() -> None:
    assert wire.frame_bytes(frame(b"Q", b"SELECT 1\0"), 1000) == 14
    assert wire.frame_bytes(b"Q\0\0\0", 1000) is None
    assert wire.startup_bytes(b"\0\0\0\x08", 1000) == 8
    assert wire.startup_bytes(b"\0\0\0", 1000) is None


@pytest.mark.parametrize("length", [0, 3, 1001, 2**31, 2**32 - 1])
def test_a_length_that_no_message_has_is_refused_before_the_message_is_there(length: int) -> None:
    with pytest.raises(WireBroken, match="and up to 1000 are read"):
        wire.frame_bytes(b"Q" + struct.pack("!I", length), 1000)
    with pytest.raises(WireBroken, match="8 to 1000 are read"):
        wire.startup_bytes(struct.pack("!I", length), 1000)


def test_a_request_for_http_is_no_startup_packet() -> None:
    with pytest.raises(WireBroken, match="no client of PostgreSQL"):
        wire.startup_bytes(b"GET / HTTP/1.1", 10_000)


@given(st.sampled_from(PHASES), st.binary(min_size=1, max_size=1), st.binary(max_size=60))
def test_any_frame_is_a_message_or_refused(phase: object, kind: bytes, payload: bytes) -> None:
    with contextlib.suppress(WireBroken):
        wire.read_message(frame(kind, payload), phase)  # type: ignore[arg-type]


@given(st.sampled_from((wire.PROTOCOL_3_0, 80877102, 80877103, 80877104, 0)), st.binary(max_size=60))
def test_any_startup_packet_is_a_message_or_refused(code: int, payload: bytes) -> None:
    packet = struct.pack("!II", len(payload) + 8, code) + payload
    with contextlib.suppress(WireBroken):
        wire.read_startup(packet)


def test_a_later_minor_version_is_negotiated() -> None:
    packet = struct.pack("!II", 8 + 21, 0x0003_270F) + b"user\0ada\0_pq_.x\0yes\0\0"
    found = wire.read_startup(packet)
    assert found.unknown_version
    assert found.options == ("_pq_.x",)
    assert isinstance(found.message, wire.StartupMessage)
    assert found.message.params["user"] == "ada"
    answer = wire.negotiate_version(found.options)
    assert answer == b"v" + struct.pack("!III", 19, wire.PROTOCOL_3_0, 1) + b"_pq_.x\0"


def test_rows_have_the_bytes_of_the_protocol() -> None:
    assert wire.data_rows([(b"ab", None), (b"", b"c")]) == (
        b"D\0\0\0\x10\0\x02\0\0\0\x02ab\xff\xff\xff\xff" + b"D\0\0\0\x0f\0\x02\0\0\0\0\0\0\0\x01c"
    )
    assert wire.copy_rows([b"a\n", b"\n"]) == b"d\0\0\0\x06a\nd\0\0\0\x05\n"


def test_columns_have_the_oids_of_their_types() -> None:
    columns = StreamColumns(tuple(each.value for each in ShownType), tuple(ShownType))
    found = wire.row_description(columns)
    for each, oid in zip(ShownType, (16, 20, 701, 1700, 25, 3802, 17, 2950), strict=True):
        at = found.index(each.value.encode() + b"\0") + len(each.value) + 1
        assert struct.unpack_from("!IhI", found, at)[2] == oid


def test_a_nul_in_an_errors_text_does_not_cut_it() -> None:
    assert wire.error({"M": "a\0b"}).count(b"\0b") == 0
    assert b"half: ?" in wire.error({"M": "half: \ud800"})


def test_a_nul_in_a_columns_name_does_not_break_the_message() -> None:
    columns = StreamColumns(("a\0b", "half: \ud800"), (ShownType.TEXT, ShownType.TEXT))
    found = wire.row_description(columns)
    numbers = struct.pack("!IHIhih", 0, 0, 25, -1, -1, 0)
    assert found[7:] == "a\N{REPLACEMENT CHARACTER}b\0".encode() + numbers + b"half: ?\0" + numbers
