"""Rows of a directory come in pieces that have bounds, and nothing is left out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.serve.shared.row_pieces import WeighedRows
from tidegate.subscribe.updates.row_size import row_bytes
from tidegate.subscribe.updates.update import RowValues


@given(st.lists(st.tuples(st.text(max_size=300))), st.integers(1, 5), st.integers(1, 1_000))
def test_pieces_have_all_rows_in_order_within_bounds(
    rows: list[RowValues], most_rows: int, most_bytes: int
) -> None:
    source = WeighedRows(iter(rows))
    pieces = []
    while (piece := source.next(most_rows, most_bytes)) is not None:
        pieces.append(piece)
    assert [row for piece in pieces for row in piece.rows()] == rows
    assert [piece.is_last for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    for piece in pieces:
        assert len(piece.rows()) <= most_rows
        assert len(piece.rows()) == 1 or sum(map(row_bytes, piece.rows())) <= most_bytes or not rows


@pytest.mark.parametrize("is_last", [True, False])
def test_halves_have_the_rows_of_their_piece_and_the_second_one_is_last_if_it_is(is_last: bool) -> None:
    source = WeighedRows(iter([(1,), (2,), (3,), (4,)]))
    piece = source.next(4 if is_last else 3, 1_000_000)
    assert piece is not None
    first, second = piece.halves()
    assert first.rows() + second.rows() == piece.rows()
    assert (first.is_last, second.is_last) == (False, is_last)
