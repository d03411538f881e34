"""Standby copies: what goes wrong with one of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tidegate.client.kafka.topics import Topics
from tidegate.worker.log_partition.standby import Standby
from tidegate.worker.process.settings import Settings


class Copy:
    """A copy that knows whether it is open."""

    def __init__(self) -> None:
        self.is_open = True

    def close(self) -> None:
        self.is_open = False


class Looked:
    """A worker whose standby opens copies, and whose consumers cannot be made."""

    def __init__(self, partitions: int) -> None:
        self._topics = Topics.of(Settings(bootstrap_servers="127.0.0.1:9", app_id="a"))
        self._partitions = partitions
        self.opened: dict[int, Copy] = {}
        self.has_looked = threading.Event()

    def open_store(self, path: Path) -> Any:
        """Open a store. After the last partition the thread of the standby ends."""
        if len(self.opened) == self._partitions:
            self.has_looked.set()
            raise SystemExit
        copy = self.opened[int(path.name)] = Copy()
        return copy

    def consumer(self, config: Any) -> Any:
        raise RuntimeError("too many open files")

    def background(self, work: Callable[[], None], name: str) -> None:
        threading.Thread(target=work, name=name, daemon=True).start()

    def start(self) -> None:
        topic_ids = dict.fromkeys(self._topics.changelogs().values(), "id")
        runtime: Any = SimpleNamespace(
            topology=SimpleNamespace(partitions=self._partitions, topic_ids=topic_ids),
            topics=self._topics,
            directory=SimpleNamespace(partition=lambda partition: Path(str(partition))),
            machine=self,
        )
        settings = Settings(bootstrap_servers="127.0.0.1:9", app_id="a", standby_refresh_ms=1)
        Standby(settings, runtime, self.open_store, lambda _: False)


@pytest.fixture
def looked() -> Looked:
    return Looked(2)


def test_an_error_that_nobody_foresaw_closes_its_copy_and_leaves_the_others(looked: Looked) -> None:
    looked.start()
    assert looked.has_looked.wait(20)
    assert set(looked.opened) == {0, 1}
    assert not any(copy.is_open for copy in looked.opened.values())
