"""A client tells several threads the state of its cluster at one moment."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tidegate.client.kafka.cluster_watch import ClusterWatch
from tidegate.errors import SinkHeld

_LOGGER = logging.getLogger("test")
_WAITS_S = 0.1  # a thread that has not come through by then waits for a lock


class Client:
    """One of librdkafka, whose address means the cluster ``now``. It tells of another one with a poll."""

    def __init__(self) -> None:
        self.now = self._known = "away"
        self._lines = 0
        self.watch: ClusterWatch
        self.before_line: Callable[[], None] = lambda: None

    def list_topics(self, topic: str, timeout: float) -> Any:
        self._lines += self.now != self._known
        self._known = self.now
        return SimpleNamespace(cluster_id=self.now)

    def poll(self, timeout: float) -> int:
        while self._lines:
            self._lines -= 1
            self.before_line()
            self.watch.log(30, "%s [%s] %s", "CLUSTERID", "client", "another ClusterId")
        return 0


class Interrupted(ClusterWatch):
    """One whose reader is interrupted each time before it reads the id."""

    before_id: Callable[[], None] = staticmethod(lambda: None)
    _id = ""

    @property
    def cluster_id(self) -> str:
        """See ``ClusterWatch``."""
        self.before_id()
        return self._id

    @cluster_id.setter
    def cluster_id(self, found: str) -> None:
        self._id = found


def _found(watch: ClusterWatch, client: Client) -> str:
    return watch.only_cluster(client, "topic", 1.0, "client")


def _meanwhile(call: Callable[[], object]) -> threading.Thread:
    """Another thread does that, as far as it comes while this one stands still."""
    thread = threading.Thread(target=call)
    thread.start()
    thread.join(_WAITS_S)
    return thread


def test_the_id_is_that_of_the_cluster_that_was_the_only_one_until_then() -> None:
    """Not of one that another thread hears of between the decision and the answer."""
    client, watch = Client(), Interrupted(_LOGGER)
    client.watch = watch
    threads: list[threading.Thread] = []

    def asked_by_another_thread() -> None:
        watch.before_id = lambda: None
        client.now = "home"
        threads.append(_meanwhile(lambda: watch.ask(client, "topic", 1.0)))

    watch.before_id = asked_by_another_thread
    assert _found(watch, client) == "away"
    for thread in threads:
        thread.join()
    for _ in range(2):
        with pytest.raises(SinkHeld):
            _found(watch, client)


def test_a_line_that_another_thread_has_taken_and_not_told_yet_is_waited_for() -> None:
    client, watch = Client(), ClusterWatch(_LOGGER)
    client.watch = watch
    assert _found(watch, client) == "away"
    told: list[object] = []
    threads: list[threading.Thread] = []

    def asks() -> None:
        try:
            told.append(_found(watch, client))
        except SinkHeld as error:
            told.append(type(error))

    def asked_by_another_thread() -> None:
        client.before_line = lambda: None
        threads.append(_meanwhile(asks))

    client.now, client.before_line = "home", asked_by_another_thread
    watch._last = ""  # only the line tells of it
    with pytest.raises(SinkHeld):
        _found(watch, client)
    for thread in threads:
        thread.join()
    assert told == [SinkHeld]
