"""Rows that are columns first are the rows that their parts make, and these are made once."""

from __future__ import annotations

import pickle
from dataclasses import dataclass

from tidegate.subscribe.columnar_rows import ColumnarRows, joined
from tidegate.subscribe.updates.update import RowValues


@dataclass(frozen=True)
class Table:
    """All that is asked of a table of Arrow here."""

    num_rows: int


class Part:
    """Makes rows, and counts how often."""

    def __init__(self, *rows: RowValues) -> None:
        self.rows = list(rows)
        self.made = 0

    def __call__(self) -> list[RowValues]:
        self.made += 1
        return self.rows


def test_rows_are_made_when_they_are_asked_for_and_once() -> None:
    part = Part((1,), (2,))
    rows = ColumnarRows([Table(2)], [part])
    assert len(rows) == 2
    assert part.made == 0
    assert list(rows) == [(1,), (2,)]
    assert rows[1] == (2,)
    assert rows[:1] == ((1,),)
    assert rows == ((1,), (2,)) == rows
    assert hash(rows) == hash(((1,), (2,)))
    assert part.made == 1
    assert repr(rows) == "ColumnarRows(2 rows)"
    assert pickle.loads(pickle.dumps(rows)) == ((1,), (2,))
    assert list(rows.and_then(ColumnarRows([Table(1)], [Part((3,))]))) == [(1,), (2,), (3,)]
    assert part.made == 1


def test_columns_stay_columns_beside_columns_and_beside_nothing() -> None:
    first, later = ColumnarRows([Table(1)], [Part((1,))]), ColumnarRows([Table(2)], [Part((2,), (3,))])
    both = joined(first, later)
    assert isinstance(both, ColumnarRows)
    assert both.tables == (Table(1), Table(2))
    assert list(both) == [(1,), (2,), (3,)]
    assert joined(first, []) is first
    assert joined((), later) is later


def test_other_rows_beside_columns_make_rows_of_them() -> None:
    columns = ColumnarRows([Table(1)], [Part((1,))])
    assert joined(columns, [(2,)]) == [(1,), (2,)]
    assert joined([(0,)], columns) == [(0,), (1,)]
    assert joined([], []) == []
