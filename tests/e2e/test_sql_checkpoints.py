"""Checkpoints in PostgreSQL, in the transaction of the rows: a real server, and psycopg connections."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import IsolationLevel
from psycopg.rows import dict_row

from stack.postgres import PostgresServer
from tests.unit.client.subscribe.state.checkpoint_cases import CASES, Use, named, token_at
from tests.unit.client.subscribe.state.sql_target import consume
from tidegate.client.subscribe.state.checkpoint import HeldCheckpoint
from tidegate.client.subscribe.state.generation_sweep import GenerationSweep
from tidegate.client.subscribe.state.sql_checkpoints import HeldRow, SqlCheckpoints
from tidegate.client.subscribe.state.sql_dialect import POSTGRES
from tidegate.errors import Fenced, SettingsError

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as running:
        yield running


class Sessions:
    """Opens connections, and closes them with the test."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self.opened: list[psycopg.Connection[Any]] = []

    def __call__(self, **options: Any) -> psycopg.Connection[Any]:
        self.opened.append(psycopg.connect(self._dsn, **options))
        return self.opened[-1]


@pytest.fixture
def session(server: PostgresServer) -> Iterator[Sessions]:
    sessions = Sessions(server.dsn)
    with sessions(autocommit=True) as first:
        first.execute("DROP TABLE IF EXISTS tidegate_checkpoints, applied")
        first.execute("CREATE TABLE applied (number int PRIMARY KEY, epoch bigint)")
    yield sessions
    for each in sessions.opened:
        each.close()


def committed(held: HeldCheckpoint, token: str) -> None:
    assert isinstance(held, HeldRow)
    with held._connection.transaction():
        held.commit(token)


def required(held: HeldCheckpoint) -> None:
    assert isinstance(held, HeldRow)
    with held._connection.transaction():
        held.require_held()


@pytest.mark.parametrize("case", CASES, ids=named)
@pytest.mark.parametrize("options", [{}, {"autocommit": True}, {"row_factory": dict_row}], ids=",".join)
def test_a_store_in_postgres(session: Sessions, case: Any, options: dict[str, Any]) -> None:
    case(lambda: SqlCheckpoints(session(**options), POSTGRES), Use(committed, required), token_at)


def test_rows_of_a_fenced_process_are_rolled_back(session: Sessions) -> None:
    old, new = session(), session()
    steps = consume(old, POSTGRES, 3)
    assert [next(steps) for _ in range(4)] == ["acquired", "token given", "applied", "committed"]
    old.execute("INSERT INTO applied VALUES (9, 9)")
    assert next(consume(new, POSTGRES, 3)) == "acquired"
    with pytest.raises(Fenced, match="another process has acquired it"):
        next(steps)
    old.rollback()
    assert new.execute("SELECT number FROM applied").fetchall() == [(1,)]


def test_who_acquires_amid_a_commit_waits_for_it_and_has_its_token(session: Sessions) -> None:
    steps = consume(session(), POSTGRES, 1)
    assert [next(steps) for _ in range(3)] == ["acquired", "token given", "applied"]
    found: list[str | None] = []
    connection, watcher = session(), session(autocommit=True)
    successor = threading.Thread(
        target=lambda: found.append(SqlCheckpoints(connection, POSTGRES).acquire("n").token)
    )
    successor.start()
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    while watcher.execute(waiting).fetchone() == (0,):
        assert successor.is_alive()
    assert found == []
    assert next(steps) == "committed"
    successor.join()
    assert found == ["1"]


@pytest.mark.parametrize("level", [IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE])
def test_an_older_holder_is_fenced_by_the_server_in_higher_levels(
    session: Sessions, level: IsolationLevel
) -> None:
    connection = session()
    connection.isolation_level = level
    held = SqlCheckpoints(connection, POSTGRES).acquire("n")
    connection.execute("INSERT INTO applied VALUES (1, 1)")
    SqlCheckpoints(session(), POSTGRES).acquire("n")
    with pytest.raises(Fenced, match="changed by another transaction"):
        held.commit("token")
    connection.rollback()
    assert connection.execute("SELECT count(*) FROM applied").fetchone() == (0,)


def test_a_token_apart_from_its_rows_and_an_acquire_amid_rows_are_refused(session: Sessions) -> None:
    held = SqlCheckpoints(session(autocommit=True), POSTGRES).acquire("n")
    with pytest.raises(SettingsError, match="is in autocommit"):
        held.commit("token")
    amid = session()
    amid.execute("SELECT 1")
    with pytest.raises(SettingsError, match="commit or roll back what is open"):
        SqlCheckpoints(amid, POSTGRES).acquire("n")


def test_a_pipeline_that_does_not_say_what_was_stored_is_refused(session: Sessions) -> None:
    connection = session()
    held = SqlCheckpoints(connection, POSTGRES).acquire("n")
    with connection.pipeline(), pytest.raises(SettingsError, match="pipeline mode"):
        held.commit("token")


def test_a_new_snapshot_sweeps_what_it_does_not_have(session: Sessions) -> None:
    connection = session()
    connection.execute("INSERT INTO applied VALUES (1, NULL), (2, 7)")
    sweep = GenerationSweep(connection, POSTGRES, ["public", "applied"], "epoch")
    assert sweep.begin() == 8
    connection.execute("INSERT INTO applied VALUES (3, 8)")
    assert sweep.sweep(8) == 2
    assert connection.execute("SELECT number FROM applied").fetchall() == [(3,)]


def test_processes_that_create_the_table_at_once_all_acquire(session: Sessions) -> None:
    epochs: list[int] = []
    connections = [session() for _ in range(6)]
    threads = [
        threading.Thread(target=lambda c=each: epochs.append(SqlCheckpoints(c, POSTGRES).acquire("n").epoch))
        for each in connections
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({*epochs}) == 6
