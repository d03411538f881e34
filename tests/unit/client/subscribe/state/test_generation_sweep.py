"""After a new snapshot the target has its rows and no others, wherever the one before has ended."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.client.subscribe.state.generation_sweep import GenerationSweep
from tidegate.client.subscribe.state.sql_dialect import SQLITE

_TABLES = st.dictionaries(st.integers(0, 9), st.integers(0, 99), max_size=8)


def target(name: str = "t") -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    quoted = name.replace('"', '""')
    connection.execute(
        f'CREATE TABLE "{quoted}" (id INTEGER PRIMARY KEY, v INTEGER, tidegate_generation INTEGER)'
    )
    return connection


def write(connection: sqlite3.Connection, rows: Mapping[int, int], generation: int | None) -> None:
    found = [(key, value, generation) for key, value in rows.items()]
    connection.executemany("INSERT OR REPLACE INTO t VALUES (?, ?, ?)", found)


@given(
    before=_TABLES, broken_off=st.lists(_TABLES, max_size=3), snapshot=_TABLES, later=_TABLES, again=_TABLES
)
def test_what_a_snapshot_does_not_have_is_gone(
    before: Mapping[int, int],
    broken_off: list[Mapping[int, int]],
    snapshot: Mapping[int, int],
    later: Mapping[int, int],
    again: Mapping[int, int],
) -> None:
    connection = target()
    sweep = GenerationSweep(connection, SQLITE, "t")
    write(connection, before, None)
    for rows in broken_off:
        write(connection, rows, sweep.begin())
    generation = sweep.begin()
    write(connection, snapshot, generation)
    sweep.sweep(generation)
    assert dict(connection.execute("SELECT id, v FROM t")) == snapshot
    write(connection, later, generation)
    generation = sweep.begin()
    write(connection, again, generation)
    assert sweep.sweep(generation) == len({*snapshot, *later} - {*again})
    assert dict(connection.execute("SELECT id, v FROM t")) == again


def test_nothing_is_committed() -> None:
    connection = target()
    write(connection, {1: 1}, None)
    connection.commit()
    sweep = GenerationSweep(connection, SQLITE, "t")
    assert sweep.sweep(sweep.begin()) == 1
    connection.rollback()
    assert dict(connection.execute("SELECT id, v FROM t")) == {1: 1}


def test_names_are_quoted() -> None:
    name = 'a "table"; DROP'
    sweep = GenerationSweep(target(name), SQLITE, ["main", name])
    assert (sweep.begin(), sweep.sweep(1)) == (1, 0)
    for wrong in ("", "a\x00b"):
        with pytest.raises(ValueError, match="no name of a table"):
            GenerationSweep(target(), SQLITE, wrong)
