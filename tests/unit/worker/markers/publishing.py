"""A publisher of one feed on a real broker, and the checkpoints that it is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

from stack.kafka import KafkaBroker
from tests.feeds import activation
from tests.hand_log import HandTable
from tests.unit.client.topics import create_topic
from tidegate.changefeed.definition.feed import FeedState
from tidegate.changefeed.definition.options import InitialScan
from tidegate.changefeed.lifecycle.job_records import (
    DefinitionRecord,
    ProgressRecord,
    SpansRecord,
    StateRecord,
)
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.topics import Topics
from tidegate.client.kafka.transaction import Record
from tidegate.client.output import OutputTopics
from tidegate.errors import RetryError
from tidegate.hlc import ResolvedTimestamp, Timestamp
from tidegate.processor.batch import ActiveFeed
from tidegate.processor.checkpoint import PartitionProgress
from tidegate.raftlog.entry import Offset
from tidegate.spans import Span
from tidegate.worker.kafka.jobs_follower import JobsFollower
from tidegate.worker.kafka.transaction import WorkerTransactionalProducer
from tidegate.worker.markers.feed_publisher import FeedPublisher
from tidegate.worker.markers.marker_records import MarkerRecords
from tidegate.worker.process.machine import REAL, Machine
from tidegate.worker.process.settings import Settings

FEED = activation([HandTable.of(104, "plain").descriptor], output_partitions=1)
(SPAN,) = FEED.targets[0].spans
#: A broker answers within this time, however busy the machine is.
_ANSWERS_S: Final = 60.0


class Held:
    """Markers that can be made once ``prepared`` is set, and fail so often before they succeed."""

    def __init__(self, topic: str, failures: int = 0) -> None:
        self.prepared = asyncio.Event()
        self.failures = failures
        self.waits = False
        self.goes_on = asyncio.Event()
        self.goes_on.set()
        self._topic = topic

    @property
    def ready(self) -> bool:
        return self.prepared.is_set()

    async def prepare(self) -> None:
        await self.prepared.wait()

    async def of(self, marker: ResolvedTimestamp) -> list[Record]:
        if self.failures:
            self.failures -= 1
            raise RetryError("the ends are not known")
        self.waits = not self.goes_on.is_set()
        await self.goes_on.wait()
        return [Record(self._topic, 0, None, str(marker.wall).encode())]


class Publishing:
    """A running feed on a broker; its publisher is the one under test."""

    machine: Machine = REAL

    def __init__(self, broker: KafkaBroker, prefix: str, threads: ThreadPoolExecutor) -> None:
        self.settings = Settings(
            bootstrap_servers=broker.bootstrap, app_id=f"{prefix}app", topic_prefix=prefix
        )
        self.jobs = Topics.of(self.settings).jobs
        self.topic = f"{prefix}markers"
        self.state = StateRecord(
            FEED.feed_id, FEED.definition.epoch, FeedState.RUNNING, Timestamp(1), FEED.targets
        )
        self._threads = threads
        for topic in (self.jobs, self.topic):
            create_topic(broker.bootstrap, topic)
        self.tell(DefinitionRecord(FEED.definition), self.state)

    def tell(self, *records: DefinitionRecord | StateRecord | ProgressRecord | SpansRecord) -> None:
        producer = WorkerTransactionalProducer(self.settings, f"{self.settings.app_id}-test")
        producer.open()
        producer.commit([Record(self.jobs, 0, record.key, record.to_bytes()) for record in records])
        producer.close()

    def fence(self) -> None:
        """Somebody else opens the feed's producer."""
        producer = WorkerTransactionalProducer(self.settings, f"{self.settings.app_id}-feed-{FEED.feed_id}")
        producer.open()
        producer.close()

    def persisted(self, wall: int) -> None:
        """Write what a former owner left."""
        at = ResolvedTimestamp(Timestamp(wall))
        self.tell(ProgressRecord(FEED.feed_id, FEED.definition.epoch, at, {}))

    @asynccontextmanager
    async def publisher(
        self, markers: MarkerRecords, scan: InitialScan = InitialScan.NO
    ) -> AsyncIterator[tuple[FeedPublisher, JobsFollower]]:
        follower = JobsFollower(self.settings)
        try:
            async with asyncio.timeout(150):
                await follower.read_to_stable_end()
                options = replace(FEED.definition.options, initial_scan=scan)
                definition = replace(FEED.definition, options=options)
                publisher = FeedPublisher(
                    self.settings, definition, self.state, follower, markers, self._threads, self.machine
                )
                try:
                    yield publisher, follower
                finally:
                    await asyncio.wait_for(publisher.close(), 60)
        finally:
            await asyncio.to_thread(follower.close)

    def written(self) -> list[int]:
        """The markers on their topic."""
        return markers_on(self.settings.bootstrap_servers, self.topic)

    async def until_marked(self, publisher: FeedPublisher, wall: int) -> None:
        """Repeat a checkpoint, as partitions do, until its marker is there."""
        while wall not in await asyncio.to_thread(self.written):
            publisher.apply(checkpoint(wall))


def markers_on(servers: str, topic: str) -> list[int]:
    """The markers on a topic of the cluster at these addresses."""
    records = OutputTopics.now(KafkaConnection(servers, timeout_s=_ANSWERS_S), [topic]).records()
    return [int(record.value or b"") for record in records]


def checkpoint(wall: int) -> PartitionProgress:
    """The feed's only range is complete up to ``wall``."""
    return part(SPAN, wall)


def part(span: Span, wall: int, partition: int = 0) -> PartitionProgress:
    """A span of it is."""
    resolved = ResolvedTimestamp(Timestamp(wall))
    active = ActiveFeed(FEED.feed_id, FEED.definition.epoch)
    return PartitionProgress(partition, Offset(wall), (active,), [span.start], [span.end], [resolved])


async def until(condition: Callable[[], bool]) -> None:
    while True:
        if condition():
            return
        await asyncio.sleep(0.02)
