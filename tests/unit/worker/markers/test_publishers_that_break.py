"""An exception that nobody foresaw in a feed's publisher fails the feed (U9 of docs/security.md)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from stack.kafka import KafkaBroker
from tests.unit.client.topics import create_topic
from tests.unit.worker.markers.publishing import FEED, Held, Publishing, checkpoint, until
from tidegate.changefeed.definition.feed import Engine, FeedEpoch
from tidegate.changefeed.lifecycle.control import NO_PARTITION, Ack, Failed
from tidegate.changefeed.lifecycle.feed_progress import FeedProgress
from tidegate.changefeed.lifecycle.job_records import DefinitionRecord
from tidegate.client.control_acks import read_acks
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.topics import Topics
from tidegate.client.kafka.transaction import Record
from tidegate.delivery import back_off
from tidegate.errors import SettingsError, StatementError
from tidegate.hlc import ResolvedTimestamp, Timestamp
from tidegate.worker.kafka.transaction import WorkerTransactionalProducer
from tidegate.worker.markers import feed_publisher
from tidegate.worker.markers.marker_records import UnmadeMarkers
from tidegate.worker.markers.progress_producer import ProgressProducer, UnansweredError

pytestmark = pytest.mark.broker


class Odd(Held):
    """Markers of a feed whose data nobody foresaw."""

    def __init__(self, topic: str, breaks: str) -> None:
        super().__init__(topic)
        self._breaks = breaks
        if breaks != "prepare":
            self.prepared.set()

    async def prepare(self) -> None:
        if self._breaks == "prepare":
            raise ArithmeticError("an odd answer of the registry")

    async def of(self, marker: ResolvedTimestamp) -> list[Record]:
        if self._breaks == "of":
            raise ArithmeticError("an odd target")
        odd: Any = object()  # the client raises for it amid the transaction
        return [Record(self._topic, 0, None, b"first"), Record(self._topic, 0, None, odd)]


class Answered(Publishing):
    """A publishing whose answers to the jobs agent can be read."""

    def __init__(self, broker: KafkaBroker, prefix: str, threads: ThreadPoolExecutor) -> None:
        super().__init__(broker, prefix, threads)
        self._acks = Topics.of(self.settings).control_acks
        create_topic(broker.bootstrap, self._acks)

    def answers(self) -> list[Ack]:
        return list(read_acks(KafkaConnection(self.settings.bootstrap_servers), self._acks, 1))

    def failure(self) -> Failed:
        (answer,) = self.answers()
        assert isinstance(answer, Failed)
        assert answer.partition == NO_PARTITION
        return answer


@pytest.fixture
def publishing(broker: KafkaBroker, topic_prefix: str) -> Iterator[Answered]:
    with ThreadPoolExecutor(2) as threads:
        yield Answered(broker, topic_prefix, threads)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(back_off, "_FIRST_S", 0.01)


@pytest.mark.parametrize(
    ("breaks", "said"),
    [
        ("prepare", "ArithmeticError (test_publishers_that_break.py"),
        ("of", "ArithmeticError (test_publishers_that_break.py"),
        ("write", "TypeError (transaction.py"),
    ],
)
def test_markers_that_cannot_be_made_fail_their_feed_once_and_progress_goes_on(
    publishing: Answered, breaks: str, said: str
) -> None:
    async def main() -> None:
        async with publishing.publisher(Odd(publishing.topic, breaks)) as (publisher, follower):
            publisher.apply(checkpoint(10))
            await until(lambda: bool(publishing.answers()))
            publisher.apply(checkpoint(20))
            await until(lambda: follower.view[FEED.feed_id].high_water == Timestamp(20))
            report = publisher.report()
            assert report is not None
            assert said in report.markers_wait

    asyncio.run(main())
    assert said in publishing.failure().reason
    assert publishing.written() == []


def test_a_frontier_that_cannot_begin_fails_its_feed(
    publishing: Answered, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin(*_: object) -> None:
        raise ArithmeticError("an odd record of spans")

    monkeypatch.setattr(FeedProgress, "begin", begin)

    async def main() -> None:
        async with publishing.publisher(Held(publishing.topic)):
            await until(lambda: bool(publishing.answers()))

    asyncio.run(main())
    assert "ArithmeticError (test_publishers_that_break.py" in publishing.failure().reason


def test_a_frontier_that_cannot_begin_fails_nothing_once_its_feed_was_moved(
    publishing: Answered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was moved while the owner could not tell the failure."""

    def begin(*_: object) -> None:
        raise ArithmeticError("an odd record of spans")

    open_, moved = ProgressProducer.open, replace(FEED.definition, epoch=FeedEpoch(2), engine=Engine.SPARK)

    async def commit(self: ProgressProducer, *_: object, **__: object) -> None:
        self.is_lost = True
        raise UnansweredError("Kafka has not answered")

    async def opened(self: ProgressProducer) -> None:
        if self.is_lost:
            await asyncio.to_thread(publishing.tell, DefinitionRecord(moved))
            monkeypatch.undo()  # from here on Kafka answers
        await open_(self)

    async def main() -> None:
        async with publishing.publisher(Held(publishing.topic)) as (publisher, _):
            await publisher._task

    monkeypatch.setattr(FeedProgress, "begin", begin)
    monkeypatch.setattr(ProgressProducer, "commit", commit)
    monkeypatch.setattr(ProgressProducer, "open", opened)
    asyncio.run(main())
    assert publishing.answers() == []


