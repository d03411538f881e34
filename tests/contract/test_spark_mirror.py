"""The Spark form of the mirror: micro-batches may end anywhere, and what is stored is whole."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from examples.spark_mirror import start
from stack.kafka import KafkaBroker
from tests.unit.client.subscribe.hand_feed import HandFeed

pytestmark = [pytest.mark.broker, pytest.mark.together]

_COMES_S = 120.0
_TOTAL = 30


def row(key: int, balance: int) -> dict[str, Any]:
    return {"id": key, "balance": balance, "note": ""}


@contextmanager
def mirroring(session: SparkSession, feed: HandFeed, file: Path) -> Iterator[sqlite3.Connection]:
    """A query that keeps the mirror in a file, while the context lasts."""
    with closing(sqlite3.connect(file, check_same_thread=False)) as database:
        query = start(session, database, "accounts", ["id"], feed.connection, feed.app_id, feed.prefix)
        try:
            yield database
        finally:
            query.stop()


def wait_for(database: sqlite3.Connection, rows: list[tuple[Any, ...]]) -> None:
    """Wait until the mirror has these rows of id and balance. Until then, too, transfers are whole."""
    deadline = time.monotonic() + _COMES_S
    while (found := database.execute("SELECT id, balance FROM accounts ORDER BY id").fetchall()) != rows:
        assert time.monotonic() < deadline, found
        assert not found or sum(balance for _, balance in found) == _TOTAL
        time.sleep(0.1)


def test_micro_batches_become_whole_states_and_a_new_query_goes_on(
    spark_session: SparkSession, broker: KafkaBroker, topic_prefix: str, tmp_path: Path
) -> None:
    feed = HandFeed(broker.bootstrap, topic_prefix)
    feed.write(0, 5, 1, row(1, 10))
    feed.write(1, 5, 2, row(2, 20))
    feed.mark(7)
    file = tmp_path / "mirror.db"
    with mirroring(spark_session, feed, file) as database:
        wait_for(database, [(1, 10), (2, 20)])
        feed.write(0, 9, 1, row(1, 5), row(1, 10))  # half of a transfer, and no marker in its partition
        feed.mark(9, 1)
        feed.write(1, 9, 2, row(2, 25), row(2, 20))
        feed.mark(9)
        wait_for(database, [(1, 5), (2, 25)])
        feed.write(0, 12, 1, row(1, 0), row(1, 5))
        feed.mark(11)
    feed.write(1, 12, 2, row(2, 30), row(2, 25))
    feed.mark(12)
    with mirroring(spark_session, feed, file) as database:
        wait_for(database, [(1, 0), (2, 30)])
