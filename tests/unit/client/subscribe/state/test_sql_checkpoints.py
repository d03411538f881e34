"""Checkpoints in the target's own transaction: rows and token are one, whoever comes between.

PostgreSQL runs the same in tests/e2e/test_sql_checkpoints.py.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.unit.client.subscribe.state.checkpoint_cases import CASES, Use, named, token_at
from tests.unit.client.subscribe.state.sql_target import Steps, consume, sqlite_target
from tidegate.client.subscribe.state.checkpoint import HeldCheckpoint
from tidegate.client.subscribe.state.sql_checkpoints import HeldRow, SqlCheckpoints
from tidegate.client.subscribe.state.sql_dialect import SQLITE
from tidegate.errors import Fenced, SettingsError


def committed(held: HeldCheckpoint, token: str) -> None:
    assert isinstance(held, HeldRow)
    with held._connection:
        held.commit(token)


def required(held: HeldCheckpoint) -> None:
    assert isinstance(held, HeldRow)
    with held._connection:
        held.require_held()


@pytest.mark.parametrize("case", CASES, ids=named)
@pytest.mark.parametrize("options", [{}, {"isolation_level": "IMMEDIATE"}], ids=["deferred", "immediate"])
def test_a_store_in_sqlite(tmp_path: Path, case: Any, options: dict[str, Any]) -> None:
    case(
        lambda: SqlCheckpoints(sqlite_target(tmp_path / "db", **options), SQLITE),
        Use(committed, required),
        token_at,
    )


@examples(40)
@given(data=st.data())
def test_rows_and_token_are_one_whatever_three_processes_do(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Each goes on by a step, dies in the middle of its transaction, or meets a lock or a newer epoch."""
    path, batches = tmp_path_factory.mktemp("target") / "db", 6
    with closing(sqlite3.connect(path)) as made:
        made.execute("CREATE TABLE applied (number INTEGER PRIMARY KEY, epoch INTEGER)")
    running: dict[int, tuple[sqlite3.Connection, Steps]] = {}
    for _ in range(data.draw(st.integers(1, 40))):
        who = data.draw(st.integers(0, 2))
        if who not in running:
            connection = sqlite_target(path)
            running[who] = connection, consume(connection, SQLITE, batches)
        connection, steps = running[who]
        if data.draw(st.integers(0, 5)) and goes_on(steps):
            continue
        connection.close()  # what is not committed is gone
        del running[who]
        require_one(path)
    for connection, _ in running.values():
        connection.close()
    with closing(sqlite_target(path)) as last:
        assert "acquired" in list(consume(last, SQLITE, batches))
    assert require_one(path) == batches


def goes_on(steps: Steps) -> bool:
    """Whether a process has done its next step; otherwise it is fenced, met a lock, or has nothing left."""
    with suppress(Fenced, sqlite3.OperationalError):
        return next(steps, None) is not None
    return False


def require_one(path: Path) -> int:
    """The rows are those of the batches up to the token; returns their number."""
    with closing(sqlite3.connect(path)) as reader:
        numbers = [number for (number,) in reader.execute("SELECT number FROM applied ORDER BY number")]
        tables = reader.execute("SELECT count(*) FROM sqlite_master WHERE name = 'tidegate_checkpoints'")
        if tables.fetchone() == (0,):
            assert numbers == []
            return 0
        (token,) = reader.execute("SELECT max(token) FROM tidegate_checkpoints").fetchone()
        epochs = [epoch for (epoch,) in reader.execute("SELECT epoch FROM applied ORDER BY number")]
    assert numbers == list(range(1, int(token or 0) + 1))
    assert epochs == sorted(epochs)
    return len(numbers)


def test_rows_of_a_fenced_process_are_rolled_back(tmp_path: Path) -> None:
    old, new = sqlite_target(tmp_path / "db"), sqlite_target(tmp_path / "db")
    old.execute("CREATE TABLE t (a INTEGER)")
    held = SqlCheckpoints(old, SQLITE).acquire("n")
    SqlCheckpoints(new, SQLITE).acquire("n")
    old.execute("INSERT INTO t VALUES (1)")
    with pytest.raises(Fenced, match="another process has acquired it"), old:
        held.commit("token")
    assert new.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_a_fenced_process_writes_no_chunk_and_a_holder_keeps_its_token(tmp_path: Path) -> None:
    old, new = sqlite_target(tmp_path / "db"), sqlite_target(tmp_path / "db")
    held = SqlCheckpoints(old, SQLITE).acquire("n")
    with old:
        held.commit("token")
    with old:
        held.require_held()
    assert SqlCheckpoints(new, SQLITE).acquire("n").token == "token"
    with pytest.raises(Fenced, match="another process has acquired it"), old:
        held.require_held()


