"""Tags of values."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidegate.rows.valueside.tags import WireType, decode_tag, encode_tag


@given(delta=st.integers(0, 2**50), wire_type=st.sampled_from(WireType))
def test_a_tag_comes_back(delta: int, wire_type: WireType) -> None:
    tag = encode_tag(delta, wire_type)
    assert decode_tag(tag, 0) == (delta, wire_type, len(tag))
    assert len(tag) == 1 or delta > 7 or wire_type > 14
