"""A transaction of a feed that Kafka does not end is given up (docs/protocols/markers.md)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from structlog.testing import capture_logs

from stack.kafka import KafkaBroker
from tests.second_node import second_node
from tests.unit.client.topics import wait_until_known
from tests.unit.worker.markers.publishing import FEED, Held, Publishing, checkpoint, until
from tidegate.client.kafka import transaction
from tidegate.worker.kafka.jobs_follower import JobsFollower
from tidegate.worker.markers import bounded_call, progress_producer
from tidegate.worker.markers.feed_publisher import FeedPublisher
from tidegate.worker.process.machine import RealMachine

pytestmark = pytest.mark.broker


class Impatient(Publishing):
    """A feed whose owner waits for half a second when it lets go of the feed."""

    def __init__(self, broker: KafkaBroker, prefix: str, threads: ThreadPoolExecutor) -> None:
        super().__init__(broker, prefix, threads)
        self.settings = self.settings.model_copy(update={"drain_timeout_ms": 1_000})

    def markers(self) -> Held:
        made = Held(self.topic)
        made.prepared.set()
        return made

    async def until_written(self, wall: int) -> None:
        while wall not in await asyncio.to_thread(self.written):
            pass


class Replicated(Impatient):
    """A feed on a cluster of one node, whose topic takes records only while a second node has it too."""

    def __init__(self, first: KafkaBroker, threads: ThreadPoolExecutor) -> None:
        """All other topics are on the first node, which is alone yet."""
        super().__init__(first, "lacking-", threads)
        self.topic = "replicated"

    def create_topic(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.settings.bootstrap_servers})
        wanted = NewTopic(self.topic, 1, 2, config={"min.insync.replicas": "2"})
        admin.create_topics([wanted])[self.topic].result(30)
        wait_until_known(admin, self.topic)


@pytest.fixture(autouse=True)
def let_nobody_wait_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction, "_CALL_S", 0.5)


@contextmanager
def impatience() -> Iterator[None]:
    """Within this context nobody waits for long. Else a start on a busy machine may take longer."""
    with pytest.MonkeyPatch.context() as impatient:
        impatient.setattr(bounded_call, "PATIENCE_S", 1.0)
        impatient.setattr(progress_producer, "_OPEN_S", 1.0)
        yield


def _given_up(logs: Sequence[Mapping[str, Any]]) -> int:
    return sum(log["event"] == "a feed begins anew" for log in logs)


def _is_persisted(follower: JobsFollower, wall: int) -> bool:
    return follower.view[FEED.feed_id].high_water == checkpoint(wall).resolved[0]


def _waits(publisher: FeedPublisher) -> bool:
    report = publisher.report()
    return report is not None and "min.insync.replicas" in report.markers_wait


@pytest.mark.soak
def test_a_topic_that_lacks_replicas_holds_its_feed_alone_until_it_has_them() -> None:
    with ExitStack() as stack:
        first = stack.enter_context(KafkaBroker())
        publishing = Replicated(first, stack.enter_context(ThreadPoolExecutor(2)))
        second = stack.enter_context(second_node(first))
        publishing.create_topic()

        async def scenario() -> None:
            async with publishing.publisher(publishing.markers()) as (publisher, follower):
                publisher.apply(checkpoint(4))
                await publishing.until_written(4)
                await asyncio.to_thread(second.stop)
                with capture_logs() as logs, impatience():
                    publisher.apply(checkpoint(5))
                    await until(lambda: _waits(publisher))
                    await until(lambda: _given_up(logs) > 1)  # a new producer does not come to an end either
            # Its worker has let go of it, and did not wait for the topic.
            assert _is_persisted(follower, 5)
            async with publishing.publisher(publishing.markers()) as (publisher, _):
                publisher.apply(checkpoint(7))
                await asyncio.to_thread(second.start)
                await publishing.until_written(7)
                assert not _waits(publisher)

        asyncio.run(scenario())
        assert publishing.written() == [4, 5, 7]


class Full(RealMachine):
    """A machine that has no room for a Kafka client until another one is closed."""

    def __init__(self) -> None:
        self.has_room = False

    def producer(self, config: Mapping[str, Any]) -> Producer:
        if not self.has_room:
            raise RuntimeError("Failed to initialize thread local storage")  # confluent-kafka's own
        return super().producer(config)


def test_a_feed_for_which_no_producer_can_be_opened_waits_and_begins_when_there_is_room(
    broker: KafkaBroker, topic_prefix: str
) -> None:
    with ThreadPoolExecutor(2) as threads:
        publishing = Impatient(broker, topic_prefix, threads)
        publishing.machine = full = Full()

        async def scenario() -> None:
            with capture_logs() as logs:
                async with publishing.publisher(publishing.markers()) as (publisher, _):
                    await until(lambda: _given_up(logs) > 0)
                    full.has_room = True
                    await publishing.until_marked(publisher, 4)
            cause = next(log["cause"] for log in logs if log["event"] == "a feed begins anew")
            assert cause.startswith("This process has no room for another Kafka client")

        asyncio.run(scenario())


@pytest.mark.soak  # it freezes a broker for seconds, and what it measures has to have the machine
def test_who_gets_no_answer_begins_anew_as_a_successor_would_and_lets_go_in_time() -> None:
    with KafkaBroker() as broker, ThreadPoolExecutor(2) as threads:
        publishing = Impatient(broker, "frozen-", threads)

        async def scenario() -> None:
            async with publishing.publisher(publishing.markers()) as (publisher, follower):
                publisher.apply(checkpoint(4))
                await publishing.until_written(4)  # no transaction is under way
                broker.pause()
                with capture_logs() as logs, impatience():
                    publisher.apply(checkpoint(5))
                    await until(lambda: _waits(publisher))
                    publisher.apply(checkpoint(7))  # partitions go on, and say so
                    await until(lambda: _given_up(logs) > 1)
                    assert publisher.frontier is None, "feeds that share its spans would not hear of news"
                broker.resume()
                await publishing.until_marked(publisher, 7)  # a late request may have fenced it once more
                await until(lambda: _is_persisted(follower, 7))
                assert not _waits(publisher)
                broker.pause()
                publisher.apply(checkpoint(8))
            broker.resume()

        asyncio.run(scenario())
        assert publishing.written() == sorted(publishing.written())
