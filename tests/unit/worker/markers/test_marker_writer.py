"""Markers on another cluster count what only the feed's own cluster has said: steps M2c and R7."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from threading import Event
from types import SimpleNamespace
from typing import Any
from weakref import ref

import pytest
from confluent_kafka import KafkaError

from tests.feeds import activation
from tests.hand_log import HandTable
from tests.unit.client.kafka.seen_producer import Seen
from tidegate.changefeed.definition.feed import FeedState
from tidegate.changefeed.lifecycle.job_records import StateRecord
from tidegate.client.kafka import transaction
from tidegate.client.kafka.transaction import GivenUpError, Record
from tidegate.delivery.producer_ids import MarkerIds
from tidegate.errors import RecordRefused, RetryError, SinkHeld
from tidegate.worker.markers import bounded_call
from tidegate.worker.markers.marker_writer import OtherMarkers
from tidegate.worker.process.settings import Settings

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
_IDS = MarkerIds.of("app", _FEED.feed_id, "home")


class Client:
    """librdkafka's producer, over whatever cluster is at the address of ``world``: none has the topic.

    It tells of another cluster with the next poll.
    """

    def __init__(self, world: World, transactional_id: str, logger: Any) -> None:
        self._world, self._logger = world, logger
        self._id = transactional_id
        self._known = ""
        self._lines = 0
        self._reports: list[Callable[[], None]] = []

    def init_transactions(self, timeout: float) -> None:
        self._hear()
        self._world.opened.append((self._id, self._world.now))
        self._world.after_open()

    def close(self) -> None:
        self._world.closed += 1

    def purge(self) -> None:
        self._world.purged += 1

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
        self._world.asked.append(self._id)
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
    """The cluster at the sink's address; stands where ``tidegate.worker.process.machine`` and
    ``tidegate.worker.output.worker_sinks.SinkCluster`` do."""

    servers = "sink:9092"
    settings = Settings()

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self.now = "home"
        self.threads = threads
        self.opened: list[tuple[str, str]] = []
        self.asked: list[str] = []
        self.closed = 0
        self.purged = 0
        self.after_open: Callable[[], None] = lambda: None
        self.after_produce: Callable[[], None] = lambda: None
        self.admin = SimpleNamespace(only_cluster=lambda _: self.now)

    def producer(self, config: Mapping[str, Any]) -> Client:
        return Client(self, config["transactional.id"], config["logger"])


def _writer(world: Any) -> OtherMarkers:
    return OtherMarkers(world, _IDS, world, _STATE)


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
        assert world.opened == [(_IDS.former, "home"), (_IDS.present, "home"), (_IDS.present, "home")]

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


def test_a_producer_that_has_met_another_cluster_is_let_go_of_and_what_waits_in_it_is_purged() -> None:
    """A record that is not reported holds on to librdkafka's client, and to its threads and connections."""

    async def scenario(world: World) -> None:
        writer = _writer(world)
        await writer.open()
        world.after_produce = lambda: setattr(world, "now", "away")
        with pytest.raises(SinkHeld):
            await writer.write(_MARKER)
        assert (world.purged, world.closed) == (1, 1), "that of the id of before is closed"
        world.now = "home"
        await writer.open()
        world.now = "away"
        with pytest.raises(SinkHeld):
            await writer.check()
        assert (world.purged, world.closed, writer.is_open) == (1, 2, False)

    with ThreadPoolExecutor(1) as threads:
        asyncio.run(scenario(World(threads)))


def test_writers_with_the_id_of_before_are_shut_out_on_the_feeds_own_cluster() -> None:
    """And that counts only where the cluster was there before and behind; then it is not done again."""

    async def scenario(world: World) -> None:
        writer = _writer(world)
        world.after_open = lambda: setattr(world, "now", "away")
        with pytest.raises(SinkHeld):
            await writer.open()
        assert world.opened == [(_IDS.former, "home")]
        world.now, world.after_open = "home", lambda: None
        for _ in range(2):
            await writer.open()
        assert world.opened[1:] == [(_IDS.former, "home"), (_IDS.present, "home"), (_IDS.present, "home")]
        assert world.closed == 2, "that of another cluster, and that of the id of before"

    with ThreadPoolExecutor(1) as threads:
        asyncio.run(scenario(World(threads)))


def test_who_gives_up_amid_the_fence_of_the_id_of_before_opens_nothing_more() -> None:
    async def scenario(world: World) -> None:
        writer = _writer(world)
        world.after_open = writer.give_up
        with pytest.raises(GivenUpError):
            await writer.open()
        assert world.opened == [(_IDS.former, "home")]

    with ThreadPoolExecutor(1) as threads:
        asyncio.run(scenario(World(threads)))


class Silent(World):
    """A cluster that accepts connections and never answers."""

    def __init__(self, threads: ThreadPoolExecutor, address: str) -> None:
        super().__init__(threads)
        self.settings = Settings(bootstrap_servers=address)
        self.clients: list[ref[Seen]] = []

    def producer(self, config: Mapping[str, Any]) -> Any:
        client = Seen(config)
        self.clients.append(ref(client))
        return client


def test_an_opening_that_has_no_answer_in_time_leaves_no_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its client would repeat its request when the cluster is back, and fence later writers of the feed."""
    monkeypatch.setattr(bounded_call, "PATIENCE_S", 0.2)
    monkeypatch.setattr(transaction, "_CALL_S", 0.1)

    async def scenario(world: Any) -> pytest.ExceptionInfo[RetryError]:
        writer = OtherMarkers(world, _IDS, world, replace(_STATE, sink_cluster=""))
        with pytest.raises(RetryError, match="in time") as kept:
            await writer.open()
        return kept

    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with ThreadPoolExecutor(1) as threads:
            world = Silent(threads, f"127.0.0.1:{silent.getsockname()[1]}")
            kept = asyncio.run(scenario(world))
        assert [client() for client in world.clients] == [None]
    assert kept.traceback


@asynccontextmanager
async def _busy(world: World) -> AsyncIterator[None]:
    """The thread of the sink waits meanwhile, for the answer to another feed's question."""
    answered = Event()
    world.threads.submit(answered.wait)
    try:
        yield
    finally:
        answered.set()


def test_what_still_waits_for_a_thread_when_it_is_given_up_asks_nothing() -> None:
    """A cluster that is away has each question wait for 5 s, and many feeds share few threads."""

    async def scenario(world: World) -> None:
        writer = _writer(world)
        async with _busy(world):
            opening = asyncio.create_task(writer.open())
            await asyncio.sleep(0)
            writer.give_up()
        with pytest.raises(GivenUpError):
            await opening
        assert (world.asked, world.opened) == ([], [])

    with ThreadPoolExecutor(1) as threads:
        asyncio.run(scenario(World(threads)))


def test_a_producer_whose_marker_still_waits_for_a_thread_when_it_is_given_up_is_closed() -> None:
    async def scenario(world: World) -> None:
        writer = _writer(world)
        await writer.open()
        async with _busy(world):
            writing = asyncio.create_task(writer.write(_MARKER))
            await asyncio.sleep(0)
            writer.give_up()
        with pytest.raises(GivenUpError):
            await writing
        await writer.close()
        assert (world.purged, world.closed) == (0, 2), "that of the id of before is the other one"

    with ThreadPoolExecutor(1) as threads:
        asyncio.run(scenario(World(threads)))
