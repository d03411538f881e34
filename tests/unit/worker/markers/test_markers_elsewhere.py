"""A feed's publisher whose markers go to another cluster than its progress
(docs/protocols/markers-on-another-cluster.md)."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import replace
from weakref import ref

import pytest
from confluent_kafka import TopicPartition

from stack.kafka import KafkaBroker
from tests.unit.client.topics import create_topic, wait_until_ended
from tests.unit.worker.markers.publishing import FEED, Held, Publishing, checkpoint, markers_on, until
from tidegate.client.kafka import topic_admin, transaction
from tidegate.client.kafka.transaction import GivenUpError, Record
from tidegate.delivery import back_off
from tidegate.delivery.producer_ids import MarkerIds
from tidegate.errors import DeliveryError, RetryError
from tidegate.hlc import Timestamp
from tidegate.worker.kafka.jobs_follower import JobsFollower
from tidegate.worker.kafka.topology import WorkerTopicAdmin
from tidegate.worker.kafka.transaction import WorkerTransactionalProducer
from tidegate.worker.markers import bounded_call
from tidegate.worker.markers.feed_publisher import FeedPublisher
from tidegate.worker.markers.marker_writer import OtherMarkers
from tidegate.worker.output.worker_sinks import SinkCluster, WorkerSinks
from tidegate.worker.process.machine import REAL

pytestmark = [
    pytest.mark.broker,
    pytest.mark.together("another cluster"),
    pytest.mark.usefixtures("others_allowed"),
]


class Elsewhere(Publishing):
    """The same with a sink that is another cluster."""

    def __init__(
        self, broker: KafkaBroker, other: KafkaBroker, prefix: str, threads: ThreadPoolExecutor
    ) -> None:
        super().__init__(broker, prefix, threads)
        self._other = other.bootstrap
        create_topic(other.bootstrap, self.topic)
        sinks = WorkerSinks(self.settings, WorkerTopicAdmin(self.settings), threads)
        self.sink: SinkCluster = sinks.of(replace(FEED.definition, sink_uri=f"kafka://{other.bootstrap}"))
        self.state = replace(self.state, sink_cluster=self.sink.admin.cluster_id())
        self.ids = MarkerIds.of(self.settings.app_id, FEED.feed_id, self.state.sink_cluster)
        self.close = sinks.close

    @asynccontextmanager
    async def owner(self) -> AsyncIterator[tuple[FeedPublisher, JobsFollower]]:
        """A publisher whose markers can be made at once."""
        follower, markers = JobsFollower(self.settings), Held(self.topic)
        markers.prepared.set()
        try:
            async with asyncio.timeout(200):
                await follower.read_to_stable_end()
                publisher = FeedPublisher(
                    self.settings,
                    FEED.definition,
                    self.state,
                    follower,
                    markers,
                    self._threads,
                    REAL,
                    self.sink,
                )
                try:
                    yield publisher, follower
                finally:
                    await asyncio.wait_for(publisher.close(), 100)
        finally:
            await asyncio.to_thread(follower.close)

    def written(self) -> list[int]:
        return markers_on(self._other, self.topic)

    def written_at_last(self) -> list[int]:
        """The same once each transaction that was committed can be read. None may be left open.

        A broker that has just started answers a commit well before it tells the partitions.
        """
        wait_until_ended(self._other, {TopicPartition(self.topic, 0)})
        return self.written()

    def written_at_home(self) -> list[int]:
        return super().written()


@pytest.fixture
def elsewhere(
    broker: KafkaBroker, other_broker: KafkaBroker, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Elsewhere]:
    with ThreadPoolExecutor(2) as threads:
        with monkeypatch.context() as patient:  # both clusters are there
            patient.setattr(topic_admin, "_ENDS_S", 60.0)
            made = Elsewhere(broker, other_broker, topic_prefix, threads)
        with closing(made):
            yield made


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(back_off, "_FIRST_S", 0.01)
    monkeypatch.setattr(transaction, "_CALL_S", 1.0)


def test_the_sink_has_the_publisher_until_that_has_ended(elsewhere: Elsewhere) -> None:
    """It is not closed before (``tidegate.worker.feeds.unused_clients``)."""

    async def scenario() -> None:
        async with elsewhere.owner() as (publisher, _):
            assert elsewhere.sink.publishers == 1
        assert elsewhere.sink.publishers == 0
        await publisher.close()
        assert elsewhere.sink.publishers == 0

    asyncio.run(scenario())


async def _open(writer: OtherMarkers) -> None:
    """Open it as its publisher does: again while the cluster, which may have begun just now, is slow."""
    async with asyncio.timeout(100):
        while not writer.is_open:
            with suppress(RetryError):
                await writer.open()


async def persisted(follower: JobsFollower, wall: int) -> None:
    await until(lambda: follower.view[FEED.feed_id].high_water == Timestamp(wall))


def test_progress_stays_at_home_and_markers_go_to_the_sink(elsewhere: Elsewhere) -> None:
    async def main() -> None:
        async with elsewhere.owner() as (publisher, follower):
            for wall in (10, 20):
                publisher.apply(checkpoint(wall))
                await persisted(follower, wall)
                await until(lambda: elsewhere.written()[-1:] == [wall])  # noqa: B023

    asyncio.run(main())
    assert (elsewhere.written(), elsewhere.written_at_home()) == ([10, 20], [])


def test_a_sink_that_is_away_holds_back_its_markers_and_nothing_else(
    elsewhere: Elsewhere, other_broker: KafkaBroker
) -> None:
    async def away() -> None:
        async with elsewhere.owner() as (publisher, follower):
            publisher.apply(checkpoint(10))
            await until(lambda: elsewhere.written() == [10])
            await asyncio.to_thread(other_broker.stop)
            for wall in (20, 30, 40):
                publisher.apply(checkpoint(wall))
                await persisted(follower, wall)
        # and it lets go of the feed though a marker has no answer, which the context times

    async def back() -> None:
        async with elsewhere.owner() as (publisher, follower):
            publisher.apply(checkpoint(50))
            await persisted(follower, 50)
            await asyncio.to_thread(other_broker.start)
            await until(lambda: elsewhere.written()[-1:] == [50])

    try:
        asyncio.run(away())
        asyncio.run(back())
    finally:
        other_broker.start()
    assert elsewhere.written_at_last() == [10, 40, 50], "what a former owner may not have written comes first"


def test_a_marker_that_the_sink_refuses_is_written_by_a_new_producer(elsewhere: Elsewhere) -> None:
    """Such as one whose transaction was open for so long that Kafka gave it up."""

    async def main() -> None:
        async with elsewhere.owner() as (publisher, _):
            publisher.apply(checkpoint(10))
            await until(lambda: elsewhere.written() == [10])
            usurper = WorkerTransactionalProducer(elsewhere.sink.settings, elsewhere.ids.present)
            await asyncio.to_thread(usurper.open)  # the publisher's producer there is fenced
            publisher.apply(checkpoint(20))
            await until(lambda: elsewhere.written() == [10, 20])
            await asyncio.to_thread(usurper.close)

    asyncio.run(main())


def test_a_feed_that_is_let_go_of_while_its_marker_waits_keeps_no_client(
    elsewhere: Elsewhere, other_broker: KafkaBroker
) -> None:
    """A record that is not reported holds on to librdkafka's client, and to its threads and connections."""

    async def main() -> ref[WorkerTransactionalProducer]:
        writer = OtherMarkers(elsewhere.sink, elsewhere.ids, REAL, elsewhere.state)
        await _open(writer)
        assert writer._producer is not None
        producer = ref(writer._producer)
        await asyncio.to_thread(other_broker.stop)
        waits = asyncio.create_task(writer.write([Record(elsewhere.topic, 0, None, b"10")]))
        await until(lambda: writer._producer is not None and writer._producer.is_amid)
        writer.give_up()
        with suppress(GivenUpError):
            await waits
        await writer.close()
        return producer

    try:
        left = asyncio.run(main())
    finally:
        other_broker.start()
    gc.collect()
    assert left() is None


