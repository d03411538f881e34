"""A cache whose rows are dropped when they change, also while they are being loaded."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from examples.cache_invalidation import Key, RowCache, invalidate
from stack.kafka import KafkaBroker
from tests.unit.client.subscribe.hand_feed import HandFeed
from tidegate.hlc import Timestamp


def row(key: int, balance: int) -> dict[str, Any]:
    return {"id": key, "balance": balance, "note": ""}


def test_a_row_is_loaded_once_until_it_changes() -> None:
    store: dict[Key, str] = {(1,): "old"}
    cache = RowCache(store.get)
    assert [cache.get((1,)), cache.get((1,)), cache.hits] == ["old", "old", 1]
    store[1,] = "new"
    cache.drop([(1,), (2,)])
    assert (cache.get((1,)), cache.dropped) == ("new", 1)


def test_what_was_loaded_before_its_key_was_dropped_is_not_kept() -> None:
    loading, changed = threading.Event(), threading.Event()
    store = {(1,): "old"}

    def load(key: Key) -> Any:
        value = store[key]
        loading.set()
        assert changed.wait(30)
        return value

    cache = RowCache(load)
    found: list[Any] = []
    reader = threading.Thread(target=lambda: found.append(cache.get((1,))))
    reader.start()
    assert loading.wait(30)
    store[1,] = "new"
    cache.drop([(1,)])
    changed.set()
    reader.join()
    assert found == ["old"]  # it began before the change
    assert cache.get((1,)) == "new"


def test_a_load_that_fails_leaves_nothing() -> None:
    store: dict[Key, str] = {}
    cache = RowCache(store.__getitem__)
    for _ in range(2):
        with pytest.raises(KeyError):
            cache.get((1,))
    assert cache.hits == 0


@pytest.mark.broker
def test_keys_that_change_are_dropped(broker: KafkaBroker, topic_prefix: str) -> None:
    feed = HandFeed(broker.bootstrap, topic_prefix)
    store: dict[Key, int | None] = {(1,): 10, (2,): 20, (3,): 30}
    feed.write(0, 5, 1, row(1, 10))
    feed.mark(7)
    rows: dict[Key, Any] = {}
    cache = RowCache(store.get, rows)
    known = {"app_id": feed.app_id, "topic_prefix": feed.prefix}
    dropping = threading.Thread(
        target=lambda: invalidate(cache, "accounts", ["id"], feed.connection, 1, Timestamp(7), **known)
    )
    for key in store:
        cache.get(key)
    store[1,], store[2,] = 11, None
    feed.write(0, 8, 1, row(1, 11), row(1, 10))
    feed.write(1, 9, 2, None, row(2, 20))
    feed.mark(9)
    dropping.start()
    dropping.join(60)
    assert rows == {(3,): 30}
    assert [cache.get((1,)), cache.get((2,))] == [11, None]
