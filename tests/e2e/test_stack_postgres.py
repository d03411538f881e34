"""The real PostgreSQL server, started by whoever runs the tests, root included."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from stack.places import CHECKOUT
from stack.postgres import PostgresServer
from stack.processes.identity import ProcessIdentity
from stack.processes.owned import OwnedServer
from tests.e2e.stack_end import nothing_is_left_of, stack

pytestmark = pytest.mark.broker


# Starts a server, tells the pids of it and of the processes that it started, and waits to be killed.
_OWNER = """
import os, time
from stack.places import CHECKOUT
from stack.postgres import PostgresServer
from tests.e2e.stack_end import children_of
server = PostgresServer().start()
processes = children_of(os.getpid()) | children_of(server.pid)
print(*(process.pid for process in processes), flush=True)
time.sleep(600)
"""


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as running:
        yield running


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that another user can enter, as pytest's own cannot be when root runs it."""
    with tempfile.TemporaryDirectory(prefix="tidegate-run-") as made:
        Path(made).chmod(0o711)
        yield Path(made)


def query(dsn: str, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn) as session:
        cursor = session.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def test_a_query_is_answered(server: PostgresServer) -> None:
    assert query(server.dsn, "SELECT current_user, current_database()") == [("tidegate", "tidegate")]
    query(server.dsn, "CREATE TABLE t (a int PRIMARY KEY, b text); INSERT INTO t VALUES (1, 'Zürich')")
    assert query(server.dsn, "SELECT * FROM t") == [(1, "Zürich")]


def test_the_role_cannot_run_programs_and_nobody_else_gets_in(server: PostgresServer) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        query(server.dsn, "COPY (SELECT 1) TO PROGRAM 'cat'")
    with pytest.raises(psycopg.OperationalError, match=r"no pg_hba\.conf entry"):
        query(server.dsn.replace("//tidegate:", "//postgres:"), "SELECT 1")


def test_whoever_has_an_account_on_the_machine_needs_the_password(server: PostgresServer) -> None:
    for login in ("tidegate", "tidegate:guess"):
        with pytest.raises(psycopg.OperationalError, match="password"):
            query(server.dsn.replace(f"tidegate:{server.password}@", f"{login}@"), "SELECT 1")


def test_data_of_an_earlier_version_are_closed(open_directory: Path) -> None:
    data = open_directory / "data"
    with PostgresServer(data=data) as first:
        query(first.dsn, "CREATE TABLE t (a int)")
    (data / "pg_hba.conf").write_text("host tidegate tidegate 127.0.0.1/32 trust\n")
    (data / "tidegate.password").unlink()
    with PostgresServer(data=data) as again:
        assert query(again.dsn, "SELECT * FROM t") == []
        assert (data / "tidegate.password").stat().st_mode & 0o077 == 0
        with pytest.raises(psycopg.OperationalError, match="password"):
            query(again.dsn.replace(f":{again.password}@", "@"), "SELECT 1")


def test_data_outlive_a_stop_and_a_kill_with_a_client_connected(server: PostgresServer) -> None:
    query(server.dsn, "CREATE TABLE t (a int)")
    for number, end in enumerate((server.stop, server.kill)):
        client = psycopg.connect(server.dsn)
        query(server.dsn, f"INSERT INTO t VALUES ({number})")
        end()
        with pytest.raises(psycopg.OperationalError):
            client.execute("SELECT 1")
        server.start()
    assert query(server.dsn, "SELECT a FROM t ORDER BY a") == [(0,), (1,)]


def test_nothing_is_left_of_an_ended_server() -> None:
    sessions = []

    def use(running: OwnedServer) -> None:
        sessions.append(psycopg.connect(running.address))
        sessions[0].execute("SELECT 1")

    nothing_is_left_of(PostgresServer(), use)
    sessions[0].close()


@pytest.mark.soak
def test_a_server_dies_with_the_process_that_started_it(open_directory: Path) -> None:
    environment = os.environ | {"TMPDIR": str(open_directory)}
    with subprocess.Popen(
        [sys.executable, "-c", _OWNER], cwd=CHECKOUT, env=environment, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        pids = map(int, owner.stdout.readline().split())
        processes = [process for pid in pids if (process := ProcessIdentity.of(pid)) is not None]
        owner.kill()
    assert len(processes) > 2, "beside the server and its watcher there are the server's own processes"
    deadline = time.monotonic() + 30
    while left := [process for process in processes if process.alive()]:
        assert time.monotonic() < deadline, f"{left} outlived their owner"
        time.sleep(0.05)


@pytest.mark.soak
def test_up_status_and_down_keep_the_data(open_directory: Path) -> None:
    try:
        first = stack(open_directory, "up", "postgres").split(" at ")[1].split()[0]
        query(first, "CREATE TABLE t (a int); INSERT INTO t VALUES (7)")
        assert stack(open_directory, "status").strip().endswith("healthy")
        with psycopg.connect(first):  # a client that stays does not hold `down` up
            assert "is down; its data stay in" in stack(open_directory, "down", "postgres")
        again = stack(open_directory, "up", "postgres").split(" at ")[1].split()[0]
        assert query(again, "SELECT * FROM t") == [(7,)]
    finally:
        stack(open_directory, "down")
    assert stack(open_directory, "status") == "Nothing is up.\n"
