"""A cache of a table's rows that is never older than what a subscription has told.

    python -m examples.cache_invalidation --key id accounts

Readers look into the cache first, and load a missing row from the store. Whoever changes a row does not tell
the cache: the feed does. For each batch the keys that have changed are dropped from the cache, so the next
reader loads them again. When a batch up to a time was applied, the cache has no row from before a change up
to that time.

A reader may load a row just before the row changes, and put it into the cache just after the key was dropped.
The old row would then stay in the cache. So a loaded row is kept only if its key was not dropped meanwhile.
"""

from __future__ import annotations

import argparse
import threading
from collections.abc import Callable, Iterable, MutableMapping
from contextlib import suppress
from typing import Any

from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.subscribe import subscribe
from tidegate.hlc import Timestamp
from tidegate.subscribe import SubscriptionBatch, subscribe_statement

#: The columns of a row before its key: mz_timestamp and mz_state.
_OWN = 2

Key = tuple[Any, ...]


class RowCache:
    """Rows by key. ``rows`` is a dict, or an object with a dict's methods, such as one that asks Redis.

    ``load`` reads a row from the store. Several threads may read while one drops keys.
    """

    def __init__(self, load: Callable[[Key], Any], rows: MutableMapping[Key, Any] | None = None) -> None:
        self._load = load
        self._rows: MutableMapping[Key, Any] = {} if rows is None else rows
        self._lock = threading.Lock()
        #: The loads that are under way, by key; a key that is dropped loses all of them.
        self._loads: dict[Key, set[object]] = {}
        self.hits = self.dropped = 0

    def get(self, key: Key) -> Any:
        """Return the row of a key, from the cache or from the store."""
        load = object()
        with self._lock:
            if key in self._rows:
                self.hits += 1
                return self._rows[key]
            self._loads.setdefault(key, set()).add(load)
        try:
            row = self._load(key)
            with self._lock:
                if load in self._loads.get(key, ()):  # the key was not dropped meanwhile
                    self._rows[key] = row
            return row
        finally:
            with self._lock:
                loads = self._loads.get(key, set())
                loads.discard(load)
                if not loads:
                    self._loads.pop(key, None)

    def drop(self, keys: Iterable[Key]) -> None:
        """Forget the rows of these keys, and do not keep those that are being loaded now."""
        with self._lock:
            for key in keys:
                self._loads.pop(key, None)
                if self._rows.pop(key, None) is not None:
                    self.dropped += 1


def changed_keys(batch: SubscriptionBatch, key: int) -> set[Key]:
    """Return the keys in a batch of ENVELOPE UPSERT. A key has ``key`` columns."""
    return {row[_OWN : _OWN + key] for row in batch.rows}


def invalidate(
    cache: RowCache,
    table: str,
    key: list[str],
    connection: KafkaConnection,
    batches: int | None = None,
    as_of: Timestamp | None = None,
    **feed: Any,
) -> None:
    """Drop the keys that change, until interrupted or for ``batches`` batches. ``subscribe`` gets ``feed``.

    There is no snapshot, and no token is stored: a cache that is empty when this begins has nothing from
    before. For a cache that has rows already, ``as_of`` says how old they may be.
    """
    statement = subscribe_statement(table, envelope="upsert", key=key, snapshot=False, as_of=as_of)
    with subscribe(statement, connection, **feed) as subscription:
        while batches != 0 and (batch := subscription.next()) is not None:
            cache.drop(changed_keys(batch, len(key)))
            batches = None if batches is None else batches - 1


def main() -> None:
    """Read the command line, and print the keys that change."""
    parser = argparse.ArgumentParser(description="Print which keys of a cache are to be dropped.")
    parser.add_argument("-b", "--bootstrap-servers", default="127.0.0.1:9092")
    parser.add_argument("--app-id", default="tidegate")
    parser.add_argument("--topic-prefix", default="", help="prefix of the log topic")
    parser.add_argument("--key", required=True, help="the columns of the primary key, with commas between")
    parser.add_argument("table")
    given = parser.parse_args()
    key = given.key.split(",")
    statement = subscribe_statement(given.table, envelope="upsert", key=key, snapshot=False)
    connection = KafkaConnection(given.bootstrap_servers)
    with (
        suppress(KeyboardInterrupt),
        subscribe(
            statement, connection, app_id=given.app_id, topic_prefix=given.topic_prefix
        ) as subscription,
    ):
        for batch in subscription:
            for changed in sorted(changed_keys(batch, len(key)), key=str):
                print(*changed, flush=True)


if __name__ == "__main__":
    main()
