"""What a feed's publisher does while markers have to wait: everything else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import pytest

from app import marker_records
from app.feed_publisher import FeedPublisher
from app.jobs_follower import JobsFollower
from app.marker_records import MarkerRecords
from app.settings import Settings
from app.topics import Topics
from app.transaction import Record, TransactionalProducer
from stack.kafka import KafkaBroker
from tests.feeds import activation
from tests.hand_log import HandTable
from tests.unit.client.topics import create_topic
from tidegate.changefeed.feed import FeedState
from tidegate.changefeed.job_records import DefinitionRecord, ProgressRecord, StateRecord
from tidegate.client.connection import KafkaConnection
from tidegate.client.output import OutputTopics
from tidegate.errors import RetryError
from tidegate.hlc import ResolvedTimestamp, Timestamp
from tidegate.processor.batch import ActiveFeed, PartitionCheckpoint, RangeCheckpoint
from tidegate.raftlog.entry import Generation, Offset, RangeId

pytestmark = pytest.mark.broker

_FEED = activation([HandTable.of(104, "plain").descriptor], output_partitions=1)


class Held:
    """Markers that can be made once ``prepared`` is set, and fail so often before they succeed."""

    def __init__(self, topic: str, failures: int = 0) -> None:
        self.prepared = asyncio.Event()
        self.failures = failures
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
        return [Record(self._topic, 0, None, str(marker.wall).encode())]


class Publishing:
    """A running feed on a broker; its publisher is the one under test."""

    def __init__(self, broker: KafkaBroker, prefix: str, threads: ThreadPoolExecutor) -> None:
        self.settings = Settings(
            bootstrap_servers=broker.bootstrap, app_id=f"{prefix}app", topic_prefix=prefix
        )
        self.jobs = Topics.of(self.settings).jobs
        self.topic = f"{prefix}markers"
        self.state = StateRecord(
            _FEED.feed_id, _FEED.definition.epoch, FeedState.RUNNING, Timestamp(1), _FEED.targets
        )
        self._threads = threads
        for topic in (self.jobs, self.topic):
            create_topic(broker.bootstrap, topic)
        self.tell(DefinitionRecord(_FEED.definition), self.state)

    def tell(self, *records: DefinitionRecord | StateRecord | ProgressRecord) -> None:
        producer = TransactionalProducer(self.settings, f"{self.settings.app_id}-test")
        producer.open()
        producer.commit([Record(self.jobs, 0, record.key, record.to_bytes()) for record in records])
        producer.close()

    def persisted(self, wall: int) -> None:
        """What a former owner left."""
        at = ResolvedTimestamp(Timestamp(wall))
        self.tell(ProgressRecord(_FEED.feed_id, _FEED.definition.epoch, at, {}))

    @asynccontextmanager
    async def publisher(self, markers: MarkerRecords) -> AsyncIterator[tuple[FeedPublisher, JobsFollower]]:
        follower = JobsFollower(self.settings)
        try:
            async with asyncio.timeout(60):
                await follower.read_to_stable_end()
                publisher = FeedPublisher(
                    self.settings, _FEED.definition, self.state, follower, markers, self._threads
                )
                try:
                    yield publisher, follower
                finally:
                    await asyncio.wait_for(publisher.close(), 20)
        finally:
            await asyncio.to_thread(follower.close)

    def written(self) -> list[int]:
        """The markers on their topic."""
        records = OutputTopics.now(KafkaConnection(self.settings.bootstrap_servers), [self.topic]).records()
        return [int(record.value or b"") for record in records]


@pytest.fixture
def publishing(broker: KafkaBroker, topic_prefix: str) -> Iterator[Publishing]:
    with ThreadPoolExecutor(2) as threads:
        yield Publishing(broker, topic_prefix, threads)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marker_records, "_BACKOFF_FIRST_S", 0.01)


def checkpoint(wall: int) -> PartitionCheckpoint:
    """The feed's only range is complete up to ``wall``."""
    (span,) = _FEED.targets[0].spans
    resolved = ResolvedTimestamp(Timestamp(wall))
    at = RangeCheckpoint(RangeId(1), Generation(1), span, resolved)
    active = ActiveFeed(_FEED.feed_id, _FEED.definition.epoch)
    return PartitionCheckpoint(0, Offset(wall), (active,), (at,))


async def until(condition: Callable[[], bool]) -> None:
    while True:
        if condition():
            return
        await asyncio.sleep(0.02)


def test_progress_is_persisted_while_markers_wait(publishing: Publishing) -> None:
    async def main() -> None:
        held = Held(publishing.topic)
        async with publishing.publisher(held) as (publisher, follower):
            for wall in (10, 20):
                publisher.apply(checkpoint(wall))
                await until(lambda: follower.view[_FEED.feed_id].high_water == Timestamp(wall))  # noqa: B023
            assert publishing.written() == []
            held.prepared.set()
            await until(lambda: publishing.written() == [20])  # the newest says all

    asyncio.run(main())


def test_a_publisher_closes_while_its_markers_wait(publishing: Publishing) -> None:
    publishing.persisted(10)

    async def main() -> None:
        async with publishing.publisher(Held(publishing.topic)) as (publisher, _):
            await until(lambda: publisher.frontier is not None)

    asyncio.run(main())  # closing is timed by the publisher's context
    assert publishing.written() == []


def test_the_marker_that_a_former_owner_may_not_have_written_is_written_late(publishing: Publishing) -> None:
    publishing.persisted(10)

    async def main() -> None:
        held = Held(publishing.topic)
        async with publishing.publisher(held) as (publisher, _):
            await until(lambda: publisher.frontier is not None)
            held.prepared.set()
            await until(lambda: publishing.written() == [10])
            publisher.apply(checkpoint(20))
            await until(lambda: publishing.written() == [10, 20])

    asyncio.run(main())


def test_a_marker_that_failed_is_tried_again_without_news(publishing: Publishing) -> None:
    publishing.persisted(10)

    async def main() -> None:
        held = Held(publishing.topic, failures=3)
        held.prepared.set()
        async with publishing.publisher(held):
            await until(lambda: publishing.written() == [10])

    asyncio.run(main())


def test_markers_that_fail_do_not_hold_progress_back(publishing: Publishing) -> None:
    async def main() -> None:
        held = Held(publishing.topic, failures=10**9)
        held.prepared.set()
        async with publishing.publisher(held) as (publisher, follower):
            for wall in (10, 20):
                publisher.apply(checkpoint(wall))
                await until(lambda: follower.view[_FEED.feed_id].high_water == Timestamp(wall))  # noqa: B023
        assert publishing.written() == []

    asyncio.run(main())
