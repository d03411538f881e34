"""The partition of a row is sarama's, and depends on the key bytes alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.changefeed.encoding.partition import fnv1a_32, partition_of


@pytest.mark.parametrize(
    ("data", "digest"),
    [(b"", 0x811C9DC5), (b"a", 0xE40C292C), (b"foobar", 0xBF9CF968)],
)
def test_hash_is_fnv_1a(data: bytes, digest: int) -> None:
    """Values from the FNV draft's test vectors (draft-eastlake-fnv)."""
    assert fnv1a_32(data) == digest


@given(st.binary(max_size=40), st.integers(1, 200))
def test_partition_is_the_remainder_of_the_signed_hash_without_its_sign(key: bytes, count: int) -> None:
    signed = int.from_bytes(fnv1a_32(key).to_bytes(4, "big"), "big", signed=True)
    truncated_remainder = signed - count * int(signed / count)
    assert partition_of(key, count) == abs(truncated_remainder)
    assert 0 <= partition_of(key, count) < count


def test_a_negative_hash_loses_its_sign_after_the_remainder() -> None:
    """0xe40c292c is -468965076 as a signed number; its remainder by 7 is -6."""
    assert partition_of(b"a", 7) == 6