def test_a_failure_that_cannot_be_told_is_told_again(
    publishing: Answered, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_publisher, "AGAIN_S", 0.01)
    commit, calls = WorkerTransactionalProducer.commit, []

    def odd(self: WorkerTransactionalProducer, records: Any, **options: Any) -> Any:
        calls.append(records)
        if len(calls) < 3:
            raise ArithmeticError("an odd commit")
        return commit(self, records, **options)

    monkeypatch.setattr(WorkerTransactionalProducer, "commit", odd)

    async def main() -> None:
        async with publishing.publisher(Held(publishing.topic)) as (publisher, _):
            publisher.apply(checkpoint(10))
            await until(lambda: bool(publishing.answers()))

    asyncio.run(main())
    assert "an odd commit" in publishing.failure().reason
    assert len(calls) == 3


class OddWriter:
    """A writer on another cluster that cannot be opened, for a reason that nobody foresaw."""

    beside = True
    is_open = False
    opened = 0

    async def open(self) -> None:
        self.opened += 1
        raise ArithmeticError("an odd cluster")

    async def check(self) -> None:
        raise NotImplementedError

    async def write(self, records: Sequence[Record]) -> None:
        raise NotImplementedError

    def give_up(self) -> None: ...

    async def close(self) -> None: ...


def test_a_writer_that_cannot_be_opened_fails_its_feed_and_is_not_opened_again(publishing: Answered) -> None:
    writer, held = OddWriter(), Held(publishing.topic)
    held.prepared.set()

    async def main() -> None:
        async with publishing.publisher(held) as (publisher, follower):
            publisher._writer = writer
            publisher.apply(checkpoint(10))
            await until(lambda: bool(publishing.answers()))
            for wall in (20, 30):
                publisher.apply(checkpoint(wall))
                await until(lambda: follower.view[FEED.feed_id].high_water == Timestamp(wall))  # noqa: B023

    asyncio.run(main())
    assert "ArithmeticError (test_publishers_that_break.py" in publishing.failure().reason
    assert writer.opened == 1


def test_markers_that_cannot_even_be_begun_fail_their_feed(publishing: Answered) -> None:
    async def main() -> None:
        async with publishing.publisher(UnmadeMarkers(StatementError("no sink"))):
            await until(lambda: bool(publishing.answers()))

    asyncio.run(main())
    assert "StatementError" in publishing.failure().reason


def test_settings_that_open_no_client_fail_no_feed(publishing: Answered) -> None:
    """A certificate may be exchanged at just that moment."""

    class Unreadable(Held):
        tries = 0

        async def of(self, marker: ResolvedTimestamp) -> list[Record]:
            self.tries += 1
            if self.tries < 3:
                raise SettingsError("the certificate cannot be read")
            return await super().of(marker)

    held = Unreadable(publishing.topic)
    held.prepared.set()

    async def main() -> None:
        async with publishing.publisher(held) as (publisher, _):
            publisher.apply(checkpoint(10))
            await until(lambda: publishing.written() == [10])

    asyncio.run(main())
    assert publishing.answers() == []
