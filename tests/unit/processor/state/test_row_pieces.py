"""Rows that no record has room for are stored in pieces, and are put together again or refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.processor.driving import StoredState, fold
from tidegate.errors import StateMismatch
from tidegate.processor.batch import StateChange, StateTable
from tidegate.processor.state.row_pieces import RowPieces, StoredRow

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
        StateChange(StateTable.RANGES, _KEY, b"\x02" + 8 * b"x"),
        StateChange(StateTable.FEEDS, b"a", None),
    ]
    assert RowPieces(_MOST).split(changes) == changes
