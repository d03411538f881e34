"""Tests when a partition that is held gives up."""

from __future__ import annotations

import asyncio
import math
from typing import Final

from tests.feeds import activation
from tests.unit.worker.commit.hand_loop import TABLE, Driven, run, settle
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.lifecycle.control import Register, Remove
from tidegate.processor.batch import ControlRecord
from tidegate.processor.processor import PartitionProcessor
from tidegate.raftlog.entry import Offset
from tidegate.worker.commit.hold_clock import HoldClock

_A: Final = FeedId("a")
_B: Final = FeedId("b")
_LATE: Final = activation([TABLE.descriptor], feed_id="late")
_LATER: Final = activation([TABLE.descriptor], feed_id="later")


class _Held:
    """A clock of 60 s, and the time."""

    def __init__(self) -> None:
        self.now = 100.0
        self.clock = HoldClock(60.0, lambda: self.now)

    def due(self, seconds: float, *feeds: FeedId) -> float:
        """Return when it is due after these feeds held it ``seconds`` later."""
        self.now += seconds
        self.clock.look(frozenset(feeds))
        return self.clock.due


def test_nobody_gives_up_who_is_not_held() -> None:
    held = _Held()
    assert held.clock.due == math.inf
    assert held.due(1) == math.inf
    held.due(1, _A)
    assert held.due(1) == math.inf


def test_the_time_runs_from_the_first_look_at_a_feed_that_holds() -> None:
    held = _Held()
    assert [held.due(5, _A), held.due(50, _A), held.due(1, _A, _B)] == [165.0, 165.0, 165.0]


def test_the_time_begins_anew_when_a_feed_lets_go() -> None:
    held = _Held()
    held.due(0, _A, _B)
    assert held.due(40, _B) == 200.0
    assert held.due(10, _A) == 210.0, "one for another"


# ---- held for too long


def test_a_partition_that_is_held_for_too_long_fails_the_feeds_that_hold_it_and_reads_on() -> None:
    async def scenario() -> None:
        driven = Driven()
        await driven.tell(1, Register(_LATE.definition))
        await driven.queue_records(0, 3)
        await driven.passes(59.9)
        assert (driven.next_offset, driven.failures) == (0, [])
        await driven.passes(0.2)
        assert [failure.feed_id for failure in driven.failures] == ["late"]
        assert "held for 60 s" in driven.failures[0].reason
        assert driven.next_offset == 3
        assert len(driven.sink.rows) == 1, "the other feed has its row"
        driven.sink.acknowledge(0)
        await driven.commit_loop.drain()

    run(scenario)


def test_the_commit_loop_wakes_by_itself_when_the_time_is_over() -> None:
    """Nobody sends a held partition anything."""

    async def scenario() -> None:
        driven = Driven()
        await driven.passes(0)
        await driven.tell(1, Register(_LATE.definition))
        await driven.passes(59.99)
        driven.now += 0.01
        while not driven.failures:  # noqa: ASYNC110 - pytest's time limit ends it
            await asyncio.sleep(0.001)
        await driven.commit_loop.drain()

    run(scenario)


def test_a_start_that_comes_in_the_same_moment_counts() -> None:
    async def scenario() -> None:
        driven = Driven()
        await driven.tell(1, Register(_LATE.definition))
        driven.now += 60
        await driven.tell(2, _LATE)
        assert driven.failures == []
        await driven.queue_records(0, 3)
        assert len(driven.sink.rows) == 2
        driven.sink.acknowledge(0, 1)
        await driven.commit_loop.drain()

    run(scenario)


def test_a_start_that_comes_after_it_is_answered_by_the_failure() -> None:
    async def scenario() -> None:
        driven = Driven()
        await driven.tell(1, Register(_LATE.definition))
        await driven.passes(60)
        await driven.tell(2, _LATE)
        first, second = driven.failures
        assert first == second
        await driven.commit_loop.drain()

    run(scenario)


def test_a_removal_releases_the_partition_and_ends_the_time() -> None:
    async def scenario() -> None:
        driven = Driven()
        await driven.tell(1, Register(_LATE.definition))
        await driven.passes(59)
        await driven.tell(2, Remove(_LATE.feed_id, _LATE.definition.epoch))
        await driven.passes(99)
        assert driven.failures == []
        await driven.tell(3, Register(_LATER.definition))
        await driven.passes(59)
        assert driven.failures == [], "the next feed has the whole time"
        await driven.passes(1)
        assert [failure.feed_id for failure in driven.failures] == ["later"]
        await driven.commit_loop.drain()

    run(scenario)


def test_two_feeds_share_the_time_and_one_that_starts_begins_it_anew() -> None:
    async def scenario() -> None:
        driven = Driven()
        await driven.tell(1, Register(_LATE.definition))
        await driven.passes(50)
        await driven.tell(2, Register(_LATER.definition))
        await driven.passes(5)
        await driven.tell(3, _LATE)
        await driven.passes(59)
        assert driven.failures == []
        await driven.passes(1)
        assert [failure.feed_id for failure in driven.failures] == ["later"]
        await driven.commit_loop.drain()

    run(scenario)


def test_another_feed_that_comes_to_wait_does_not_begin_the_time_anew() -> None:
    async def scenario() -> None:
        driven = Driven()
        await driven.tell(1, Register(_LATE.definition))
        await driven.passes(50)
        await driven.tell(2, Register(_LATER.definition))
        await driven.passes(10)
        assert [failure.feed_id for failure in driven.failures] == ["late", "later"]
        await driven.commit_loop.drain()

    run(scenario)


def test_a_partition_that_is_opened_while_it_is_held_gives_up_too() -> None:
    async def scenario() -> None:
        processor = PartitionProcessor(0, 1)
        processor.control([ControlRecord(Offset(0), Register(_LATE.definition))])
        driven = Driven(processor=processor)
        await settle()
        await driven.passes(59)
        assert driven.failures == []
        await driven.passes(1)
        assert [failure.feed_id for failure in driven.failures] == ["late"]
        await driven.commit_loop.drain()

    run(scenario)


def test_a_partition_that_nobody_holds_gives_nothing_up() -> None:
    async def scenario() -> None:
        driven = Driven()
        await driven.queue_records(0, 2)
        await driven.passes(1_000)
        assert driven.failures == []
        await driven.commit_loop.drain()

    run(scenario)
