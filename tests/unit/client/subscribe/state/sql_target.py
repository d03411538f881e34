"""Consumers that keep their token in the target's own transaction, by steps, so that others come between."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from pathlib import Path
from typing import Any, TypeAlias

from tidegate.client.subscribe.state.sql_checkpoints import SqlCheckpoints
from tidegate.client.subscribe.state.sql_dialect import SqlDialect

#: Goes on by one step at a time.
Steps: TypeAlias = Generator[str, None, None]


def sqlite_target(path: Path, **options: Any) -> sqlite3.Connection:
    """A connection that does not wait for others."""
    connection: sqlite3.Connection = sqlite3.connect(path, timeout=0, **options)
    return connection


def consume(connection: Any, dialect: SqlDialect, batches: int) -> Steps:
    """Apply batches 1, 2, ... from the token on: each is a row, which a second time would violate its key."""
    held = SqlCheckpoints(connection, dialect).acquire("n")
    yield "acquired"
    for number in range(int(held.token or 0) + 1, batches + 1):
        held.commit(str(number))
        yield "token given"
        connection.cursor().execute(f"INSERT INTO applied VALUES ({number}, {held.epoch})")
        yield "applied"
        connection.commit()
        yield "committed"
