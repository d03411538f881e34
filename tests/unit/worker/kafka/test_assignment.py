"""From one assignment to the next: nothing is held twice, and only the newest counts."""

from __future__ import annotations

import asyncio

import pytest
from faust.types import TP

import tidegate.worker.kafka.assignment
from tidegate.worker.kafka.assignment import Assignment
from tidegate.worker.kafka.fetched import FetchedBatch


class Holder:
    """Takes its time to let go."""

    def __init__(self, release_s: float = 0.0) -> None:
        self.held: set[int] = set()
        self.events: list[str] = []
        self._release_s = release_s

    def assigned(self, partition: int) -> None:
        assert partition not in self.held, "held twice"
        self.held.add(partition)
        self.events.append(f"+{partition}")

    def receive_batch(self, batch: FetchedBatch) -> None:
        raise AssertionError("no batch comes here")

    async def released(self) -> None:
        await asyncio.sleep(self._release_s)
        self.events += [f"-{partition}" for partition in sorted(self.held)]
        self.held.clear()


def partitions(*numbers: int) -> set[TP]:
    return {TP("log", number) for number in numbers}


async def settled(assignment: Assignment) -> None:
    """Every change that was begun has come to its end."""
    while assignment._exchanges:
        await asyncio.wait(assignment._exchanges)
        await asyncio.sleep(0)  # until they are taken off the list


def test_an_assignment_without_a_revocation_releases_first() -> None:
    async def run() -> None:
        holder, assignment = Holder(), Assignment(1.0)
        assignment.hold("log", holder)
        assignment.take_up(partitions(0, 1))
        await settled(assignment)
        assignment.take_up(partitions(1, 2))
        await settled(assignment)
        assert holder.events == ["+0", "+1", "-0", "-1", "+1", "+2"]

    asyncio.run(run())


def test_only_the_newest_of_several_assignments_is_taken_up() -> None:
    async def run() -> None:
        holder, assignment = Holder(), Assignment(1.0)
        assignment.hold("log", holder)
        for numbers in ((0,), (1,), (2,)):
            assignment.take_up(partitions(*numbers))
        await settled(assignment)
        assert holder.events == ["+2"]

    asyncio.run(run())


def test_a_revocation_that_overtakes_an_assignment_wins() -> None:
    async def run() -> None:
        holder, assignment = Holder(release_s=0.01), Assignment(1.0)
        assignment.hold("log", holder)
        assignment.take_up(partitions(0))
        await asyncio.sleep(0)
        await assignment.release()
        await settled(assignment)
        assert holder.held == set()

    asyncio.run(run())


def test_what_is_assigned_while_the_worker_stops_is_not_taken_up() -> None:
    """Faust may finish a rebalance after the release; a partition opened then would find all else closed."""

    async def run() -> None:
        holder, assignment = Holder(release_s=0.01), Assignment(1.0)
        assignment.hold("log", holder)
        assignment.take_up(partitions(0))
        await settled(assignment)
        closing = asyncio.ensure_future(assignment.close())
        await asyncio.sleep(0)
        assignment.take_up(partitions(0, 1))
        await closing
        assignment.take_up(partitions(2))
        await settled(assignment)
        assert holder.events == ["+0", "-0"]

    asyncio.run(run())


def test_a_release_that_takes_too_long_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []
    monkeypatch.setattr(
        tidegate.worker.kafka.assignment, "end_process", lambda error: ended.append(str(error))
    )

    async def run() -> None:
        assignment = Assignment(0.01)
        assignment.hold("log", Holder(release_s=5.0))
        await assignment.release()

    asyncio.run(run())
    assert "the next owner repeats it" in ended[0]
