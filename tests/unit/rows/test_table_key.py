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
)


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


def test_long_keys_are_cut_in_messages() -> None:
    assert shortened(b"\xbb\x89") == "0xbb89"
    assert shortened(bytes(41)) == "0x" + "00" * 40 + "..."
