"""The output of a query has bounds: a text, a row, what comes at once, and what is kept."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.subscribe.consumer_run import plan_of
from tidegate.errors import LimitExceeded
from tidegate.hlc import Timestamp
from tidegate.subscribe.query.selection import Selection
from tidegate.subscribe.query.shown_bytes import (
    MOST_CHARACTERS,
    HeldBytes,
    PieceFull,
    RowBytes,
    ShownBytes,
)
from tidegate.subscribe.updates.row_size import row_bytes
from tidegate.subscribe.updates.update import RowValues, Update

MIB = 1024 * 1024


def selection(query: str) -> Selection:
    found = plan_of(f"SUBSCRIBE ({query})").selection()
    assert found is not None
    return found


def shown(query: str, rows: Iterable[RowValues], count: ShownBytes | None = None) -> list[Update]:
    return selection(query).apply((Update(Timestamp(1), 1, row) for row in rows), count)


@pytest.mark.parametrize(
    "expression",
    ["||".join(["note"] * 11), "lower(note) || lower(note)", "upper(note || note)", "note || note"],
)
def test_an_expression_makes_texts_up_to_a_bound(expression: str) -> None:
    times = expression.count("note")
    fits = "x" * (MOST_CHARACTERS // times)
    (update,) = shown(f"SELECT {expression} AS text FROM accounts", [(1, 1, fits)])
    assert len(update.row[0]) == times * len(fits)
    with pytest.raises(LimitExceeded, match=r"makes a text of [0-9,]+ characters") as caught:
        shown(f"SELECT {expression} FROM accounts", [(1, 1, fits + "x" * times)])
    assert (caught.value.code, caught.value.sqlstate) == ("limit_exceeded", "54000")


def test_a_column_of_any_length_is_shown_as_it_is() -> None:
    row = (1, 1, "x" * 20 * MIB)
    queries = ("SELECT * FROM accounts", "SELECT note, note FROM accounts", "SELECT note::text FROM accounts")
    for query in queries:
        (update,) = shown(query, [row])
        assert update.row[0] in (1, row[2])
    (update,) = shown("SELECT note FROM accounts ORDER BY note LIMIT 1", [row])
    assert update.row == (row[2],)


def test_a_row_of_a_query_has_a_bound_and_is_given_up_early() -> None:
    columns = ", ".join(["note || note"] * 1_600)
    with pytest.raises(LimitExceeded, match="makes more than 4 MiB of one row") as caught:
        shown(f"SELECT {columns} FROM accounts", [(1, 1, "x" * 10_000)])
    assert caught.value.sqlstate == "54000"
    assert len(shown(f"SELECT {columns} FROM accounts", [(1, 1, "x" * 1_000)])) == 1
    count = RowBytes((1,))
    for _ in range(4):
        count.add(MIB)
    with pytest.raises(LimitExceeded):
        count.add(MIB)


def test_what_orders_rows_counts_too() -> None:
    items = ", ".join(["note || note"] * 500)
    with pytest.raises(LimitExceeded, match="of one row"):
        shown(f"SELECT id FROM accounts ORDER BY {items} LIMIT 1", [(1, 1, "x" * 10_000)])


def test_what_comes_at_once_has_a_bound() -> None:
    columns = ", ".join(["note || note"] * 100)
    rows = [(n, n, "x" * 10_000) for n in range(80)]
    with pytest.raises(LimitExceeded, match="more than 128 MiB that have to come at once"):
        shown(f"SELECT {columns} FROM accounts", rows)
    assert len(shown(f"SELECT {columns} FROM accounts", rows[:60])) == 60


def test_twice_what_the_table_has_may_always_come_at_once() -> None:
    rows = [(n, n, "x" * 1_000) for n in range(10)]
    assert len(shown("SELECT *, note FROM accounts", rows, ShownBytes(1))) == 10
    with pytest.raises(LimitExceeded):
        shown("SELECT *, note, note FROM accounts", rows, ShownBytes(1))
    assert len(shown("SELECT note, id FROM accounts", rows, ShownBytes(0))) == 10


def test_what_can_be_cut_has_a_lower_bound_and_a_single_row_always_fits() -> None:
    rows = [(n, n, "x" * 1_000) for n in range(10)]
    with pytest.raises(PieceFull):
        shown("SELECT *, note FROM accounts", rows, ShownBytes(1, cut=True))
    assert len(shown("SELECT *, note FROM accounts", rows[:1], ShownBytes(1, cut=True))) == 1


@given(
    notes=st.lists(st.none() | st.text(max_size=30), max_size=20),
    query=st.sampled_from(["SELECT id, note || note FROM accounts", "SELECT *, note FROM accounts"]),
    most=st.integers(0, 3_000),
)
def test_a_piece_that_has_room_is_that_without_a_bound(
    notes: list[str | None], query: str, most: int
) -> None:
    rows = [(at, at, note) for at, note in enumerate(notes)]
    plain = shown(query, rows)
    count = ShownBytes(most, cut=True)
    try:
        assert shown(query, rows, count) == plain
        assert len(rows) < 2 or count.taken <= most
    except PieceFull:
        assert count.taken > most
        assert sum(row_bytes(update.row) for update in plain) > most - 100 * len(rows)


def test_what_a_query_with_limit_keeps_has_a_bound_and_rows_that_go_make_room() -> None:
    held = HeldBytes(1_000)
    held.add(900, 10)
    held.add(-900, -10)
    held.add(900, 10)
    with pytest.raises(LimitExceeded, match="with LIMIT or OFFSET keeps more than"):
        held.add(900, 10)
    large = HeldBytes(1_000)
    for _ in range(100):
        large.add(1_000, 500)


@pytest.mark.long
def test_rows_of_a_query_with_limit_count_while_they_are_there() -> None:
    columns = ", ".join(["note || note"] * 100)
    query = selection(f"SELECT id, {columns} FROM accounts ORDER BY id LIMIT 1")
    for wall in range(1, 200):
        row = (wall, wall, "x" * 10_000)
        query.apply([Update(Timestamp(wall), 1, row), Update(Timestamp(wall), -1, row)])
    many = [Update(Timestamp(wall), 1, (wall, wall, "x" * 10_000)) for wall in range(200, 400)]
    with pytest.raises(LimitExceeded, match="with LIMIT or OFFSET keeps more than 128 MiB"):
        query.apply(many)
