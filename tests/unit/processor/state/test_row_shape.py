"""Rows of state have a shape that other bytes have not, so that a changelog's foreign records are noticed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.processor.stored_states import GOLDEN, STATES
from tidegate.processor.batch import StateTable
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
