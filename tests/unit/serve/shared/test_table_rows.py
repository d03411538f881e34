"""Rows of a table in memory: what they take is known after every change."""

from __future__ import annotations

import sys
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.subscribe.topic_histories import RELATION
from tidegate.errors import RequestRefused
from tidegate.serve.shared.table_rows import MemoryLimits, MemoryTableRows, open_table_rows, remove_left_rows
from tidegate.subscribe.changes.key_rows import memory_bytes

ROWS = st.none() | st.tuples(st.integers(), st.text(max_size=20), st.none() | st.lists(st.text(max_size=5)))


@given(st.lists(st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c"]), ROWS))))
def test_what_rows_take_is_the_sum_of_those_that_are_there(
    rounds: list[list[tuple[bytes, tuple[object, ...] | None]]],
) -> None:
    kept: dict[bytes, tuple[object, ...] | None] = {}
    for changes in rounds:
        kept.update(changes)
    limit = sum(memory_bytes(key, row) for key, row in kept.items())
    table = MemoryTableRows("t", MemoryLimits(10, sys.maxsize))
    for changes in rounds:
        table.replace_all(changes)
    assert table._held_bytes == limit


@pytest.mark.parametrize(
    ("value", "least"),
    [
        ("x" * 10_000, 10_000),
        ([["x" * 100] * 50] * 2, 10_000),
        ({"a": {"b": "x" * 500}}, 500),
        (Decimal(1), 50),
    ],
)
def test_nested_values_count_with_what_is_in_them(value: object, least: int) -> None:
    assert memory_bytes(b"", (1, value)) > least


def test_rows_beyond_the_bytes_are_refused_and_a_table_that_shrinks_is_not() -> None:
    row = ("x" * 1_000,)
    table = MemoryTableRows("t", MemoryLimits(10, 3 * memory_bytes(b"1", row)))
    for _ in range(5):
        table.replace_all([(b"%d" % key, row) for key in range(3)])
        table.replace_all([(b"%d" % key, None) for key in range(3)])
    with pytest.raises(RequestRefused, match="t takes more than") as caught:
        table.replace_all([(b"%d" % key, row) for key in range(4)])
    assert caught.value.hint == "start the server with --data-dir"


LIMITS = MemoryLimits(10, sys.maxsize)


@pytest.mark.parametrize("left", ["MANIFEST-000005", "CURRENT", None])
def test_rows_that_an_earlier_run_has_left_are_deleted_unread(tmp_path: Path, left: str | None) -> None:
    pytest.importorskip("rocksdict")
    open_table_rows(tmp_path, "feed", RELATION, LIMITS).close()
    (rows,) = tmp_path.glob("*/rows")
    if left is None:
        (rows / "CURRENT").write_bytes(b"damaged")
    else:
        for file in rows.iterdir():
            if file.name != left:
                file.unlink()
    table = open_table_rows(tmp_path, "feed", RELATION, LIMITS)
    table.replace_all([(b"a", (1, None, None, None))])
    assert table.frozen().row_count == 0, "it was empty at its frontier"
    table.close()


def test_a_new_run_deletes_the_rows_of_tables_that_nobody_reads_any_more(tmp_path: Path) -> None:
    pytest.importorskip("rocksdict")
    foreign = tmp_path / "foreign" / "rows"
    foreign.mkdir(parents=True)
    table = open_table_rows(tmp_path, "feed", RELATION, LIMITS)
    remove_left_rows(tmp_path)
    assert len([*tmp_path.glob("*/rows")]) == 2, "another server has it open"
    table.close()
    remove_left_rows(tmp_path)
    assert [*tmp_path.glob("*/rows")] == [foreign]
    remove_left_rows(tmp_path / "not yet there")
