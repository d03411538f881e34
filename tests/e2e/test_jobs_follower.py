"""The jobs topic as its followers see it while somebody else's transaction is open."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from faust.types import TP

from agents.frontier import FrontierPartition
from stack.kafka import KafkaBroker
from tests.feeds import activation
from tests.hand_log import HandTable
from tidegate.changefeed.definition.feed import FIRST_EPOCH, FeedDefinition, FeedId, FeedState, FeedTarget
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.lifecycle.job_records import DefinitionRecord, JobRecord, ProgressRecord, StateRecord
from tidegate.client.kafka.topics import Topics
from tidegate.client.kafka.transaction import Record
from tidegate.hlc import ResolvedTimestamp, Timestamp
from tidegate.worker.kafka.jobs_follower import JobsFollower
from tidegate.worker.kafka.topology import WorkerTopicAdmin
from tidegate.worker.kafka.transaction import WorkerTransactionalProducer
from tidegate.worker.operations.report import FeedReport
from tidegate.worker.output.worker_sinks import WorkerSinks
from tidegate.worker.process.ending import leaving_by
from tidegate.worker.process.machine import REAL
from tidegate.worker.process.settings import Settings

pytestmark = pytest.mark.broker

_TABLE = HandTable.of(104, "plain")


class Jobs:
    """The jobs topic of an application without workers, and what its writers leave there."""

    def __init__(self, broker: KafkaBroker, prefix: str) -> None:
        self.settings = Settings(
            bootstrap_servers=broker.bootstrap,
            app_id=f"{prefix}app",
            topic_prefix=prefix,
            checkpoint_partitions=1,
        )
        self.topic = Topics.of(self.settings).jobs
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic(self.topic, 1, 1)])[self.topic].result(30)

    def commit(self, writer: str, *records: JobRecord) -> None:
        """Commit the records as ``writer``, which then leaves."""
        producer = WorkerTransactionalProducer(self.settings, f"{self.settings.app_id}-{writer}")
        producer.open()
        producer.commit([Record(self.topic, 0, record.key, record.to_bytes()) for record in records])
        producer.close()

    def die_while_writing(self, writer: str, record: JobRecord) -> Producer:
        """Write the record as ``writer`` in a transaction that stays open; keep the producer till the end."""
        producer = Producer(
            {
                "bootstrap.servers": self.settings.bootstrap_servers,
                "transactional.id": f"{self.settings.app_id}-{writer}",
                "transaction.timeout.ms": 300_000,
            }
        )
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(self.topic, record.to_bytes(), record.key)
        assert producer.flush(30) == 0
        return producer


@pytest.fixture
def jobs(broker: KafkaBroker, topic_prefix: str) -> Jobs:
    """An empty jobs topic."""
    return Jobs(broker, topic_prefix)


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    """Give the threads in which producers wait for the broker."""
    with ThreadPoolExecutor(4) as pool:
        yield pool


def feed(jobs: Jobs, feed_id: str) -> tuple[FeedDefinition, StateRecord]:
    """A running feed without markers, so that only the jobs topic is written."""
    options = FeedOptions(topic_prefix=jobs.settings.topic_prefix)
    active = activation([_TABLE.descriptor], options, feed_id=feed_id)
    table = active.definition.tables[0]
    target = FeedTarget(table, 104, f"{jobs.topic}-{feed_id}", 1, (_TABLE.span,))
    state = StateRecord(FeedId(feed_id), FIRST_EPOCH, FeedState.RUNNING, Timestamp(1), (target,))
    return active.definition, state


def progress(feed_id: str, wall: int) -> ProgressRecord:
    """The feed is at ``wall``."""
    return ProgressRecord(FeedId(feed_id), FIRST_EPOCH, ResolvedTimestamp(Timestamp(wall)), {})


def test_the_end_is_waited_for_behind_an_open_transaction(jobs: Jobs) -> None:
    definition, state = feed(jobs, "a")
    jobs.commit("feed-a", DefinitionRecord(definition), state, progress("a", 100))
    other = jobs.die_while_writing("feed-b", progress("b", 1))
    jobs.commit("feed-a", progress("a", 200))

    async def main() -> None:
        follower = JobsFollower(jobs.settings)
        try:
            await asyncio.wait_for(follower.read_to_stable_end(), 30)
            assert follower.view[definition.id].high_water == Timestamp(100)
            reading = asyncio.create_task(follower.read_to_end(asyncio.Event()))
            await asyncio.wait_for(follower.read_to_stable_end(), 30)  # asked after it, and answered
            assert not reading.done()
            await asyncio.to_thread(other.abort_transaction)
            assert await asyncio.wait_for(reading, 30)
            assert follower.view[definition.id].high_water == Timestamp(200)
        finally:
            await asyncio.to_thread(follower.close)

    asyncio.run(main())


def test_waiting_for_the_end_is_given_up_when_the_partition_is_lost(jobs: Jobs) -> None:
    dead = jobs.die_while_writing("feed-b", progress("b", 1))

    async def main() -> None:
        follower, closing = JobsFollower(jobs.settings), asyncio.Event()
        try:
            reading = asyncio.create_task(follower.read_to_end(closing))
            await asyncio.wait_for(follower.read_to_stable_end(), 30)
            assert not reading.done()
            closing.set()
            assert not await asyncio.wait_for(reading, 30)
        finally:
            await asyncio.to_thread(follower.close)

    asyncio.run(main())
    dead.abort_transaction()


class Flow:
    """The consumer of the checkpoints, which nobody writes here."""

    async def committed_or_earliest(self, _: TP) -> int:
        return 0

    async def earliest_offsets(self, *places: TP) -> dict[TP, int]:
        return dict.fromkeys(places, 0)

    async def highwaters(self, *places: TP) -> dict[TP, int]:
        return dict.fromkeys(places, 0)

    async def open_partition(self, tp: TP, offset: int) -> None:
        """Nothing flows."""


class Ends:
    """What would have ended the process, had it been a worker's: the tests share this one with others."""

    def __init__(self) -> None:
        self.reasons: list[BaseException | None] = []

    def leave(self, error: BaseException | None, status: int) -> NoReturn:
        """Keep the reason, and end the task or thread."""
        self.reasons.append(error)
        raise AssertionError(f"the worker has ended with {status}, for {error!r}") from error


