"""Raw storage keys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import EncodingError
from tidegate.hlc import ZERO, Timestamp
from tidegate.rows.mvcc_key import MvccKey, decode_mvcc_key, encode_mvcc_key

timestamps = st.builds(Timestamp, st.integers(0, 2**63 - 1), st.just(0) | st.integers(0, 2**31 - 1))
versions = st.builds(MvccKey, st.binary(max_size=20), timestamps, st.booleans())


@given(version=versions)
def test_a_version_comes_back(version: MvccKey) -> None:
    assert decode_mvcc_key(encode_mvcc_key(version)) == version


@pytest.mark.parametrize(
    ("version", "suffix"),
    [
        (MvccKey(b"", ZERO), "00"),
        (MvccKey(b"", Timestamp(1)), "00000000000000000109"),
        (MvccKey(b"", Timestamp(1, 2)), "000000000000000001000000020d"),
        (MvccKey(b"", Timestamp(1), synthetic=True), "00000000000000000100000000010e"),
    ],
)
def test_the_shortest_form_is_written(version: MvccKey, suffix: str) -> None:
    assert encode_mvcc_key(version).hex() == suffix


def test_a_logical_zero_that_was_written_is_read() -> None:
    longer = bytes.fromhex("666f6f0000000000000000010000000000"[:-2] + "0d")
    assert decode_mvcc_key(longer) == MvccKey(b"foo", Timestamp(1))


@pytest.mark.parametrize(
    "stored",
    [
        "",  # no sentinel
        "01",  # a length without anything before it
        "ab00ffff03",  # no such length
        "ab00ffffffffffffffff0f",
        "ab01000000000000000109",  # no sentinel before the timestamp
        "ab0000000000000001" + "00000000" + "020e",  # the synthetic mark is not 1
        "ab00ffffffffffffffff09",  # beyond the clock's range
        "ab000000000000000001ffffffff0d",
    ],
)
def test_a_malformed_suffix_is_refused(stored: str) -> None:
    with pytest.raises(EncodingError):
        decode_mvcc_key(bytes.fromhex(stored))


@given(noise=st.binary(max_size=30))
def test_noise_is_decoded_or_refused(noise: bytes) -> None:
    try:
        version = decode_mvcc_key(noise)
    except EncodingError:
        return
    assert noise.startswith(version.key)
