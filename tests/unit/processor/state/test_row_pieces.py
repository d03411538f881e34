"""Rows that no record has room for are stored in pieces, and are put together again or refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.processor.driving import StoredState, fold
from tidegate.errors import StateMismatch
from tidegate.processor.batch import StateChange, StateTable
from tidegate.processor.state.row_pieces import RowPieces, StoredRow, is_later_piece

_MOST = 10
_KEY = b"\x00\x00\x00\x00\x00\x00\x00\x07"
_VALUES = st.one_of(st.none(), st.binary(max_size=5 * _MOST).map(lambda rest: b"\x02" + rest))


def _joined(state: StoredState, pieces: RowPieces | None = None) -> list[StoredRow]:
    pieces = pieces or RowPieces(_MOST)
    rows = [pieces.join_piece(table, key, value) for (table, key), value in state.items()]
    pieces.finish()
    return [row for row in rows if row is not None]


@given(st.lists(st.tuples(st.sampled_from([b"a", b"b/piece/", _KEY]), _VALUES), max_size=8), st.data())
def test_rows_of_any_size_come_back_as_they_were_last_written(
    writes: list[tuple[bytes, bytes | None]], data: st.DataObject
) -> None:
    pieces, state = RowPieces(_MOST), StoredState()
    expected: dict[bytes, bytes] = {}
    for key, value in writes:
        state = fold(state, pieces.split([StateChange(StateTable.FEEDS, key, value)]))
        expected.pop(key, None)
        if value is not None:
            expected[key] = value
        if data.draw(st.booleans()):  # a restart
            pieces = RowPieces(_MOST)
            _joined(state, pieces)
    assert all(len(value) <= _MOST + 5 for value in state.values())
    order = data.draw(st.permutations(list(state.items())))
    assert {row.key: row.value for row in _joined(dict(order))} == expected


def test_a_row_that_lacks_a_piece_is_refused() -> None:
    change = StateChange(StateTable.RANGES, _KEY, b"\x02" + 35 * b"x")
    state = fold({}, RowPieces(_MOST).split([change]))
    assert len(state) == 4
    for place in state:
        with pytest.raises(StateMismatch, match=f"row {_KEY.hex()} of the ranges table is stored in"):
            _joined({other: value for other, value in state.items() if other != place})


def test_a_row_in_one_piece_is_stored_as_it_is() -> None:
    changes = [
        StateChange(StateTable.RANGES, _KEY, b"\x02" + 9 * b"x"),
        StateChange(StateTable.FEEDS, b"a", None),
    ]
    pieces = RowPieces(_MOST)
    assert pieces.split(changes) == changes
    wide = StateChange(StateTable.FEEDS, b"wide", b"\x02" + 30 * b"x")
    beside = pieces.split([*changes, wide])
    assert beside[: len(changes)] == changes, "beside a row in pieces too"
    assert max(len(value or b"") for _, _, value in beside) <= _MOST + 5
    assert pieces.split(changes) == changes


def test_the_first_piece_says_how_many_there_are_and_the_others_are_numbered() -> None:
    value = bytes(range(2, 27))
    pieces = RowPieces(_MOST)
    assert pieces.split([StateChange(StateTable.RANGES, _KEY, value)]) == [
        (StateTable.RANGES, _KEY, b"\xf0\x00\x00\x00\x03" + value[:10]),
        (StateTable.RANGES, _KEY + b"/piece/\x00\x00\x00\x01", b"\xf1" + value[10:20]),
        (StateTable.RANGES, _KEY + b"/piece/\x00\x00\x00\x02", b"\xf1" + value[20:]),
    ]
    assert pieces.split([StateChange(StateTable.RANGES, _KEY, value[:20])])[2:] == [
        (StateTable.RANGES, _KEY + b"/piece/\x00\x00\x00\x02", None)
    ]
    assert pieces.split([StateChange(StateTable.RANGES, _KEY, None)]) == [
        (StateTable.RANGES, _KEY, None),
        (StateTable.RANGES, _KEY + b"/piece/\x00\x00\x00\x01", None),
    ]


def test_a_row_of_a_transaction_is_never_split() -> None:
    changes = [
        StateChange(StateTable.INTENTS, _KEY, 99 * b"x"),
        StateChange(StateTable.INTENTS, _KEY + b"x", None),
    ]
    assert RowPieces(_MOST).split(changes) == changes


def test_a_row_with_other_pieces_than_those_that_it_counts_is_refused() -> None:
    pieces = RowPieces(_MOST)
    for place, found in ((1, None), (3, "refused")):
        row = pieces.join_piece(StateTable.FEEDS, b"a/piece/" + place.to_bytes(4), b"\xf1x")
        assert row is None
        first = b"\xf0\x00\x00\x00\x02y"
        if found is None:
            assert pieces.join_piece(StateTable.FEEDS, b"a", first) == (StateTable.FEEDS, b"a", b"yx")
        else:
            with pytest.raises(StateMismatch, match="stored in 2 pieces, and 2 were found: not all of it"):
                pieces.join_piece(StateTable.FEEDS, b"a", first)


@pytest.mark.parametrize("count", [3, 258, 2**16 + 2, 2**24 + 2])
def test_a_row_is_whole_with_as_many_pieces_as_its_first_one_says(count: int) -> None:
    pieces = RowPieces(_MOST)
    assert pieces.join_piece(StateTable.FEEDS, b"a", b"\xf0" + count.to_bytes(4) + b"y") is None
    assert pieces.join_piece(StateTable.FEEDS, b"a/piece/\x00\x00\x00\x01", b"\xf1x") is None
    with pytest.raises(StateMismatch, match=f"is stored in {count} pieces, and 2 were found"):
        pieces.finish()


@pytest.mark.parametrize(
    ("key", "value", "later"),
    [
        (b"a/piece/\x00\x00\x00\x01", b"\xf1x", True),
        (b"a/piece/\x00\x00\x00\x01", b"\xf0x", False),
        (b"a/piece/\x00\x00\x00\x01", b"\x02\xf1", False),
        (b"a/piece/", b"\xf1x", False),
        (b"a", b"\xf1x", False),
    ],
)
def test_a_later_piece_is_told_by_its_key_and_its_first_byte(key: bytes, value: bytes, later: bool) -> None:
    """A row may have a key that ends in the same way."""
    assert is_later_piece(key, value) is later
