"""The mirror of a table in SQLite goes on behind the last batch that it has."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from examples.sqlite_mirror import mirror
from stack.kafka import KafkaBroker
from tests.unit.client.subscribe.hand_feed import HandFeed
from tidegate.client.subscribe.state.sql_checkpoints import HeldRow, SqlCheckpoints
from tidegate.client.subscribe.state.sql_dialect import SQLITE
from tidegate.errors import Fenced

pytestmark = pytest.mark.broker


def row(key: int, balance: Any, note: str | None = None) -> dict[str, Any]:
    return {"id": key, "balance": balance, "note": note}


def mirrored(feed: HandFeed, file: Path, batches: int) -> list[tuple[Any, ...]]:
    """Apply so many batches, and return the rows of the mirror."""
    with closing(sqlite3.connect(file)) as database:
        known = {"app_id": feed.app_id, "topic_prefix": feed.prefix}
        mirror(database, "accounts", ["id"], feed.connection, batches, **known)
        return database.execute("SELECT * FROM accounts ORDER BY id").fetchall()


def _empty(database: sqlite3.Connection, held: HeldRow) -> None:
    with database:
        held.commit("a token")
        database.execute("DELETE FROM accounts")


def test_a_mirror_is_the_table_and_goes_on(broker: KafkaBroker, topic_prefix: str, tmp_path: Path) -> None:
    feed = HandFeed(broker.bootstrap, topic_prefix)
    feed.write(0, 5, 1, row(1, 10, "a"))
    feed.write(1, 6, 2, row(2, 20))
    feed.mark(7)
    file = tmp_path / "mirror.db"
    assert mirrored(feed, file, batches=1) == [(1, 10, "a"), (2, 20, None)]
    feed.write(0, 8, 1, None, row(1, 10, "a"))
    feed.write(1, 9, 2, row(2, 21), row(2, 20))
    feed.mark(9)
    assert mirrored(feed, file, batches=1) == [(2, 21, None)]


def test_a_mirror_that_another_one_has_replaced_changes_nothing(
    broker: KafkaBroker, topic_prefix: str, tmp_path: Path
) -> None:
    feed = HandFeed(broker.bootstrap, topic_prefix)
    feed.write(0, 5, 1, row(1, 10))
    feed.mark(7)
    file = tmp_path / "mirror.db"
    mirrored(feed, file, batches=1)
    with closing(sqlite3.connect(file)) as mine, closing(sqlite3.connect(file)) as theirs:
        held = SqlCheckpoints(mine, SQLITE).acquire("mirror of accounts")
        SqlCheckpoints(theirs, SQLITE).acquire("mirror of accounts")
        with pytest.raises(Fenced):
            _empty(mine, held)
        assert mine.execute("SELECT count(*) FROM accounts").fetchone() == (1,)
