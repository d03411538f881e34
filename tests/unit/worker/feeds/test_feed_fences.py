"""Whoever wrote a feed's progress and markers writes no more once its end is fenced (steps E2 and E5)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from stack.kafka import KafkaBroker
from tests.feeds import activation
from tests.hand_log import HandTable
from tests.unit.client.topics import create_topic
from tidegate.changefeed.definition.feed import FeedId
from tidegate.client.kafka import topic_admin, transaction
from tidegate.client.kafka.transaction import Record
from tidegate.delivery.producer_ids import MarkerIds
from tidegate.errors import DeliveryError, RetryError, SinkHeld
from tidegate.worker.feeds import feed_fences
from tidegate.worker.feeds.feed_fences import FeedFences
from tidegate.worker.kafka.topology import WorkerTopicAdmin
from tidegate.worker.kafka.transaction import WorkerTransactionalProducer
from tidegate.worker.output.worker_sinks import SinkCluster, WorkerSinks
from tidegate.worker.process.machine import REAL
from tidegate.worker.process.settings import Settings

pytestmark = [
    pytest.mark.broker,
    pytest.mark.together("another cluster"),
    pytest.mark.usefixtures("others_allowed"),
]

_FEED = FeedId("feed")


class Ending:
    """A jobs agent's fences on one cluster, and a sink on another."""

    def __init__(self, home: KafkaBroker, other: str, prefix: str, threads: ThreadPoolExecutor) -> None:
        self.settings = Settings(bootstrap_servers=home.bootstrap, app_id=f"{prefix}app", topic_prefix=prefix)
        self.topic = f"{prefix}out"
        self.sinks = WorkerSinks(self.settings, WorkerTopicAdmin(self.settings), threads)
        self.sink = self.sinks.of(
            activation([HandTable.of(104, "plain").descriptor], sink_uri=f"kafka://{other}").definition
        )
        runtime = SimpleNamespace(sinks=self.sinks, publisher_threads=threads, machine=REAL)
        shell: Any = SimpleNamespace(settings=self.settings, runtime=runtime)
        self.fences = FeedFences(shell)
        self.close = self.sinks.close

    async def shut_out(self, cluster_id: str) -> None:
        """Step E5, for topics on the cluster with this id."""
        await self.fences.shut_out(_FEED, self.sink, self.topic, cluster_id)

    def writer(self, cluster: SinkCluster, cluster_id: str = "") -> Callable[[], None]:
        """An owner's producer on a cluster; each call commits a record.

        ``cluster_id`` is in the transactional id of markers elsewhere; versions before had none there.
        """
        if cluster.admin.partitions(self.topic) is None:
            create_topic(cluster.servers, self.topic)
        former, present = MarkerIds.of(self.settings.app_id, _FEED, cluster_id)
        producer = WorkerTransactionalProducer(cluster.settings, present if cluster_id else former)
        producer.open()

        def write() -> None:
            producer.commit([Record(self.topic, 0, None, b"marker")])

        write()
        return write


@pytest.fixture
def ending(broker: KafkaBroker, other_broker: KafkaBroker, topic_prefix: str) -> Iterator[Ending]:
    with (
        ThreadPoolExecutor(2) as threads,
        closing(Ending(broker, other_broker.bootstrap, topic_prefix, threads)) as made,
    ):
        yield made


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a cluster that is there asked until it answers: it may have begun just now."""
    monkeypatch.setattr(topic_admin, "_ENDS_S", 60.0)


def _run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 60))


def _run_again(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run it as the jobs agent does: again while a cluster is slow, which did nothing then."""

    async def done() -> None:
        while True:
            try:
                return await work()
            except SinkHeld:
                raise
            except RetryError:
                pass

    _run(done())


def test_an_owner_that_sleeps_through_the_end_of_its_feed_writes_nothing_when_it_wakes(
    ending: Ending,
) -> None:
    write = ending.writer(ending.sinks.own)
    _run_again(lambda: ending.fences.end(_FEED))
    with pytest.raises(DeliveryError):
        write()
    assert not ending.fences.is_shut_out(_FEED)  # that is for whoever wants its topics to ask


def test_topics_on_another_cluster_are_free_once_nobody_can_write_markers_there(ending: Ending) -> None:
    cluster_id = ending.sink.admin.cluster_id()
    home, there = ending.writer(ending.sinks.own), ending.writer(ending.sink, cluster_id)
    of_before = ending.writer(ending.sink)
    _run_again(lambda: ending.shut_out(cluster_id))
    assert ending.fences.is_shut_out(_FEED)
    for write in (home, there, of_before):
        with pytest.raises(DeliveryError):
            write()


