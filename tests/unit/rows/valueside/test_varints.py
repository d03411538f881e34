"""Numbers of variable length in values."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidegate.rows.valueside.varints import decode_length, encode_length


@given(value=st.integers(0, 2**64 - 1))
def test_a_length_is_most_significant_group_first(value: int) -> None:
    encoded = encode_length(value)
    assert decode_length(encoded, 0) == (value, len(encoded))
    assert encoded[-1] == value & 0x7F
    assert all(byte & 0x80 for byte in encoded[:-1])
