"""The stored form of descriptors is a format: it comes back, stays as it is, and names its version."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from tests.unit.rows.strategies import SEASONS, tables
from tidegate.errors import EncodingError
from tidegate.hlc import Timestamp
from tidegate.rows import (
    Column,
    Family,
    KeyPart,
    TableDescriptor,
    decode_descriptor,
    encode_descriptor,
    parse_sql_type,
)
from tidegate.rows.stored_descriptor import COLUMNS_MAX, PARTS_MAX, decode_head, head_of
from tidegate.rows.types import Kind

TABLE = TableDescriptor(
    id=51,
    name="trips",
    version=3,
    modified=Timestamp(1_700_000_000_000_000_000, 7),
    columns=(
        Column(1, "id", parse_sql_type("INT"), nullable=False),
        Column(4, "season", SEASONS),
        Column(2, "fare", parse_sql_type("DECIMAL(10,2)"), hidden=True),
        Column(3, "tags", parse_sql_type("STRING[]"), public=False),
        Column(5, "name", parse_sql_type("VARCHAR(20) COLLATE fr")),
        Column(6, "bits", parse_sql_type("VARBIT")),
    ),
    primary_key=(KeyPart(4, descending=True), KeyPart(1)),
    families=(Family(0, "f0", (1, 2, 4)), Family(1, "f1", (3,), default_column_id=3)),
    primary_index_id=2,
    database="rides",
    schema="city",
    dropped=True,
)
#: Format 1, for ever: state and logs hold these bytes.
GOLDEN = (
    "010833120574726970731803208080a8b1e39fe7cb17280732110801120269641a070a03494e5410403001324508041206"
    "736561736f6e1a350a04454e554d3206736561736f6e3a0b0a01401206737072696e673a0b0a0180120673756d6d65723a"
    "0b0a01c01206617574756d6e20013001321d08021204666172651a0d0a07444543494d414c100a18022001280130013"
    "21d08031204746167731a110a05415252415942080a06535452494e472001322e080512046e616d651a200a0f434f4c4c41"
    "54454420535452494e4710142a02667232075641524348415220013001321508061204626974731a070a034249542001200"
    "130013a04080410013a0208014209120266301a03010204420b0801120266311a010320034802520572696465735a046369"
    "74796001"
)

_LONG = (Column(1, "long" * 10_000, parse_sql_type("BOOL")),)


@given(table=tables())
def test_a_descriptor_comes_back(table: TableDescriptor) -> None:
    assert decode_descriptor(encode_descriptor(table)) == table


def test_the_stored_bytes_stay_as_they_are() -> None:
    assert encode_descriptor(TABLE).hex() == GOLDEN
    assert decode_descriptor(bytes.fromhex(GOLDEN)) == TABLE


def test_every_field_comes_back() -> None:
    assert decode_descriptor(encode_descriptor(TABLE)) == TABLE
    for changed in (
        replace(TABLE, dropped=False),
        replace(TABLE, modified=Timestamp(1, 0)),
        replace(TABLE, primary_index_id=1),
        replace(TABLE, schema="public"),
    ):
        assert encode_descriptor(changed) != encode_descriptor(TABLE)
        assert decode_descriptor(encode_descriptor(changed)) == changed


def test_a_virtual_column_comes_back_and_older_descriptors_have_none() -> None:
    first, *others = TABLE.columns
    virtual = replace(TABLE, columns=(first, replace(others[0], virtual=True), *others[1:]))
    assert decode_descriptor(encode_descriptor(virtual)) == virtual
    assert not any(column.virtual for column in decode_descriptor(bytes.fromhex(GOLDEN)).columns)


def _refusal(stored: bytes) -> str:
    """Return why the bytes are refused; the sentence is a source's author's, and names the page that they
    follow."""
    with pytest.raises(EncodingError) as refused:
        decode_descriptor(stored)
    assert str(refused.value).endswith("(docs/log-contract.md#table-descriptors)")
    assert "version of tidegate" not in str(refused.value)
    return str(refused.value)


def test_a_descriptor_that_names_no_primary_index_has_its_rows_in_index_1() -> None:
    without = replace(TABLE, primary_index_id=0)
    assert decode_descriptor(encode_descriptor(without)) == replace(TABLE, primary_index_id=1)


def test_another_format_byte_is_named_with_the_one_that_is_expected() -> None:
    refusal = _refusal(b"\x02" + encode_descriptor(TABLE)[1:])
    assert "byte 0 of the descriptor is 0x02, where the format byte 0x01 is expected" in refusal


def test_a_message_without_its_format_byte_is_recognised() -> None:
    refusal = _refusal(encode_descriptor(TABLE)[1:])
    assert "the format byte in front of the message seems to be missing" in refusal


@pytest.mark.parametrize(
    ("stored", "words"),
    [
        (b"", "the descriptor has no bytes"),
        (b"\x01\x0a", "the 1 bytes after the descriptor's format byte are no message"),
        (b"\x01\x08\xff", "are no message tidegate.rows.TableDescriptor"),
    ],
)
def test_damaged_bytes_are_refused(stored: bytes, words: str) -> None:
    assert words in _refusal(stored)


def test_an_unknown_kind_is_named_with_its_column_and_the_kinds_that_there_are() -> None:
    refusal = _refusal(encode_descriptor(TABLE).replace(b"DECIMAL", b"DECIMAK"))
    assert "the type of column 2 ('fare') has an unknown kind: 'DECIMAK'" in refusal
    assert all(kind.value in refusal for kind in Kind)


def test_a_refusal_does_not_grow_with_what_was_written() -> None:
    assert len(_refusal(encode_descriptor(replace(TABLE, columns=_LONG)).replace(b"BOOL", b"BOOK"))) < 600


def test_two_columns_of_one_id_are_refused() -> None:
    """A worker that took them ended at the first row, and again at each start."""
    first, *others = TABLE.columns
    twice = replace(TABLE, columns=(first, *others, replace(others[0], id=first.id)))
    with pytest.raises(EncodingError, match="columns of the descriptor has column id 1 twice"):
        decode_descriptor(encode_descriptor(twice))
    key = replace(TABLE, primary_key=(KeyPart(4), KeyPart(1), KeyPart(4)))
    with pytest.raises(EncodingError, match="primary_key of the descriptor has column id 4 twice"):
        decode_descriptor(encode_descriptor(key))


def test_two_columns_of_one_name_are_refused_where_records_name_them() -> None:
    """Of two key columns of one name the key of a record had one: rows with different keys had the same."""
    first, second, *others = TABLE.columns
    other = replace(others[0], name=first.name, public=True)
    twice = encode_descriptor(replace(TABLE, columns=(first, second, other)))
    assert "has several columns named 'id' that are public or in the primary key" in _refusal(twice)
    assert len(decode_descriptor(twice, is_bounded=False).columns) == 3
    dropped = replace(TABLE, columns=(first, second, replace(other, public=False)))
    assert decode_descriptor(encode_descriptor(dropped)) == dropped
    with_key = replace(dropped, primary_key=(KeyPart(first.id), KeyPart(other.id)))
    assert "has several columns named 'id'" in _refusal(encode_descriptor(with_key))


def test_a_descriptor_has_bounded_columns_and_parts() -> None:
    def wide(columns: int, members: int = 0) -> bytes:
        label = parse_sql_type("e('a')")
        label = replace(label, members=label.members * members)
        types = (parse_sql_type("INT"), replace(parse_sql_type("STRING[]"), element=label))
        found = tuple(Column(1 + number, str(number), types[number % 2]) for number in range(columns))
        return encode_descriptor(replace(TABLE, columns=found, families=()))

    assert len(decode_descriptor(wide(COLUMNS_MAX)).columns) == COLUMNS_MAX
    with pytest.raises(EncodingError, match=f"has {COLUMNS_MAX + 1} columns, and may have {COLUMNS_MAX}"):
        decode_descriptor(wide(COLUMNS_MAX + 1))
    with pytest.raises(EncodingError, match=f"and may have {PARTS_MAX} together"):
        decode_descriptor(wide(2, PARTS_MAX))
    assert len(decode_descriptor(wide(COLUMNS_MAX + 1), is_bounded=False).columns) == COLUMNS_MAX + 1


@given(tables())
def test_the_head_of_a_stored_descriptor_is_that_of_the_descriptor(table: TableDescriptor) -> None:
    assert decode_head(encode_descriptor(table)) == head_of(table)
