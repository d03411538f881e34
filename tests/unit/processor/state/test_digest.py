"""The digest of a table is that of its rows, however they came to be; and of no others."""

from __future__ import annotations

from hashlib import blake2b
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.processor.batch import StateChange, StateTable
from tidegate.processor.state.digest import RowDigests, TableDigests, row_hash

_tables = st.sampled_from([table for table in StateTable if table is not StateTable.INTENTS])
_changes = st.lists(
    st.builds(StateChange, _tables, st.binary(max_size=2), st.none() | st.binary(max_size=3)), max_size=40
)
_Rows = dict[tuple[StateTable, bytes], bytes]


def rows_after(changes: list[StateChange]) -> _Rows:
    """The rows that the changes leave."""
    rows: _Rows = {}
    for table, key, value in changes:
        rows.pop((table, key), None)
        if value is not None:
            rows[table, key] = value
    return rows


def digests_of(rows: _Rows) -> TableDigests:
    """Return the digests of rows that are read one after the other."""
    digests = RowDigests()
    digests.add_changes(StateChange(table, key, value) for (table, key), value in rows.items())
    return digests.digests(0)


@given(_changes)
def test_following_changes_comes_to_the_digest_of_the_rows_that_are_left(changes: list[StateChange]) -> None:
    following = RowDigests()
    following.add_changes(changes)
    assert following.digests(0) == digests_of(rows_after(changes))


@given(_changes, st.randoms(use_true_random=False))
def test_a_digest_knows_no_order(changes: list[StateChange], random: Random) -> None:
    rows = list(rows_after(changes).items())
    random.shuffle(rows)
    assert digests_of(dict(rows)) == digests_of(rows_after(changes))


@given(_changes, _changes)
def test_other_rows_have_another_digest(one: list[StateChange], other: list[StateChange]) -> None:
    same = rows_after(one) == rows_after(other)
    assert (digests_of(rows_after(one)) == digests_of(rows_after(other))) == same


def test_key_and_value_are_told_apart_and_so_are_tables() -> None:
    hashes = [
        row_hash(StateTable.RANGES, b"ab", b"c"),
        row_hash(StateTable.RANGES, b"a", b"bc"),
        row_hash(StateTable.FEEDS, b"ab", b"c"),
    ]
    assert len(set(hashes)) == 3


def test_a_row_hash_is_what_it_was_for_earlier_states() -> None:
    assert row_hash(StateTable.INTENTS, b"key", b"value") == 0xB4D5B44E71BC5941


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 10, 24, 255, 256, 300])
def test_a_row_hash_is_of_the_length_of_the_key_the_key_and_the_value(length: int) -> None:
    key, value = bytes(range(256))[:length].ljust(length, b"x"), b"value"
    hashed = blake2b(length.to_bytes(4) + key + value, digest_size=8, person=b"ranges").digest()
    assert row_hash(StateTable.RANGES, key, value) == int.from_bytes(hashed)


def test_the_digest_of_a_table_is_the_sum_of_the_hashes_of_its_rows() -> None:
    changes = [
        StateChange(StateTable.FEEDS, bytes([number]), b"value") for number in range(9)
    ]  # together above 2^64
    digests = RowDigests()
    assert digests.digests(0) == (0, 0, 0, 0)
    digests.add_changes([*changes, StateChange(StateTable.INTENTS, b"key", b"value")])
    feeds = sum(row_hash(StateTable.FEEDS, bytes([number]), b"value") for number in range(9))
    assert digests.digests(2**64 + 7) == (0, 7, 0, feeds % 2**64)
    digests.add_changes(StateChange(table, key, None) for table, key, _ in changes)
    assert digests.digests(-1) == (0, 2**64 - 1, 0, 0)
