"""The mirror of a table in PostgreSQL goes on after the last batch that it has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from examples.postgres_mirror import Mirror, mirror
from stack.kafka import KafkaBroker
from stack.postgres import PostgresServer
from tests.unit.client.subscribe.hand_feed import HandFeed
from tidegate.client.subscribe import SpillSettings, subscribe
from tidegate.client.subscribe.state.sql_checkpoints import HeldRow, SqlCheckpoints
from tidegate.client.subscribe.state.sql_dialect import POSTGRES
from tidegate.errors import Fenced
from tidegate.subscribe import SubscriptionBatch, subscribe_statement

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as running:
        yield running


@pytest.fixture
def target(server: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(server.dsn) as connection:
        connection.execute("DROP TABLE IF EXISTS accounts, tidegate_checkpoints")
        connection.execute(
            "CREATE TABLE accounts (id int PRIMARY KEY, balance int CHECK (balance < 1000), note text)"
        )
        connection.commit()
        yield connection


def row(key: int, balance: int, note: str | None = None) -> dict[str, Any]:
    return {"id": key, "balance": balance, "note": note}


def mirrored(
    feed: HandFeed, target: psycopg.Connection[Any], batches: int = 1, **more: Any
) -> list[tuple[Any, ...]]:
    """Apply so many batches, and return the rows of the mirror."""
    known = {"app_id": feed.app_id, "topic_prefix": feed.prefix, **more}
    mirror(target, "accounts", ["id"], feed.connection, batches, **known)
    return rows(target)


def rows(target: psycopg.Connection[Any]) -> list[tuple[Any, ...]]:
    found = target.execute("SELECT * FROM accounts ORDER BY id").fetchall()
    target.rollback()
    return found


def _empty(target: psycopg.Connection[Any], held: HeldRow) -> None:
    with target.transaction():
        target.execute("DELETE FROM accounts")
        held.commit("a token")


def _write_chunk(
    target: psycopg.Connection[Any], held: HeldRow, written: Mirror, chunk: SubscriptionBatch
) -> None:
    with target.transaction():
        held.require_held()
        written.apply(chunk)


def test_a_mirror_is_the_table_and_goes_on(
    broker: KafkaBroker, topic_prefix: str, target: psycopg.Connection[Any]
) -> None:
    feed = HandFeed(broker.bootstrap, topic_prefix)
    feed.write(0, 5, 1, row(1, 10, "a"))
    feed.write(1, 6, 2, row(2, 20))
    feed.mark(7)
    assert mirrored(feed, target) == [(1, 10, "a"), (2, 20, None)]
    feed.write(0, 8, 1, None, row(1, 10, "a"))
    feed.write(0, 9, 1, row(1, 12, "again"))
    feed.write(1, 9, 2, row(2, 21), row(2, 20))
    feed.write(1, 9, 3, row(3, 30))
    feed.write(1, 10, 3, None, row(3, 30))
    feed.mark(10)
    assert mirrored(feed, target) == [(1, 12, "again"), (2, 21, None)]


def test_chunks_of_a_snapshot_become_the_mirror_together(
    broker: KafkaBroker, topic_prefix: str, target: psycopg.Connection[Any]
) -> None:
    feed = HandFeed(broker.bootstrap, topic_prefix)
    feed.write(0, 5, 1, row(1, 1))
    feed.mark(6)
    assert mirrored(feed, target) == [(1, 1, None)]
    with target.transaction():  # it takes a snapshot again
        target.execute("UPDATE tidegate_checkpoints SET token = NULL")
    for key in range(2, 20_002):
        feed.write(key % 2, 7, key, row(key, key % 1_000, "n" * 100))
    feed.mark(8)
    small = SpillSettings(memory_bytes=0)
    assert mirrored(feed, target, batches=2, spill=small) == [(1, 1, None)]
    feed.write(0, 9, 2, None, row(2, 2, "n" * 100))
    feed.mark(10)
    until_whole = mirrored(feed, target, spill=small)
    for batches in range(2, 9):  # each of these runs ends behind another chunk
        if len(until_whole) > 1:
            break
        until_whole = mirrored(feed, target, batches, spill=small)
    assert until_whole == [(1, 1, None), *((key, key % 1_000, "n" * 100) for key in range(3, 20_002))]


def test_a_mirror_whose_checkpoint_was_acquired_between_two_chunks_writes_no_further_one(
    broker: KafkaBroker, topic_prefix: str, server: PostgresServer, target: psycopg.Connection[Any]
) -> None:
    feed = HandFeed(broker.bootstrap, topic_prefix)
    for key in range(20_000):
        feed.write(key % 2, 7, key, row(key, key % 1_000, "n" * 100))
    feed.mark(8)
    statement = subscribe_statement("accounts", envelope="upsert", key=["id"])
    held = SqlCheckpoints(target, POSTGRES).acquire("mirror of accounts")
    known: dict[str, Any] = {"app_id": feed.app_id, "topic_prefix": feed.prefix}
    small = SpillSettings(memory_bytes=0)
    with subscribe(statement, feed.connection, snapshot_chunks=True, spill=small, **known) as subscription:
        written = Mirror(target, "accounts", subscription.header[2:], 1)
        first, second = next(iter(subscription)), next(iter(subscription))
        assert first.is_partial
        assert second.is_partial
        _write_chunk(target, held, written, first)
        with psycopg.connect(server.dsn) as theirs:
            SqlCheckpoints(theirs, POSTGRES).acquire("mirror of accounts")
        with pytest.raises(Fenced):
            _write_chunk(target, held, written, second)
    count = target.execute('SELECT count(*) FROM pg_temp."incoming accounts"').fetchone()
    assert count == (len(first.rows),)
    assert rows(target) == []


def test_rows_and_token_are_stored_together_or_not_at_all(
    broker: KafkaBroker, topic_prefix: str, target: psycopg.Connection[Any]
) -> None:
    feed = HandFeed(broker.bootstrap, topic_prefix)
    feed.write(0, 5, 1, row(1, 10))
    feed.mark(7)
    mirrored(feed, target)
    feed.write(0, 8, 1, row(1, 11), row(1, 10))
    feed.write(1, 9, 2, row(2, 5_000))
    feed.mark(9)
    with pytest.raises(psycopg.errors.CheckViolation):
        mirrored(feed, target)
    assert rows(target) == [(1, 10, None)]
    with target.transaction():
        target.execute("ALTER TABLE accounts DROP CONSTRAINT accounts_balance_check")
    assert mirrored(feed, target) == [(1, 11, None), (2, 5_000, None)]  # the same batch, once


def test_a_mirror_that_another_one_has_replaced_changes_nothing(
    broker: KafkaBroker, topic_prefix: str, server: PostgresServer, target: psycopg.Connection[Any]
) -> None:
    feed = HandFeed(broker.bootstrap, topic_prefix)
    feed.write(0, 5, 1, row(1, 10))
    feed.mark(7)
    mirrored(feed, target)
    held = SqlCheckpoints(target, POSTGRES).acquire("mirror of accounts")
    with psycopg.connect(server.dsn) as theirs:
        SqlCheckpoints(theirs, POSTGRES).acquire("mirror of accounts")
    with pytest.raises(Fenced):
        _empty(target, held)
    assert rows(target) == [(1, 10, None)]
