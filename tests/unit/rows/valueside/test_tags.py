"""Tags of values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import EncodingError
from tidegate.rows.valueside.tags import WireType, decode_tag, encode_tag


@given(delta=st.integers(0, 2**50), wire_type=st.sampled_from(WireType))
def test_a_tag_comes_back(delta: int, wire_type: WireType) -> None:
    tag = encode_tag(delta, wire_type)
    assert decode_tag(tag, 0) == (delta, wire_type, len(tag))
    assert len(tag) == 1 or delta > 7 or wire_type > 14


@given(delta=st.integers(0, 2**50), wire_type=st.integers(max(WireType) + 1, 2**50))
def test_a_wire_type_above_the_known_ones_is_refused(delta: int, wire_type: int) -> None:
    with pytest.raises(EncodingError, match=f"unknown wire type {wire_type}"):
        decode_tag(encode_tag(delta, wire_type), 0)
