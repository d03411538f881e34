"""The fixed parts of keys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import EncodingError
from tidegate.rows import table_id_of
from tidegate.rows.table_key import (
    decode_family_suffix,
    encode_family_suffix,
    index_prefix,
    prefix_end,
    shortened,
    tenant_prefix,
    without_tenant,
)
from tidegate.spans import EVERYTHING, Span


@given(table_id=st.integers(0, 2**32), tenant=st.none() | st.integers(2, 2**40), rest=st.binary(max_size=8))
def test_the_table_is_read_with_and_without_a_tenant(table_id: int, tenant: int | None, rest: bytes) -> None:
    prefix = b"" if tenant is None else tenant_prefix(tenant)
    assert table_id_of(prefix + index_prefix(table_id, 1) + rest) == table_id


@pytest.mark.parametrize(
    "key", ["", "fe", "fe8d", "f6", "f701", "fe8dfd00", "01", "04737461", "12610001", "ff"]
)
def test_keys_of_no_table_are_refused(key: str) -> None:
    with pytest.raises(EncodingError, match="no key of a table"):
        table_id_of(bytes.fromhex(key))


def test_the_documented_tenant_key() -> None:
    assert tenant_prefix(5) + index_prefix(42, 1) == bytes.fromhex("fe8db289")


@pytest.mark.parametrize(("family_id", "suffix"), [(0, "88"), (1, "8989"), (200, "f6c88a")])
def test_the_documented_family_suffixes(family_id: int, suffix: str) -> None:
    assert encode_family_suffix(family_id).hex() == suffix
    assert decode_family_suffix(bytes.fromhex("bb89" + suffix), 2) == family_id


@given(family_id=st.integers(0, 2**32))
def test_a_family_suffix_comes_back_and_its_cuts_are_refused(family_id: int) -> None:
    suffix = encode_family_suffix(family_id)
    assert decode_family_suffix(b"\xbb" + suffix, 1) == family_id
    for size in range(len(suffix)):
        with pytest.raises(EncodingError):
            decode_family_suffix(suffix[:size], 0)
    with pytest.raises(EncodingError):
        decode_family_suffix(suffix + b"\x88", 0)


@given(prefix=st.binary(max_size=6), rest=st.binary(max_size=3))
def test_the_prefix_end_is_above_every_key_with_the_prefix(prefix: bytes, rest: bytes) -> None:
    if prefix.strip(b"\xff"):
        assert prefix + rest < prefix_end(prefix)
        assert not prefix_end(prefix).startswith(prefix)


_PREFIX = tenant_prefix(5)
_TABLE_KEYS = st.builds(
    lambda table_id, rest: index_prefix(table_id, 1) + rest, st.integers(0, 2**32), st.binary(max_size=3)
)
#: Where a range may begin or end in the log of tenant 5: among its keys, at their ends, or behind them.
_BOUNDS = st.one_of(
    _TABLE_KEYS.map(lambda key: _PREFIX + key),
    st.sampled_from([_PREFIX, prefix_end(_PREFIX), tenant_prefix(6) + b"\xbb", EVERYTHING.end]),
)


@given(bounds=st.lists(_BOUNDS, min_size=2, max_size=2, unique=True), key=_TABLE_KEYS, near=st.booleans())
def test_a_key_lies_in_a_tenants_span_with_its_prefix_exactly_if_it_does_without(
    bounds: list[bytes], key: bytes, near: bool
) -> None:
    span = Span(*sorted(bounds))
    if not span.start.startswith(_PREFIX):
        return  # behind the tenant's keys
    if near:
        key = span.start[len(_PREFIX) :] + key[:1]
    plain = without_tenant(span)
    assert plain.contains(key) == span.contains(_PREFIX + key)
    assert plain.start < plain.end


@given(bounds=st.lists(st.binary(max_size=4), min_size=2, max_size=2, unique=True))
def test_a_span_that_begins_with_no_tenant_is_left_alone_and_no_span_becomes_inverted(
    bounds: list[bytes],
) -> None:
    span = Span(*sorted(bounds))
    plain = without_tenant(span)
    assert plain.start < plain.end
    if not span.start.startswith(b"\xfe"):
        assert plain is span


@pytest.mark.parametrize(
    ("start", "end", "plain_start", "plain_end"),
    [
        ("fe8db2", "fe8db3", "b2", "b3"),
        ("fe8d", "fe8e", "", "fe"),  # the whole tenant
        ("fe8db2", "fe8e", "b2", "fe"),
        ("fe8db2", "fe8fb2", "b2", "fe"),  # a prefix of the end that is another tenant's
        ("fe8db2", "ffff", "b2", "fe"),
        ("fef66eb2", "fef66f", "b2", "fe"),  # an id of two bytes
        ("b2", "fe8d", "b2", "fe8d"),
        ("fe", "fe8d", "fe", "fe8d"),  # in front of all tenants
        ("fe8dfe", "fe8e", "fe8dfe", "fe8e"),  # behind the tenant's tables
    ],
)
def test_documented_spans_lose_their_tenant(start: str, end: str, plain_start: str, plain_end: str) -> None:
    span = Span(bytes.fromhex(start), bytes.fromhex(end))
    assert without_tenant(span) == Span(bytes.fromhex(plain_start), bytes.fromhex(plain_end))


def test_long_keys_are_cut_in_messages() -> None:
    assert shortened(b"\xbb\x89") == "0xbb89"
    assert shortened(bytes(41)) == "0x" + "00" * 40 + "..."
