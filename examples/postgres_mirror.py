"""A table of a feed, kept as a table of PostgreSQL: at any moment the mirror is the table as of one time.

    python -m examples.postgres_mirror --dsn postgresql://localhost/mirrors --key origin,time_hour weather

The table has to be there, with the types that it is to have, and a primary key. Each batch is complete up to
one time. Its rows and its token are stored in one transaction, so the mirror goes on after the last batch
that it has, whenever it was killed.

The snapshot comes in chunks, which wait in a temporary table: no other process sees it, and it is gone with
the session. With the last chunk they become the mirror.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, LiteralString, TypeAlias

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.subscribe import subscribe
from tidegate.client.subscribe.state.sql_checkpoints import SqlCheckpoints
from tidegate.client.subscribe.state.sql_dialect import POSTGRES
from tidegate.subscribe import SubscriptionBatch, subscribe_statement
from tidegate.subscribe.outputs.keyed_rows import DELETE

#: The columns of a row before the table's own: mz_timestamp and mz_state.
_OWN = 2
#: The statements that put a row into a table, and delete a key.
Writes: TypeAlias = tuple[sql.Composed, sql.Composed]


class Mirror:
    """One table of a database; ``columns`` are the feed's, the first ``key`` of them are the primary key."""

    def __init__(
        self, connection: psycopg.Connection[Any], table: str, columns: Sequence[str], key: int
    ) -> None:
        self._connection = connection
        self._key = key
        self._amid_snapshot = False
        self._columns = [sql.Identifier(name) for name in columns]
        self._table = sql.Identifier(*table.split("."))
        self._incoming = sql.Identifier("pg_temp", f"incoming {table}")
        self._to_table, self._to_incoming = self._writes(self._table), self._writes(self._incoming)

    def begin_snapshot(self) -> None:
        """Say that the next chunk is the first one of a snapshot, as it is for a new mirror."""
        self._amid_snapshot = False

    def apply(self, batch: SubscriptionBatch) -> None:
        """Apply a batch within the transaction that is open; a snapshot replaces what is there."""
        with self._connection.cursor() as cursor:
            if not batch.is_partial and not batch.is_snapshot:
                self._apply(cursor, batch, self._to_table)
                return
            if not self._amid_snapshot:  # chunks of a snapshot that did not come to its end may be there
                self._execute(
                    cursor, "CREATE TEMPORARY TABLE IF NOT EXISTS {incoming} (LIKE {table} INCLUDING INDEXES)"
                )
                self._execute(cursor, "TRUNCATE {incoming}")
            self._amid_snapshot = batch.is_partial
            self._apply(cursor, batch, self._to_incoming)
            if batch.is_snapshot:
                self._execute(cursor, "DELETE FROM {table}")
                self._execute(cursor, "INSERT INTO {table} ({columns}) SELECT {columns} FROM {incoming}")
                self._execute(cursor, "TRUNCATE {incoming}")

    def _apply(self, cursor: psycopg.Cursor[Any], batch: SubscriptionBatch, writes: Writes) -> None:
        put, drop = writes
        last = {row[_OWN : _OWN + self._key]: row for row in batch.rows}  # of each key the newest row
        cursor.executemany(drop, [key for key, row in last.items() if row[1] == DELETE])
        cursor.executemany(put, [list(map(_stored, row[_OWN:])) for row in last.values() if row[1] != DELETE])

    def _execute(self, cursor: psycopg.Cursor[Any], statement: LiteralString) -> None:
        columns = sql.SQL(", ").join(self._columns)
        names = {"table": self._table, "incoming": self._incoming, "columns": columns}
        cursor.execute(sql.SQL(statement).format(**names))

    def _writes(self, table: sql.Identifier) -> Writes:
        names, keys = self._columns, self._columns[: self._key]
        sets = [sql.SQL("{0} = excluded.{0}").format(name) for name in names[self._key :]]
        put = sql.SQL("INSERT INTO {} ({}) VALUES ({}) ON CONFLICT ({}) DO {}").format(
            table,
            sql.SQL(", ").join(names),
            sql.SQL(", ").join([sql.Placeholder()] * len(names)),
            sql.SQL(", ").join(keys),
            sql.SQL("UPDATE SET ") + sql.SQL(", ").join(sets) if sets else sql.SQL("NOTHING"),
        )
        is_key = [sql.SQL("{} = {}").format(name, sql.Placeholder()) for name in keys]
        return put, sql.SQL("DELETE FROM {} WHERE {}").format(table, sql.SQL(" AND ").join(is_key))


def mirror(
    target: psycopg.Connection[Any],
    table: str,
    key: Sequence[str],
    connection: KafkaConnection,
    batches: int | None = None,
    **feed: Any,
) -> None:
    """Keep the mirror up to date, until interrupted or for ``batches`` batches. ``subscribe`` gets
    ``feed``."""
    held = SqlCheckpoints(target, POSTGRES).acquire(f"mirror of {table}")
    statement = subscribe_statement(table, envelope="upsert", key=key)
    with subscribe(
        statement, connection, token=held.token or "", snapshot_chunks=True, **feed
    ) as subscription:
        rows = Mirror(target, table, subscription.header[_OWN:], len(key))
        for batch in islice(subscription, batches):
            with target.transaction():  # commits both, or neither
                held.require_held() if batch.is_partial else held.commit(str(batch.token))
                if batch.loss is not None:
                    rows.begin_snapshot()
                rows.apply(batch)


def _stored(value: Any) -> Any:
    """Return a value as psycopg sends it. PostgreSQL reads dates and the like from their texts."""
    return Jsonb(value) if isinstance(value, dict | list) else value


def main() -> None:
    """Read the command line and mirror."""
    parser = argparse.ArgumentParser(description="Keep a table of a feed as a table of PostgreSQL.")
    parser.add_argument("-b", "--bootstrap-servers", default="127.0.0.1:9092")
    parser.add_argument("--app-id", default="tidegate")
    parser.add_argument("--topic-prefix", default="", help="prefix of the log topic")
    parser.add_argument("--dsn", default="", help="where PostgreSQL is, as libpq takes it")
    parser.add_argument("--key", required=True, help="the columns of the primary key, with commas between")
    parser.add_argument("table")
    given = parser.parse_args()
    # Ctrl-C ends it; the next start goes on after the last batch.
    with psycopg.connect(given.dsn) as target, suppress(KeyboardInterrupt):
        mirror(
            target,
            given.table,
            given.key.split(","),
            KafkaConnection(given.bootstrap_servers),
            app_id=given.app_id,
            topic_prefix=given.topic_prefix,
        )


if __name__ == "__main__":
    main()
