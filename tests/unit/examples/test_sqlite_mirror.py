"""The mirror of a table in SQLite goes on after the last batch that it has."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from examples.sqlite_mirror import mirror
from stack.kafka import KafkaBroker
from tests.unit.client.subscribe.hand_feed import HandFeed
from tidegate.client.subscribe import SpillSettings
from tidegate.client.subscribe.state.sql_checkpoints import HeldRow, SqlCheckpoints
from tidegate.client.subscribe.state.sql_dialect import SQLITE
from tidegate.errors import Fenced

pytestmark = pytest.mark.broker


def row(key: int, balance: Any, note: str | None = None) -> dict[str, Any]:
    return {"id": key, "balance": balance, "note": note}


def mirrored(feed: HandFeed, file: Path, batches: int, **more: Any) -> list[tuple[Any, ...]]:
    """Apply so many batches, and return the rows of the mirror."""
    with closing(sqlite3.connect(file)) as database:
        known = {"app_id": feed.app_id, "topic_prefix": feed.prefix, **more}
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


def test_chunks_of_a_snapshot_become_the_mirror_together(
    broker: KafkaBroker, topic_prefix: str, tmp_path: Path
) -> None:
    feed = HandFeed(broker.bootstrap, topic_prefix)
    file = tmp_path / "mirror.db"
    feed.write(0, 5, 1, row(1, 1))
    feed.mark(6)
    assert mirrored(feed, file, batches=1) == [(1, 1, None)]
    with closing(sqlite3.connect(file)) as database, database:  # it takes a snapshot again
        database.execute("UPDATE tidegate_checkpoints SET token = NULL")
    for key in range(2, 20_002):
        feed.write(key % 2, 7, key, row(key, key, "n" * 100))
    feed.mark(8)
    small = SpillSettings(memory_bytes=0)
    assert mirrored(feed, file, batches=2, spill=small) == [(1, 1, None)]
    feed.write(0, 9, 2, None, row(2, 2, "n" * 100))
    feed.mark(10)
    until_whole = mirrored(feed, file, batches=1, spill=small)
    for batches in range(2, 9):  # each of these runs ends behind another chunk
        if len(until_whole) > 1:
            break
        until_whole = mirrored(feed, file, batches, spill=small)
    assert until_whole == [(1, 1, None), *((key, key, "n" * 100) for key in range(3, 20_002))]
    with closing(sqlite3.connect(file)) as database:
        assert database.execute('SELECT count(*) FROM "accounts incoming"').fetchone() == (0,)


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
