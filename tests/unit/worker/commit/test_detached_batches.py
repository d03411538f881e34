"""Batches of a feed that is detached: what is committed with its gap, and when (docs/protocols/slow-sinks.md,
K2)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

from tests.unit.worker.commit.judged_commits import (
    FAST,
    SLOW,
    STALL_S,
    Owner,
    detached,
    in_a_loop,
    settle,
    started,
)
from tidegate.changefeed.definition.feed import FeedId
from tidegate.processor.batch import StepResult
from tidegate.worker.output.outlet import OutletState


def test_batches_without_rows_of_the_feed_are_not_committed_before_the_gap(tmp_path: Path) -> None:
    """What waited for the feed and the gap are one transaction."""

    async def scenario() -> None:
        owner = await detached(tmp_path)
        waited = [group for group in owner.kafka.transactions if any(result.outputs for result in group)]
        assert [result.serial for result in waited[0]] == [1, 2, 3, 4]
        await owner.die()
        successor = Owner(owner.kafka, tmp_path)
        owner.kafka.sinks[SLOW].comes_back()
        await successor.queue_records(2)
        assert owner.kafka.sinks[SLOW].first_seen() == {b"0": [0, 3], b"1": [1, 4], b"2": [2]}
        await successor.commit_loop.drain()

    in_a_loop(scenario)


def test_the_spool_dies_with_the_process(tmp_path: Path) -> None:
    async def scenario() -> None:
        owner = await detached(tmp_path)
        await owner.queue_records(5)
        await owner.acknowledge(SLOW, 2)
        assert os.listdir(tmp_path) == [], "files have no names"
        await owner.die()
        successor = Owner(owner.kafka, tmp_path)
        await successor.queue_records(1)
        await successor.comes_back(SLOW)
        assert owner.kafka.sinks[SLOW].offsets == [0, 1, *range(9)], "copies, then what is new"
        assert owner.kafka.named(SLOW) == 8
        await successor.commit_loop.drain()

    in_a_loop(scenario)


def test_a_batch_between_that_waits_for_another_feed_holds_the_whole_group(tmp_path: Path) -> None:
    async def scenario() -> None:
        owner = started(tmp_path)
        fast = owner.kafka.sinks[FAST]
        await owner.queue_records(1)
        await owner.passes(STALL_S - 1)
        fast.is_up = False
        await owner.queue_records(1)
        await owner.passes(2)
        assert owner.report(SLOW).state is OutletState.SPOOLING
        assert owner.kafka.position == -1, "the gap is not to be had without the batch before it"
        fast.comes_back()
        await settle()
        assert (owner.kafka.position, owner.kafka.gap(SLOW)) == (1, 0)
        await owner.die()

    in_a_loop(scenario)


def test_two_feeds_that_wait_for_each_other_are_detached_together(tmp_path: Path) -> None:
    async def scenario() -> None:
        owner = started(tmp_path)
        owner.kafka.sinks[FAST].is_up = False
        await owner.queue_records(3)
        await owner.passes(STALL_S + 3)
        assert (owner.kafka.position, owner.kafka.gap(SLOW), owner.kafka.gap(FAST)) == (2, 0, 0)
        await owner.queue_records(5)
        await owner.comes_back(FAST)
        await owner.comes_back(SLOW)
        assert owner.kafka.named(FAST) == owner.kafka.named(SLOW) == 7
        assert owner.kafka.sinks[SLOW].offsets == owner.kafka.sinks[FAST].offsets == list(range(8))
        await owner.commit_loop.drain()

    in_a_loop(scenario)


def test_a_row_that_is_thrown_away_lets_no_batch_go_alone(tmp_path: Path) -> None:
    """The spool is lost while the batches and the gap still wait for another feed."""

    async def scenario() -> None:
        owner = started(tmp_path, spool_bytes=0)
        slow, fast = owner.kafka.sinks[SLOW], owner.kafka.sinks[FAST]
        slow.room = 0
        await owner.queue_records(1)
        await owner.passes(STALL_S - 1)
        fast.is_up = False
        await owner.queue_records(1)
        await owner.passes(2)
        await owner.queue_records(1)
        assert owner.report(SLOW).state is not OutletState.LIVE
        await owner.acknowledge(FAST, 0)
        assert owner.kafka.position == -1
        fast.comes_back()
        await settle()
        assert (owner.kafka.position, owner.kafka.gap(SLOW)) == (2, 0)
        await owner.die()

    in_a_loop(scenario)


class _Later(Executor):
    """Runs work some turns of the loop later; ``meanwhile`` comes before."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        self._meanwhile = meanwhile

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()

        async def run() -> None:
            self._meanwhile()
            for _ in range(20):
                await asyncio.sleep(0)
            future.set_result(fn(*args, **kwargs))

        self._running = asyncio.ensure_future(run())
        return future


def test_nothing_is_committed_while_it_is_changed(tmp_path: Path) -> None:
    """The last row is acknowledged when the step begins that detaches the feed."""

    async def scenario() -> None:
        owner = started(tmp_path)
        await owner.queue_records(2)
        await owner.passes(STALL_S - 1)
        detach = owner.processor.detach
        committed: list[int] = []

        def patched(feed_id: FeedId, uncommitted: Sequence[StepResult]) -> StepResult:
            done = {result.serial for group in owner.kafka.transactions for result in group}
            committed.extend(result.serial for result in uncommitted if result.serial in done - {0})
            return detach(feed_id, uncommitted)

        owner.processor.detach = patched  # type: ignore[method-assign]
        later = _Later(lambda: owner.kafka.sinks[SLOW].acknowledge(9))
        owner.commit_loop._stepper._thread = later
        await owner.passes(2)
        assert committed == []
        assert (owner.kafka.position, owner.kafka.named(SLOW)) == (1, 1), "and attached again"
        await owner.commit_loop.drain()

    in_a_loop(scenario)
