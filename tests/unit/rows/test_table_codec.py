"""Rows: what is written is read, what is foreign passed over, what is damaged refused with its place."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.rows.sameness import exact
from tests.unit.rows.strategies import tables_with_rows
from tidegate.errors import ChecksumMismatch, EncodingError, UnsupportedTable
from tidegate.hlc import Timestamp
from tidegate.rows import (
    Column,
    Family,
    KeyPart,
    Kind,
    Row,
    SqlType,
    TableCodec,
    TableDescriptor,
    parse_sql_type,
)
from tidegate.rows.keyside.byte_strings import encode_bytes_asc
from tidegate.rows.table_key import index_prefix, index_span, tenant_prefix
from tidegate.rows.value_frame import join_header, seal
from tidegate.rows.valueside.tags import WireType, encode_tag


def table(*columns: str, key: tuple[str, ...] = (), **fields: Any) -> TableDescriptor:
    """A table out of ``name TYPE`` texts; the first column is the key unless ``key`` names others."""
    named = [text.split(" ", 1) for text in columns]
    made = tuple(Column(i, name, parse_sql_type(sql)) for i, (name, sql) in enumerate(named, 1))
    ids = {column.name: column.id for column in made}
    parts = tuple(KeyPart(ids[name]) for name in key or (made[0].name,))
    described = TableDescriptor(
        id=51,
        name="accounts",
        version=1,
        modified=Timestamp(1),
        columns=made,
        primary_key=parts,
        families=(Family(0, "primary", tuple(ids.values())),),
    )
    return replace(described, **fields)


ACCOUNTS = table("id INT", "owner STRING", "balance DECIMAL")
ALICE = (1, "Alice", Decimal("10000.50"))


def with_column(descriptor: TableDescriptor, column_id: int, **fields: Any) -> TableDescriptor:
    """The table with one column changed."""
    columns = tuple(replace(c, **fields) if c.id == column_id else c for c in descriptor.columns)
    return replace(descriptor, columns=columns)


@given(drawn=tables_with_rows())
def test_a_row_comes_back_exactly(drawn: tuple[TableDescriptor, tuple[Any, ...]]) -> None:
    descriptor, datums = drawn
    codec = TableCodec(descriptor)
    key, value = codec.encode(datums)
    row = codec.decode(key, value)
    assert row is not None
    assert row.table is descriptor
    assert exact(row.values) == exact(datums)
    by_id = {column.id: datum for column, datum in zip(descriptor.columns, datums, strict=True)}
    assert exact(row.key) == exact([by_id[part.column_id] for part in descriptor.primary_key])
    assert index_span(descriptor.id, descriptor.primary_index_id).contains(key)


@given(drawn=tables_with_rows())
def test_names_and_positions_say_the_same(drawn: tuple[TableDescriptor, tuple[Any, ...]]) -> None:
    descriptor, datums = drawn
    codec = TableCodec(descriptor)
    named = {column.name: datum for column, datum in zip(descriptor.columns, datums, strict=True)}
    assert codec.encode(named) == codec.encode(datums)
    key_names = {column.name for column in descriptor.columns if not column.nullable}
    assert codec.encode_key({name: named[name] for name in key_names}) == codec.encode(datums)[0]


@given(drawn=tables_with_rows(), data=st.data())
def test_every_cut_of_key_or_value_is_refused(
    drawn: tuple[TableDescriptor, tuple[Any, ...]], data: st.DataObject
) -> None:
    codec = TableCodec(drawn[0])
    key, value = codec.encode(drawn[1])
    key_size = data.draw(st.integers(0, len(key) - 1))
    value_size = data.draw(st.integers(1, len(value) - 1))
    with pytest.raises((EncodingError, ChecksumMismatch)):
        codec.decode(key[:key_size], bytes(4) + value[4:])
    with pytest.raises((EncodingError, ChecksumMismatch)):
        codec.decode(key, value[:value_size])


@given(drawn=tables_with_rows(), noise=st.binary(max_size=60))
def test_noise_in_a_value_is_decoded_or_refused(
    drawn: tuple[TableDescriptor, tuple[Any, ...]], noise: bytes
) -> None:
    codec = TableCodec(drawn[0])
    key, _ = codec.encode(drawn[1])
    try:
        row = codec.decode(key, bytes(4) + b"\x0a" + noise)
    except EncodingError:
        return
    assert row is not None


def test_the_documented_row_has_the_documented_bytes() -> None:
    # CockroachDB docs/tech-notes/encoding.md
    key, value = TableCodec(ACCOUNTS).encode(ALICE)
    assert key.hex() == "bb898988"
    assert value.hex() == "4aac12300a2605416c6963651505348d0f4272"


def test_a_deletion_has_its_key_and_no_values() -> None:
    codec = TableCodec(ACCOUNTS)
    key, _ = codec.encode(ALICE)
    assert codec.decode(key, b"") == Row(ACCOUNTS, (1,), None)
    assert codec.decode(key, join_header(b"\x0a\x02\x08\x09", b"")) == Row(ACCOUNTS, (1,), None)


def test_a_header_before_the_value_changes_nothing() -> None:
    codec = TableCodec(ACCOUNTS)
    key, value = codec.encode(ALICE)
    assert codec.decode(key, join_header(b"\x0a\x02\x08\x09", value)) == Row(ACCOUNTS, (1,), ALICE)


def test_a_tenants_row_is_decoded_and_its_prefix_checked() -> None:
    codec = TableCodec(ACCOUNTS)
    key, value = codec.encode(ALICE)
    tenant_key = tenant_prefix(5) + key
    assert codec.decode(tenant_key, seal(tenant_key, value[4:])) == Row(ACCOUNTS, (1,), ALICE)
    with pytest.raises(ChecksumMismatch):
        codec.decode(tenant_key, value)


@pytest.mark.parametrize("prefix", [b"", tenant_prefix(5), tenant_prefix(1000)])
def test_other_indexes_of_the_table_are_passed_over(prefix: bytes) -> None:
    entry = prefix + index_prefix(51, 2) + b"\x12Alice\x00\x01\x89\x88"
    assert TableCodec(ACCOUNTS).decode(entry, b"\x00\x00\x00\x00\x03") is None


def test_the_primary_index_is_the_one_that_the_descriptor_names() -> None:
    moved = replace(ACCOUNTS, primary_index_id=4)
    key, value = TableCodec(moved).encode(ALICE)
    assert TableCodec(ACCOUNTS).decode(key, value) is None
    assert TableCodec(moved).decode(key, value) is not None


def test_rows_of_interleaved_tables_are_passed_over() -> None:
    # CockroachDB docs/tech-notes/encoding.md: /Table/51/1/19/#/52/1/83/0
    key, value = bytes.fromhex("bb899bfebc89db88"), bytes.fromhex("691956790a3505348d0f4272")
    assert TableCodec(ACCOUNTS).decode(key, value) is None


def test_an_integer_zero_key_is_not_taken_for_the_family() -> None:
    codec = TableCodec(table("a INT", "b INT", key=("a", "b")))
    key, value = codec.encode((0, 0))
    assert key.hex() == "bb89888888"
    row = codec.decode(key, value)
    assert row is not None
    assert row.key == (0, 0)


def test_all_nulls_still_leave_a_row() -> None:
    codec = TableCodec(ACCOUNTS)
    key, value = codec.encode({"id": 3})
    assert value[4:] == b"\x0a"
    assert codec.decode(key, value) == Row(ACCOUNTS, (3,), (3, None, None))


def test_dropped_and_hidden_columns_are_passed_over_or_kept() -> None:
    key, value = TableCodec(ACCOUNTS).encode(ALICE)
    dropped = replace(ACCOUNTS, columns=(ACCOUNTS.columns[0], ACCOUNTS.columns[2]))
    mutating = with_column(ACCOUNTS, 2, public=False)
    hidden = with_column(ACCOUNTS, 2, hidden=True)
    for descriptor, expected in ((dropped, ALICE[::2]), (mutating, ALICE[::2]), (hidden, ALICE)):
        row = TableCodec(descriptor).decode(key, value)
        assert row is not None
        assert row.values == expected


def test_an_added_column_is_null_in_older_rows() -> None:
    key, value = TableCodec(table("id INT")).encode((1,))
    row = TableCodec(ACCOUNTS).decode(key, value)
    assert row is not None
    assert row.values == (1, None, None)


@pytest.mark.parametrize("text", ["10.50", "0", "-0", "1E+1", "10", "NaN", "Infinity", "9400.1"])
def test_a_decimal_key_keeps_scale_and_sign_by_its_second_form(text: str) -> None:
    codec = TableCodec(table("price DECIMAL", "n INT"))
    key, value = codec.encode((Decimal(text), 7))
    row = codec.decode(key, value)
    assert row is not None
    assert [str(datum) for datum in row.key] == [text]
    assert exact(row.values) == exact((Decimal(text), 7))


def test_only_rows_in_need_carry_the_second_form() -> None:
    codec = TableCodec(table("price DECIMAL"))
    assert codec.encode((Decimal("10.5"),))[1][4:] == b"\x0a"
    assert codec.encode((Decimal("10.50"),))[1][4:] == bytes.fromhex("0a1504348a041a")


def test_a_deletion_gives_the_key_as_the_key_alone_can() -> None:
    codec = TableCodec(table("price DECIMAL"))
    key, _ = codec.encode((Decimal("10.50"),))
    row = codec.decode(key, b"")
    assert row is not None
    assert [str(datum) for datum in row.key] == ["10.5"]


def test_a_collated_key_is_read_from_the_value_but_neither_written_nor_deleted() -> None:
    owners = table("owner STRING COLLATE en")
    codec = TableCodec(owners)
    key = index_prefix(51, 1) + encode_bytes_asc(b"\x16\x05") + b"\x88"
    assert codec.decode(key, seal(key, b"\x0a\x16\x03Bob")) == Row(owners, ("Bob",), ("Bob",))
    with pytest.raises(EncodingError, match="missing in the value"):
        codec.decode(key, seal(key, b"\x0a"))
    with pytest.raises(EncodingError, match="does not name its row"):
        codec.decode(key, b"")
    with pytest.raises(EncodingError, match="cannot be written"):
        codec.encode(("Bob",))


def test_a_deletion_does_not_tell_the_collated_strings_of_an_array() -> None:
    codec = TableCodec(table("owners STRING COLLATE en[]"))
    key = index_prefix(51, 1) + b"\x3f" + encode_bytes_asc(b"\x16\x05") + b"\x00" + b"\x88"
    with pytest.raises(EncodingError, match="does not name its row"):
        codec.decode(key, b"")


@pytest.mark.parametrize("column", ["price DECIMAL", "price FLOAT", "prices DECIMAL[]"])
def test_a_column_of_the_key_is_not_null_in_the_value(column: str) -> None:
    codec = TableCodec(table(column))
    key, _ = codec.encode(((Decimal("10.50"),),) if column.endswith("[]") else (Decimal("10.50"),))
    with pytest.raises(EncodingError, match=f"column {column.split()[0]} of the key is NULL in the value"):
        codec.decode(key, seal(key, b"\x0a\x11"))


def test_a_damaged_value_is_refused_with_table_and_key() -> None:
    codec = TableCodec(ACCOUNTS)
    key, value = codec.encode(ALICE)
    with pytest.raises(ChecksumMismatch, match=r"table accounts, key 0xbb898988: checksum 4aac1230"):
        codec.decode(key, value[:-1] + b"\x73")
    with pytest.raises(EncodingError, match=r"table accounts, key 0xbb898988: .*tag 3"):
        codec.decode(key, seal(key, b"\x03Alice"))
    with pytest.raises(EncodingError, match=r"column owner \(STRING\) holds a datum of wire type 3"):
        codec.decode(key, seal(key, b"\x0a\x23\x02"))


@pytest.mark.parametrize("column_id", [1, 3])
def test_a_wire_type_above_one_byte_names_no_other_column(column_id: int) -> None:
    """It was taken for a part of the column's id: a datum of ``owner`` was read where none stands."""
    key, _ = TableCodec(ACCOUNTS).encode(ALICE)
    wire_type = (2 ^ column_id) << 8 | WireType.BYTES
    body = encode_tag(column_id, wire_type) + b"\x02hi"
    with pytest.raises(EncodingError, match=f"unknown wire type {wire_type}"):
        TableCodec(ACCOUNTS).decode(key, bytes(4) + b"\x0a" + body)


