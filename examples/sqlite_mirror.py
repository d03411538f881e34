"""A table of a feed, kept as a table of SQLite: at any moment the mirror is the table as of one time.

    python -m examples.sqlite_mirror --database mirror.db --key origin,time_hour weather

Each batch is complete up to one time. Its rows and its token are stored in one transaction, so the mirror
goes on after the last batch that it has, whenever it was killed. Two mirrors of one name never mix: the
checkpoint takes a token only from the process that acquired it last.

The snapshot comes in chunks, which wait in a table of their own. With the last chunk they become the mirror.
"""

from __future__ import annotations

import argparse
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from typing import Any

from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.subscribe import subscribe
from tidegate.client.subscribe.state.sql_checkpoints import SqlCheckpoints
from tidegate.client.subscribe.state.sql_dialect import SQLITE
from tidegate.subscribe import SubscriptionBatch, subscribe_statement
from tidegate.subscribe.outputs.keyed_rows import DELETE
from tidegate.subscribe.text.row_text import plain_text

#: The columns of a row before the table's own: mz_timestamp and mz_state.
OWN = 2


class Mirror:
    """One table of a SQLite database; ``columns`` are the table's, those of its ``key`` first."""

    def __init__(self, database: sqlite3.Connection, table: str, columns: Sequence[str], key: int) -> None:
        self._database = database
        self._table, self._incoming = _quoted(table), _quoted(f"{table} incoming")
        names, keys = list(map(_quoted, columns)), list(map(_quoted, columns[:key]))
        self._key = key
        is_key = " AND ".join(f"{name} = ?" for name in keys)
        self._put, self._drop = {}, {}
        for each in (self._table, self._incoming):
            self._put[each] = f"INSERT OR REPLACE INTO {each} VALUES ({', '.join('?' * len(names))})"  # noqa: S608 - quoted
            self._drop[each] = f"DELETE FROM {each} WHERE {is_key}"  # noqa: S608 - quoted
            database.execute(
                f"CREATE TABLE IF NOT EXISTS {each} ({', '.join(names)}, PRIMARY KEY ({', '.join(keys)}))"
            )
        self._amid_snapshot = False

    def begin_snapshot(self) -> None:
        """Say that the next chunk is the first one of a snapshot, as it is for a new mirror."""
        self._amid_snapshot = False

    def apply(self, batch: SubscriptionBatch) -> None:
        """Apply a batch within the transaction that is open; a snapshot replaces what is there."""
        if not batch.is_partial and not batch.is_snapshot:
            self._apply(batch, self._table)
            return
        if not self._amid_snapshot:  # chunks of a snapshot that did not come to its end may be there
            self._database.execute(f"DELETE FROM {self._incoming}")  # noqa: S608 - quoted
        self._amid_snapshot = batch.is_partial
        self._apply(batch, self._incoming)
        if batch.is_snapshot:
            self._database.execute(f"DELETE FROM {self._table}")  # noqa: S608 - quoted
            self._database.execute(f"INSERT INTO {self._table} SELECT * FROM {self._incoming}")  # noqa: S608 - quoted
            self._database.execute(f"DELETE FROM {self._incoming}")  # noqa: S608 - quoted

    def _apply(self, batch: SubscriptionBatch, table: str) -> None:
        put, drop = self._put[table], self._drop[table]
        for _, state, *values in batch.rows:
            row = [stored(value) for value in values]
            if state == DELETE:
                self._database.execute(drop, row[: self._key])
            else:
                self._database.execute(put, row)


def mirror(
    database: sqlite3.Connection,
    table: str,
    key: Sequence[str],
    connection: KafkaConnection,
    batches: int | None = None,
    **feed: Any,
) -> None:
    """Keep the mirror up to date, until interrupted or for ``batches`` batches. ``subscribe`` gets
    ``feed``."""
    held = SqlCheckpoints(database, SQLITE).acquire(f"mirror of {table}")
    statement = subscribe_statement(table, envelope="upsert", key=key)
    with subscribe(
        statement, connection, token=held.token or "", snapshot_chunks=True, **feed
    ) as subscription:
        target = Mirror(database, table, subscription.header[OWN:], len(key))
        for batch in islice(subscription, batches):
            with database:  # commits both, or neither
                held.require_held() if batch.is_partial else held.commit(str(batch.token))
                if batch.loss is not None:
                    target.begin_snapshot()
                target.apply(batch)


def stored(value: Any) -> Any:
    """Return a value as SQLite keeps it. A value for which SQLite has no exact form becomes a text."""
    if value is None or isinstance(value, str | bytes) or (type(value) is int and abs(value) < 2**63):
        return value
    return int(value) if isinstance(value, bool) else plain_text(value)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def arguments(description: str) -> argparse.Namespace:
    """Read the command line of a mirror in SQLite."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("-b", "--bootstrap-servers", default="127.0.0.1:9092")
    parser.add_argument("--app-id", default="tidegate")
    parser.add_argument("--topic-prefix", default="", help="prefix of the log topic")
    parser.add_argument("--database", type=Path, default=Path("mirror.db"))
    parser.add_argument("--key", required=True, help="the columns of the primary key, with commas between")
    parser.add_argument("table")
    return parser.parse_args()


def main() -> None:
    """Read the command line and mirror."""
    given = arguments("Keep a table of a feed as a table of SQLite.")
    connection = KafkaConnection(given.bootstrap_servers)
    # Ctrl-C ends it; the next start goes on after the last batch.
    with closing(sqlite3.connect(given.database)) as database, suppress(KeyboardInterrupt):
        mirror(
            database,
            given.table,
            given.key.split(","),
            connection,
            app_id=given.app_id,
            topic_prefix=given.topic_prefix,
        )


if __name__ == "__main__":
    main()
