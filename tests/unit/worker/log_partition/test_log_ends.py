"""The end of the log is told by fetches, and by the broker while there are none."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
from aiokafka.errors import KafkaTimeoutError
from faust.types import TP

from tests.unit.worker.kafka.hand_consumer import Consumer, settled
from tidegate.worker.kafka.intake import Intake
from tidegate.worker.log_partition import log_ends
from tidegate.worker.log_partition.log_ends import ask_for_ends, watch_ends


class Broker:
    """Knows the ends of the log's partitions; ``asked`` are its questions."""

    def __init__(self, **ends: int) -> None:
        self.ends = {TP("log", int(number[1:])): end for number, end in ends.items()}
        self.asked: list[list[int]] = []

    async def highwaters(self, *partitions: TP) -> Mapping[TP, int]:
        self.asked.append([tp.partition for tp in partitions])
        return {tp: self.ends[tp] for tp in partitions}


class AwayBroker(Broker):
    """Does not answer."""

    async def highwaters(self, *partitions: TP) -> Mapping[TP, int]:
        raise KafkaTimeoutError("Failed to get offsets by times in 40000 ms")


def intake(consumer: Consumer, partition: int = 0) -> Intake:
    return Intake(TP("log", partition), consumer, lambda _: None)


def test_the_end_is_not_known_before_anybody_told() -> None:
    assert intake(Consumer()).end is None


def test_the_end_is_asked_for_when_reading_begins() -> None:
    async def run() -> None:
        reading = intake(Consumer(end=70))
        reading.open(5)
        await settled()
        assert reading.end == 70

    asyncio.run(run())


def test_a_fetch_tells_the_end_and_an_older_answer_does_not_take_it_back() -> None:
    async def run() -> None:
        consumer = Consumer(end=3)
        reading = intake(consumer)
        reading.open(0)
        await settled()
        consumer.fetch(8)
        reading.receive_batch(consumer.queue.pop())
        assert reading.end == 8
        reading.note_end(6)
        assert reading.end == 8

    asyncio.run(run())


def test_who_is_halted_is_told_the_end_by_the_broker_and_who_reads_by_its_fetches() -> None:
    async def run() -> None:
        broker = Broker(p0=90, p1=91, p2=92)
        reading, halted, closed = (intake(Consumer(end=10), number) for number in range(3))
        reading.open(0)
        halted.open(0)
        await settled()
        halted.halt()
        await ask_for_ends([each for each in (reading, halted, closed) if not each.hears_of_end], broker)
        assert broker.asked == [[1, 2]]
        assert [reading.end, halted.end, closed.end] == [10, 91, 92]
        halted.proceed()
        assert halted.hears_of_end

    asyncio.run(run())


def test_nobody_is_asked_while_all_read() -> None:
    broker = Broker()
    asyncio.run(ask_for_ends([], broker))
    assert broker.asked == []


def test_a_broker_that_is_away_leaves_the_end_as_it_was_and_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_ends, "ASK_S", 0.0)

    async def run() -> None:
        broker: Broker = AwayBroker()
        halted = intake(Consumer())
        halted.note_end(4)
        halted.halt()
        watching = asyncio.create_task(watch_ends(lambda: [halted], lambda: broker))
        await settled()
        assert halted.end == 4
        broker = Broker(p0=9)
        await settled()
        assert halted.end == 9
        watching.cancel()

    asyncio.run(run())