def test_long_keys_are_shortened_in_messages() -> None:
    codec = TableCodec(table("name STRING"))
    with pytest.raises(EncodingError) as caught:
        codec.decode(codec.encode(("x" * 1000,))[0], b"\x01")
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("bc898988", "no key of an index of this table"),
        ("bb", "the bytes end"),
        ("bb89", "the bytes end"),
        ("bb898989898988", "no family suffix"),
        ("bb89898989", "column family 1"),
    ],
)
def test_foreign_keys_are_refused(key: str, reason: str) -> None:
    with pytest.raises(EncodingError, match=reason):
        TableCodec(ACCOUNTS).decode(bytes.fromhex(key), b"")


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"id": 1, "ownr": "x"}, "there is no column ownr"),
        ((1, "Alice"), "2 datums were given for 3 public columns"),
        ({"owner": "Alice"}, "primary key column id is NULL"),
        ({"id": 1, "owner": 5}, r"column owner \(STRING\)"),
        ({"id": 1, "balance": "7"}, r"column balance \(DECIMAL\)"),
        ({"id": "one"}, "'one' in a key"),
        ({"id": 2**63}, "64 bits"),
    ],
)
def test_datums_that_do_not_fit_are_refused_with_their_column(values: Any, reason: str) -> None:
    with pytest.raises(EncodingError, match=f"table accounts: .*{reason}"):
        TableCodec(ACCOUNTS).encode(values)


