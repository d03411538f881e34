"""Rows of state have a shape that other bytes have not, so that a changelog's foreign records are noticed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.processor.stored_states import GOLDEN, STATES
from tidegate.processor.batch import StateTable
from tidegate.processor.state.position_hash import POSITION_KEY
from tidegate.processor.state.row_shape import is_shaped

_TABLES = {table.value: table for table in StateTable}


@pytest.mark.parametrize("name", STATES)
def test_every_row_and_its_removal_has_the_shape(name: str) -> None:
    for (table, key), value in STATES[name].items():
        assert is_shaped(table, key, value), (table, key)
        assert is_shaped(table, key, None)


@pytest.mark.parametrize("file", sorted(GOLDEN.parent.glob("stored*.tsv")), ids=lambda file: file.stem)
def test_rows_of_every_version_have_the_shape(file) -> None:  # type: ignore[no-untyped-def]  # a path
    for line in file.read_text().splitlines():
        place, key, value = line.split("\t")
        table = _TABLES.get(place.rpartition("/")[2])
        if table is not None and "/" in place:
            assert is_shaped(table, bytes.fromhex(key), bytes.fromhex(value)), line


@given(key=st.none() | st.binary(max_size=40), value=st.binary(max_size=10))
def test_no_record_without_key_or_version_has_it(key: bytes | None, value: bytes) -> None:
    for table in StateTable:
        assert not is_shaped(table, None, value)
        assert not is_shaped(table, key, b"")
        assert not is_shaped(table, key, b"{" + value)
        assert not is_shaped(table, key, b"\x00" + value)


_RANGE = bytes(7) + b"\n"
_PIECE = b"/piece/\x00\x00\x00\n"


@pytest.mark.parametrize(
    ("table", "key"),
    [
        (StateTable.RANGES, _RANGE[1:]),
        (StateTable.RANGES, _RANGE + b"/u"),
        (StateTable.RANGES, _RANGE + bytes(3)),
        (StateTable.RANGES, _RANGE + _PIECE + b"\n"),
        (StateTable.RANGES, POSITION_KEY + b"\n"),
        (StateTable.INTENTS, _RANGE[1:]),
        (StateTable.DESCRIPTORS, b"x" + _RANGE),
        (StateTable.DESCRIPTORS, b"d" + _RANGE),
        (StateTable.DESCRIPTORS, b"h" + _RANGE + _RANGE),
        (StateTable.FEEDS, b""),
        (StateTable.FEEDS, b"f" * 65),
        (StateTable.FEEDS, b"feed\n"),
        (StateTable.FEEDS, "fée".encode()),
    ],
)
def test_a_row_under_any_other_key_has_not_the_shape(table: StateTable, key: bytes) -> None:
    assert not is_shaped(table, key, b"\x02")
    assert not is_shaped(table, key, None)


@pytest.mark.parametrize(
    ("table", "key"),
    [
        (StateTable.RANGES, _RANGE),
        (StateTable.RANGES, _RANGE + b"/t" + _PIECE),
        (StateTable.RANGES, _RANGE + bytes(4) + _PIECE),
        (StateTable.RANGES, POSITION_KEY),
        (StateTable.INTENTS, _RANGE),
        (StateTable.DESCRIPTORS, b"p" + _RANGE + _PIECE),
        (StateTable.DESCRIPTORS, b"r" + _RANGE + _RANGE),
        (StateTable.FEEDS, b"f"),
        (StateTable.FEEDS, b"f" * 64 + _PIECE),
    ],
)
def test_a_row_is_told_by_its_key_and_by_the_first_byte_of_its_value(table: StateTable, key: bytes) -> None:
    assert is_shaped(table, key, None)
    first = {number for number in range(256) if is_shaped(table, key, bytes((number,)))}
    assert first == {*range(1, 16), 0xF0, 0xF1}
    assert first == {number for number in range(256) if is_shaped(table, key, bytes((number, 99)))}
    assert not is_shaped(table, key, b"")