async def begun(held: FrontierPartition, count: int, ends: Ends) -> list[FeedReport]:
    """Return what the publishers report, once ``count`` of them have begun."""
    while True:
        assert not ends.reasons, ends.reasons
        reports = [report for publisher in held.publishers.values() if (report := publisher.report())]
        if len(reports) == count:
            return reports
        await asyncio.sleep(0.05)


def test_feeds_whose_owners_died_in_transactions_begin_at_what_was_persisted(
    jobs: Jobs, threads: ThreadPoolExecutor
) -> None:
    # Each one's end of the topic is hidden by the other's transaction, and only its own first act ends that.
    feeds = {"a": feed(jobs, "a"), "b": feed(jobs, "b")}
    for name, (definition, state) in feeds.items():
        jobs.commit(f"feed-{name}", DefinitionRecord(definition), state, progress(name, 100))
    third, its_state = feed(jobs, "c")
    dead = [jobs.die_while_writing("feed-a", progress("a", 300))]
    jobs.commit("feed-c", DefinitionRecord(third), its_state, progress("c", 200))  # hidden behind a's
    startless, its_state = feed(jobs, "d")
    no_start = replace(its_state, start=None)  # nobody of ours writes that
    jobs.commit("feed-d", DefinitionRecord(startless), no_start)
    dead.append(jobs.die_while_writing("feed-b", progress("b", 300)))
    ends = Ends()

    async def main() -> None:
        follower = JobsFollower(jobs.settings)
        sinks = WorkerSinks(jobs.settings, WorkerTopicAdmin(jobs.settings), threads)
        app: Any = SimpleNamespace(
            settings=jobs.settings,
            topic_names=Topics.of(jobs.settings),
            batches=Flow(),
            follower=follower,
            runtime=SimpleNamespace(
                publisher_threads=threads,
                reopening_threads=threads,
                schema_ids=None,  # feeds without markers ask for nothing
                sinks=sinks,
                machine=REAL,
            ),
        )
        held = FrontierPartition(app, 0)
        try:
            async with asyncio.timeout(60):
                reports = await begun(held, 3, ends)
            assert {report.feed: report.high_water for report in reports} == {
                "a": str(Timestamp(100)),
                "b": str(Timestamp(100)),
                "c": str(Timestamp(200)),
            }
        finally:
            await held.release()
            await asyncio.to_thread(follower.close)

    with leaving_by(ends.leave):
        asyncio.run(main())
    assert not ends.reasons, ends.reasons
    assert len(dead) == 2  # they lived, as producers, until here