def test_not_null_columns_are_required() -> None:
    with pytest.raises(EncodingError, match="column owner is NOT NULL"):
        TableCodec(with_column(ACCOUNTS, 2, nullable=False)).encode({"id": 1})


def test_unsupported_tables_are_refused_with_name_and_reason() -> None:
    two = (Family(0, "f0", (1, 3)), Family(1, "f1", (2,), 2))
    for descriptor, reason in (
        (replace(ACCOUNTS, families=two), r"table accounts has 2 column families \(f0, f1\)"),
        (table("doc JSONB"), "table accounts has a JSONB column in its primary key, doc"),
        (table("at GEOMETRY(POINT)"), r"has a GEOMETRY\(POINT\) column in its primary key, at"),
        (table("v VECTOR(3)"), r"has a VECTOR\(3\) column in its primary key, v"),
        (table("docs JSONB[]"), r"has a JSONB\[\] column in its primary key, docs"),
        (replace(ACCOUNTS, primary_key=()), "table accounts: its primary key"),
        (with_column(ACCOUNTS, 3, name="owner"), "table accounts has several columns named owner"),
        (replace(ACCOUNTS, primary_key=(KeyPart(9),)), "table accounts: its primary key"),
    ):
        with pytest.raises(UnsupportedTable, match=reason):
            TableCodec(descriptor)


def test_descending_keys_sort_against_their_datums() -> None:
    codec = TableCodec(table("a INT", "b INT", primary_key=(KeyPart(1, descending=True), KeyPart(2))))
    rows = [(a, b) for a in (-500, 0, 7) for b in (1, 2)]
    by_key = sorted(rows, key=codec.encode_key)
    assert by_key == sorted(rows, key=lambda row: (-row[0], row[1]))


def test_an_array_type_without_element_cannot_be_compiled() -> None:
    broken = with_column(ACCOUNTS, 2, type=SqlType(Kind.ARRAY))
    with pytest.raises(UnsupportedTable, match="column owner"):
        TableCodec(broken)
