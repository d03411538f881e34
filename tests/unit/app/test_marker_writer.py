"""Markers on another cluster count what only the feed's own cluster has said: steps M2c and R7."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from app.marker_writer import OtherMarkers
from app.settings import Settings
from tests.feeds import activation
from tests.hand_log import HandTable
from tidegate.changefeed.feed import FeedState
from tidegate.changefeed.job_records import StateRecord
from tidegate.client.transaction import Record
from tidegate.errors import RecordRefused, SinkHeld

_FEED = activation([HandTable.of(104, "plain").descriptor])
_STATE = StateRecord(
    _FEED.feed_id,
    _FEED.definition.epoch,
    FeedState.RUNNING,
    _FEED.start,
    _FEED.targets,
    sink_cluster="home",
)
_MARKER = [Record("topic", 0, None, b"marker")]


class Client:
    """librdkafka's producer, over whatever cluster is at the address of ``world``: none has the topic.

    It tells of another cluster with the next poll.
    """

    def __init__(self, world: World, logger: Any) -> None:
        self._world, self._logger = world, logger
        self._known = ""
        self._lines = 0
        self._reports: list[Callable[[], None]] = []

    def init_transactions(self, timeout: float) -> None:
        self._hear()

    begin_transaction = abort_transaction = lambda self, timeout=0.0: None

    def produce(self, topic: str, value: bytes, key: bytes, partition: int, delivered: Any, *_: Any) -> None:
        self._hear()
        message = SimpleNamespace(topic=lambda: topic, partition=lambda: partition)
        gone = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
        self._reports.append(lambda: delivered(gone, message))
        self._world.after_produce()

    def flush(self, timeout: float) -> int:
        while self._reports:
            self._reports.pop(0)()
        return 0

    def list_topics(self, topic: str, timeout: float) -> Any:
        self._hear()
        return SimpleNamespace(cluster_id=self._world.now)

    def poll(self, timeout: float) -> int:
        for _ in range(self._lines):
            self._logger.log(30, "%s [%s] %s", "CLUSTERID", "producer", "another ClusterId")
        self._lines = 0
        return 0

    def _hear(self) -> None:
        self._lines += self._known not in ("", self._world.now)
        self._known = self._world.now


class World:
    """The cluster at the sink's address; stands where ``app.machine`` and ``app.sinks.SinkCluster`` do."""

    servers = "sink:9092"
    settings = Settings()

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self.now = "home"
        self.threads = threads
        self.clients = 0
        self.after_produce: Callable[[], None] = lambda: None
        self.admin = SimpleNamespace(cluster_id=lambda: self.now)

    def producer(self, config: Mapping[str, Any]) -> Client:
        self.clients += 1
        return Client(self, config["logger"])


def _writer(world: Any) -> OtherMarkers:
    return OtherMarkers(world, "app-feed-a", world, _STATE)


async def _write(writer: OtherMarkers) -> None:
    if not writer.is_open:
        await writer.open()
    await writer.write(_MARKER)


def test_a_marker_that_its_own_cluster_refuses_is_refused() -> None:
    with ThreadPoolExecutor(1) as threads, pytest.raises(RecordRefused):
        asyncio.run(_write(_writer(World(threads))))


def test_a_marker_that_another_cluster_has_refused_is_asked_again_though_that_is_gone_by_then() -> None:
    async def scenario(world: World) -> None:
        writer = _writer(world)
        await writer.open()
        world.now, world.after_produce = "away", lambda: setattr(world, "now", "home")
        with pytest.raises(SinkHeld):
            await writer.write(_MARKER)
        assert not writer.is_open
        with pytest.raises(RecordRefused):
            await _write(writer)
        assert world.clients == 2

    with ThreadPoolExecutor(1) as threads:
        asyncio.run(scenario(World(threads)))


def test_a_marker_that_another_cluster_refuses_holds_the_feed() -> None:
    async def scenario(world: World) -> None:
        writer = _writer(world)
        await writer.open()
        world.now = "away"
        with pytest.raises(SinkHeld):
            await writer.write(_MARKER)
        with pytest.raises(SinkHeld, match="its topics are on the Kafka cluster home"):
            await writer.open()

    with ThreadPoolExecutor(1) as threads:
        asyncio.run(scenario(World(threads)))