def test_a_marker_that_has_no_answer_gives_its_thread_back_and_is_written_again(
    elsewhere: Elsewhere, other_broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other feeds of the sink wait for the thread, though their topics may take markers."""

    async def main() -> None:
        writer = OtherMarkers(elsewhere.sink, elsewhere.ids, REAL, elsewhere.state)
        await _open(writer)
        await asyncio.to_thread(other_broker.stop)
        with monkeypatch.context() as impatient:
            impatient.setattr(bounded_call, "PATIENCE_S", 0.5)
            with pytest.raises(RetryError, match=r"in time; they are written again"):
                await writer.write([Record(elsewhere.topic, 0, None, b"10")])
        assert not writer.is_open
        await asyncio.to_thread(other_broker.start)
        await _open(writer)
        await writer.write([Record(elsewhere.topic, 0, None, b"20")])
        await writer.close()

    try:
        asyncio.run(main())
    finally:
        other_broker.start()
    assert elsewhere.written_at_last() == [20]


def test_an_owner_of_a_version_before_writes_no_marker_behind_its_successor(elsewhere: Elsewhere) -> None:
    """It has persisted the progress that its marker tells, and wrote by an id without the cluster's."""
    former = WorkerTransactionalProducer(elsewhere.sink.settings, elsewhere.ids.former)
    former.open()

    async def main() -> None:
        async with elsewhere.owner() as (publisher, _):
            publisher.apply(checkpoint(20))
            await until(lambda: elsewhere.written() == [20])

    asyncio.run(main())
    with pytest.raises(DeliveryError):
        former.commit([Record(elsewhere.topic, 0, None, b"10")])
    assert elsewhere.written() == [20], "no marker falls"


def test_an_owner_that_was_overtaken_and_opens_last_begins_anew_before_it_writes_a_marker(
    elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the sink the last to open is not fenced. So it has to prove that it is not fenced at home."""
    elsewhere.persisted(10)
    open_writer, sleeps = OtherMarkers.open, asyncio.Event()

    async def late(self: OtherMarkers) -> None:
        if not sleeps.is_set():
            sleeps.set()
            await awake.wait()
        await open_writer(self)

    monkeypatch.setattr(OtherMarkers, "open", late)
    awake = asyncio.Event()

    async def main() -> None:
        async with elsewhere.owner():
            await sleeps.wait()
            async with elsewhere.owner() as (successor, _):
                successor.apply(checkpoint(20))
                await until(lambda: elsewhere.written() == [10, 20])
                awake.set()
                await until(lambda: len(elsewhere.written()) > 2)

    asyncio.run(main())
    assert elsewhere.written()[:3] == [10, 20, 20], "no marker falls"