def test_nobody_acquires_a_checkpoint_while_a_chunk_is_written(tmp_path: Path) -> None:
    old, new = sqlite_target(tmp_path / "db"), sqlite_target(tmp_path / "db")
    held = SqlCheckpoints(old, SQLITE).acquire("n")
    held.require_held()
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        SqlCheckpoints(new, SQLITE).acquire("n")
    old.commit()
    assert SqlCheckpoints(new, SQLITE).acquire("n").epoch > held.epoch


def test_a_token_is_gone_with_the_rows_of_a_transaction_that_is_rolled_back(tmp_path: Path) -> None:
    connection = sqlite_target(tmp_path / "db")
    held = SqlCheckpoints(connection, SQLITE).acquire("n")
    held.commit("token")
    assert connection.in_transaction
    connection.rollback()
    assert SqlCheckpoints(connection, SQLITE).acquire("n").token is None


def test_a_checkpoint_is_not_acquired_amid_a_transaction(tmp_path: Path) -> None:
    connection = sqlite_target(tmp_path / "db")
    connection.execute("CREATE TABLE t (a INTEGER)")
    connection.execute("INSERT INTO t VALUES (1)")
    with pytest.raises(SettingsError, match="commit or roll back what is open"):
        SqlCheckpoints(connection, SQLITE).acquire("n")
    assert connection.in_transaction


def test_a_token_apart_from_its_rows_is_refused(tmp_path: Path) -> None:
    connection = sqlite_target(tmp_path / "db", isolation_level=None)
    held = SqlCheckpoints(connection, SQLITE).acquire("n")
    assert not connection.in_transaction
    with pytest.raises(SettingsError, match="Begin a transaction, and within it"):
        held.commit("token")
    connection.execute("BEGIN")
    held.commit("token")
    connection.execute("COMMIT")
    assert SqlCheckpoints(connection, SQLITE).acquire("n").token == "token"


def test_an_acquire_that_meets_a_lock_acquires_nothing(tmp_path: Path) -> None:
    one, other = sqlite_target(tmp_path / "db"), sqlite_target(tmp_path / "db")
    held = SqlCheckpoints(one, SQLITE).acquire("n")
    held.commit("token")
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        SqlCheckpoints(other, SQLITE).acquire("n")
    one.commit()
    assert SqlCheckpoints(other, SQLITE).acquire("n").token == "token"


@pytest.mark.parametrize("options", [{}, {"isolation_level": None}], ids=["deferred", "autocommit"])
def test_nobody_acquires_between_the_epoch_and_its_reading(tmp_path: Path, options: dict[str, Any]) -> None:
    one, other = sqlite_target(tmp_path / "db", **options), sqlite_target(tmp_path / "db", **options)
    epochs: list[int] = []

    def another(statement: str) -> None:
        if statement.startswith("SELECT epoch"):
            with suppress(sqlite3.OperationalError):
                epochs.append(SqlCheckpoints(other, SQLITE).acquire("n").epoch)

    SqlCheckpoints(one, SQLITE).acquire("n")
    one.set_trace_callback(another)
    epochs.append(SqlCheckpoints(one, SQLITE).acquire("n").epoch)
    assert len(epochs) == 1


def test_a_row_that_was_deleted_or_restored_does_not_let_its_holder_go_on(tmp_path: Path) -> None:
    connection = sqlite_target(tmp_path / "db")
    held = SqlCheckpoints(connection, SQLITE).acquire("n")
    with connection:
        connection.execute("DELETE FROM tidegate_checkpoints")
    with pytest.raises(Fenced, match="or its row was deleted"), connection:
        held.commit("token")
    assert SqlCheckpoints(connection, SQLITE).acquire("n").epoch > held.epoch
    with pytest.raises(Fenced), connection:
        held.commit("token")


@pytest.mark.parametrize("factory", [sqlite3.Row, lambda cursor, row: dict(enumerate(row))])
def test_the_connection_may_have_a_row_factory(tmp_path: Path, factory: Any) -> None:
    connection = sqlite_target(tmp_path / "db")
    connection.row_factory = factory
    held = SqlCheckpoints(connection, SQLITE).acquire("n")
    with connection:
        held.commit("token")
    assert SqlCheckpoints(connection, SQLITE).acquire("n").token == "token"
