"""The intake: whatever is lost, repeated or reordered on the way, the batches taken are in unbroken order."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
from aiokafka.errors import KafkaTimeoutError, LeaderNotAvailableError, TopicAuthorizationFailedError
from faust.types import TP
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.worker.kafka.hand_consumer import Consumer, settled
from tidegate.worker.kafka import intake
from tidegate.worker.kafka.fetched import FetchedBatch
from tidegate.worker.kafka.intake import Intake, insisted

_TP = TP("log", 0)


def taken(batches: list[FetchedBatch]) -> list[int]:
    """The offsets of the batches, one after the other."""
    return [offset for batch in batches for offset in range(batch.start, batch.end)]


def test_batches_that_follow_are_taken() -> None:
    async def run() -> None:
        consumer, got = Consumer(), list[FetchedBatch]()
        intake = Intake(_TP, consumer, got.append)
        intake.open(5)
        await settled()
        for count in (3, 4):
            consumer.fetch(count)
            intake.receive_batch(consumer.queue.pop(0))
        assert taken(got) == list(range(5, 12))
        assert consumer.seeks == 1

    asyncio.run(run())


def test_a_batch_from_before_the_seek_is_refused() -> None:
    async def run() -> None:
        consumer, got = Consumer(), list[FetchedBatch]()
        consumer.fetch(8)
        intake = Intake(_TP, consumer, got.append)
        intake.open(2)
        intake.receive_batch(consumer.queue.pop(0))  # while the seek is under way
        await settled()
        consumer.fetch(1)
        intake.receive_batch(consumer.queue.pop(0))
        assert taken(got) == [2]

    asyncio.run(run())


def test_whoever_lets_go_of_a_partition_without_a_leader_asks_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(intake, "_LOOK_AGAIN_S", 0.0)
    asked: list[TP] = []

    async def ask() -> int:
        asked.append(_TP)
        raise LeaderNotAvailableError

    assert asyncio.run(insisted(_TP, ask, lambda: len(asked) == 3)) is None


def test_what_no_question_mends_is_raised() -> None:
    async def ask() -> int:
        raise TopicAuthorizationFailedError

    with pytest.raises(TopicAuthorizationFailedError):
        asyncio.run(insisted(_TP, ask))


def test_a_partition_without_a_leader_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "_LOOK_AGAIN_S", 0.0)
    refusals = [LeaderNotAvailableError(), KafkaTimeoutError("40 s")]

    class Leaderless(Consumer):
        async def earliest_offsets(self, *partitions: TP) -> Mapping[TP, int]:
            if refusals:
                raise refusals.pop()
            return await super().earliest_offsets(*partitions)

    async def run() -> None:
        consumer, got = Leaderless(), list[FetchedBatch]()
        opened = Intake(_TP, consumer, got.append)
        opened.open(5)
        for _ in range(10):
            await settled()
        consumer.fetch(3)
        opened.receive_batch(consumer.queue.pop(0))
        assert taken(got) == [5, 6, 7]

    asyncio.run(run())


def test_what_is_taken_while_the_end_is_asked_for_may_be_above_it() -> None:
    """Found by the simulation: the answer was of a time before the batch, and the worker ended itself."""

    async def run() -> None:
        consumer, got = Consumer(), list[FetchedBatch]()
        intake = Intake(_TP, consumer, got.append)
        intake.open(5)
        await settled()
        consumer.end = 5
        intake.receive_batch(FetchedBatch("log", 0, 2, 4, 5, ()))  # does not follow: sends the consumer back
        await asyncio.sleep(0)  # the question is on its way
        intake.receive_batch(FetchedBatch("log", 0, 5, 8, 8, ()))
        await settled()
        assert taken(got) == [5, 6, 7]
        assert consumer.position == 8

    asyncio.run(run())


def test_a_cut_is_told_and_read_on_behind() -> None:
    async def run() -> None:
        consumer, got, cuts = Consumer(first=10), list[FetchedBatch](), list[int]()
        intake = Intake(_TP, consumer, got.append, cuts.append)
        intake.open(4)
        await settled()
        consumer.fetch(2)
        intake.receive_batch(consumer.queue.pop(0))
        assert cuts == [10]
        assert taken(got) == [10, 11]

    asyncio.run(run())


def test_a_cut_while_running_is_told() -> None:
    async def run() -> None:
        consumer, cuts = Consumer(), list[int]()
        intake = Intake(_TP, consumer, lambda _: None, cuts.append)
        intake.open(0)
        await settled()
        consumer.first, consumer.position = 7, 7  # as a consumer that was out of range resets itself
        consumer.fetch(1)
        intake.receive_batch(consumer.queue.pop(0))
        await settled()
        assert cuts == [7]
        assert intake.position == 7

    asyncio.run(run())


def test_a_halted_partition_stays_halted_over_a_seek() -> None:
    async def run() -> None:
        consumer = Consumer()
        intake = Intake(_TP, consumer, lambda _: None)
        intake.open(0)
        intake.halt()
        await settled()
        assert not consumer.flowing
        intake.proceed()
        assert consumer.flowing

    asyncio.run(run())


def test_a_closed_intake_takes_nothing() -> None:
    async def run() -> None:
        consumer, got = Consumer(), list[FetchedBatch]()
        intake = Intake(_TP, consumer, got.append)
        intake.open(0)
        await settled()
        intake.close()
        consumer.fetch(1)
        intake.receive_batch(consumer.queue.pop(0))
        assert got == []

    asyncio.run(run())


@given(st.lists(st.sampled_from(["fetch", "deliver", "drop", "repeat", "clear", "wait"]), max_size=60))
def test_what_was_lost_is_read_again(actions: list[str]) -> None:
    """Batches may be lost anywhere between consumer and intake; the next one to arrive brings them back."""

    async def run() -> None:
        consumer, got = Consumer(), list[FetchedBatch]()
        intake = Intake(_TP, consumer, got.append)
        intake.open(0)
        for action in actions:
            if action == "fetch":
                consumer.fetch(2)
            elif action == "wait":
                await settled()
            elif action == "clear":
                consumer.queue.clear()
            elif consumer.queue:
                batch = consumer.queue[0] if action == "repeat" else consumer.queue.pop(0)
                if action != "drop":
                    intake.receive_batch(batch)
        end = consumer.position + 2
        while intake.position < end:
            await settled()
            consumer.fetch(2)
            while consumer.queue:
                intake.receive_batch(consumer.queue.pop(0))
        assert taken(got) == list(range(intake.position))

    asyncio.run(run())


def test_who_waits_for_an_offset_waits_until_everything_below_it_is_taken() -> None:
    async def run() -> None:
        consumer, got = Consumer(), list[FetchedBatch]()
        intake = Intake(_TP, consumer, got.append)
        intake.open(0)
        reading = asyncio.create_task(intake.read_to(5))
        await settled()
        for offered in (3, 2):
            assert not reading.done()
            consumer.fetch(offered)
            intake.receive_batch(consumer.queue.pop(0))
            await settled()
        assert taken(got) == list(range(5))
        assert reading.result()

    asyncio.run(run())


def test_waiting_for_an_offset_ends_when_the_topic_begins_above_it() -> None:
    async def run() -> None:
        intake = Intake(_TP, Consumer(first=9), list[FetchedBatch]().append)
        intake.open(0)
        assert await intake.read_to(5)

    asyncio.run(run())


def test_waiting_for_an_offset_is_given_up_when_the_intake_is_closed() -> None:
    async def run() -> None:
        intake = Intake(_TP, Consumer(), list[FetchedBatch]().append)
        intake.open(0)
        reading = asyncio.create_task(intake.read_to(5))
        await settled()
        intake.close()
        assert not await reading

    asyncio.run(run())


def test_a_batch_that_is_faster_than_the_answer_to_its_seek_is_taken() -> None:
    async def run() -> None:
        consumer, got = Consumer(), list[FetchedBatch]()
        intake = Intake(_TP, consumer, got.append)
        intake.open(0)
        consumer.fetch(4)
        intake.receive_batch(consumer.queue.pop())
        await settled()
        assert taken(got) == list(range(4))

    asyncio.run(run())


def test_nothing_is_taken_before_the_intake_is_open() -> None:
    async def run() -> None:
        consumer, got = Consumer(), list[FetchedBatch]()
        intake = Intake(_TP, consumer, got.append)
        consumer.fetch(4)
        intake.receive_batch(consumer.queue.pop())
        await settled()
        assert got == []
        assert consumer.seeks == 0

    asyncio.run(run())


def test_an_intake_that_was_closed_is_not_opened() -> None:
    async def run() -> None:
        consumer = Consumer()
        intake = Intake(_TP, consumer, list[FetchedBatch]().append)
        intake.close()
        intake.open(3)
        await settled()
        assert consumer.seeks == 0

    asyncio.run(run())
