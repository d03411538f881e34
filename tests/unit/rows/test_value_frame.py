"""The frame of a value: checksum, tag, header."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import ChecksumMismatch, EncodingError
from tidegate.rows.value_frame import (
    ExtendedValue,
    checksum,
    join_header,
    ordinary,
    seal,
    split_header,
    unseal,
)

KEY = bytes.fromhex("bb898988")
bodies = st.binary(min_size=1, max_size=40).map(lambda payload: b"\x0a" + payload)


def test_the_checksum_covers_key_and_body() -> None:
    body = bytes.fromhex("0a2605416c6963651505348d0f4272")
    assert seal(KEY, body) == bytes.fromhex("4aac1230") + body


@given(key=st.binary(min_size=1, max_size=20), body=bodies, bit=st.integers(0, 8 * 66))
def test_every_flipped_bit_is_detected(key: bytes, body: bytes, bit: int) -> None:
    pair = bytearray(key + seal(key, body))
    bit %= 8 * len(pair)
    pair[bit // 8] ^= 1 << bit % 8
    damaged_key, damaged_value = bytes(pair[: len(key)]), bytes(pair[len(key) :])
    if damaged_value[:4] != bytes(4):  # which would say that there is no checksum
        with pytest.raises(ChecksumMismatch):
            unseal(damaged_key, damaged_value)


def test_an_unset_checksum_is_not_verified() -> None:
    assert unseal(KEY, bytes(4) + b"\x0a\x01") == b"\x0a\x01"


def test_a_computed_zero_is_stored_as_one() -> None:
    body = bytes.fromhex("9d0ad96d")  # the only four bytes whose CRC-32 is 0
    assert checksum(b"", body) == 1
    assert seal(b"", body)[:4] == b"\x00\x00\x00\x01"
    assert unseal(b"", seal(b"", body)) == body


@given(header=st.binary(max_size=30), value=st.just(b"") | bodies.map(lambda body: seal(KEY, body)))
def test_a_header_is_split_off_and_joined_again(header: bytes, value: bytes) -> None:
    stored = join_header(header, value)
    assert split_header(stored) == ExtendedValue(header, value)
    assert ordinary(stored) == value


def test_an_ordinary_value_has_no_header() -> None:
    value = seal(KEY, b"\x0a")
    assert split_header(value) == ExtendedValue(None, value)
    assert ordinary(value) == value
    assert split_header(b"") == ExtendedValue(None, b"")


@pytest.mark.parametrize("stored", ["00", "00000000", "0000000165", "00000004650a0208", "00000000650000"])
def test_a_value_cut_in_its_frame_is_refused(stored: str) -> None:
    with pytest.raises(EncodingError):
        split_header(bytes.fromhex(stored))
    with pytest.raises(EncodingError):
        ordinary(bytes.fromhex(stored))