def test_a_fence_on_another_cluster_that_is_at_the_sinks_address_frees_no_topics(ending: Ending) -> None:
    there = ending.writer(ending.sink, "an-id")
    with pytest.raises(SinkHeld, match="are on the Kafka cluster an-id, and at"):
        _run_again(lambda: ending.shut_out("an-id"))
    assert not ending.fences.is_shut_out(_FEED)
    there()  # it was not fenced


def test_topics_on_a_cluster_that_does_not_answer_stay_their_former_owners(
    broker: KafkaBroker, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as nobody, ThreadPoolExecutor(2) as threads:
        nobody.bind(("127.0.0.1", 0))
        away = f"127.0.0.1:{nobody.getsockname()[1]}"
        with closing(Ending(broker, away, topic_prefix, threads)) as ending:
            _run_again(lambda: ending.fences.end(_FEED))
            monkeypatch.setattr(feed_fences, "_FENCE_S", 0.3)
            monkeypatch.setattr(transaction, "_CALL_S", 0.3)
            with pytest.raises(RetryError, match=f"{away} did not answer"):
                _run(ending.shut_out("an-id"))
            assert not ending.fences.is_shut_out(_FEED)


def test_who_finds_no_thread_of_the_sink_waits_no_longer_than_for_the_cluster(
    ending: Ending, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other feeds, whose markers wait for the cluster, have all of them, maybe for days."""
    cluster_id, answered = ending.sink.admin.cluster_id(), Event()
    _run_again(lambda: ending.fences.end(_FEED))
    for _ in range(ending.settings.commit_threads):
        ending.sink.threads.submit(answered.wait)
    try:
        with monkeypatch.context() as impatient:
            impatient.setattr(feed_fences, "_FENCE_S", 0.3)
            with pytest.raises(RetryError, match="did not answer within"):
                _run(ending.shut_out(cluster_id))
    finally:
        answered.set()
    assert not ending.fences.is_shut_out(_FEED)
    _run_again(lambda: ending.shut_out(cluster_id))
    assert ending.fences.is_shut_out(_FEED)


def test_each_of_the_ids_is_waited_for_so_long(ending: Ending, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a cluster that needs more than half of that for each would never free the topics."""
    monkeypatch.setattr(feed_fences, "_FENCE_S", 600.0)
    monkeypatch.setattr(transaction, "_CALL_S", 60.0)
    cluster_id, open_fence = ending.sink.admin.cluster_id(), WorkerTransactionalProducer.open
    waited_s: list[float] = []

    async def shut_out() -> None:
        loop = asyncio.get_running_loop()
        now = loop.time

        def open_slowly(self: WorkerTransactionalProducer) -> None:
            open_fence(self)
            waited_s.append(0.6 * 600.0)  # by the loop's clock
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result(60)  # it looks who waits too long

        monkeypatch.setattr(loop, "time", lambda: now() + sum(waited_s))
        monkeypatch.setattr(WorkerTransactionalProducer, "open", open_slowly)
        await ending.shut_out(cluster_id)

    asyncio.run(shut_out())
    assert len(waited_s) == 3
    assert ending.fences.is_shut_out(_FEED)


def test_owners_at_home_that_cannot_be_fenced_now_are_fenced_later(
    broker: KafkaBroker, other_broker: KafkaBroker, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Feeds whose topics lack replicas in sync may have all threads."""
    answered = Event()
    with (
        ThreadPoolExecutor(1) as threads,
        closing(Ending(broker, other_broker.bootstrap, topic_prefix, threads)) as ending,
    ):
        write = ending.writer(ending.sinks.own)
        threads.submit(answered.wait)
        try:
            with monkeypatch.context() as impatient:
                impatient.setattr(feed_fences, "_FENCE_S", 0.3)
                with pytest.raises(RetryError, match="did not answer within"):
                    _run(ending.fences.end(_FEED))
            write()
        finally:
            answered.set()
        _run_again(lambda: ending.fences.end(_FEED))
        with pytest.raises(DeliveryError):
            write()


def test_a_fence_at_home_that_gets_no_answer_is_given_up(
    other_broker: KafkaBroker, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as while a transaction of the feed cannot end."""
    monkeypatch.setattr(transaction, "_CALL_S", 0.3)
    with (
        KafkaBroker() as home,
        ThreadPoolExecutor(1) as threads,
        closing(Ending(home, other_broker.bootstrap, topic_prefix, threads)) as ending,
    ):
        write = ending.writer(ending.sinks.own)
        home.pause()
        with monkeypatch.context() as impatient:
            impatient.setattr(feed_fences, "_FENCE_S", 0.5)
            with pytest.raises(RetryError, match="earlier owners of feed feed are not shut out"):
                _run(ending.fences.end(_FEED))
        home.resume()
        assert threads.submit(int).result(100) == 0, "the thread is free again"
        _run_again(lambda: ending.fences.end(_FEED))
        with pytest.raises(DeliveryError):
            write()
