"""A partition is let go of while a sink does not follow (docs/protocols/slow-sinks.md, K1 to K6)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.unit.worker.commit.judged_commits import (
    DRAIN_S,
    FAST,
    SLOW,
    STALL_S,
    Owner,
    detached,
    in_a_loop,
    started,
)
from tidegate.changefeed.definition.feed import FeedEpoch
from tidegate.changefeed.lifecycle.control import Remove


def test_letting_go_does_not_wait_for_a_detached_feed(tmp_path: Path) -> None:
    async def scenario() -> None:
        owner = await detached(tmp_path)
        await owner.queue_records(5)
        await owner.commit_loop.drain()
        assert owner.kafka.position == 7
        successor = Owner(owner.kafka, tmp_path)
        await successor.queue_records(1)
        await successor.comes_back(SLOW)
        assert owner.kafka.sinks[SLOW].offsets == [0, 1, 2, *range(9)]
        await successor.commit_loop.drain()

    in_a_loop(scenario)


def test_a_sink_that_stops_while_the_partition_is_let_go_of_is_detached(tmp_path: Path) -> None:
    async def scenario() -> None:
        owner = started(tmp_path)
        await owner.queue_records(2)
        draining = asyncio.ensure_future(owner.commit_loop.drain())
        await owner.passes(STALL_S - 2)
        assert not draining.done()
        await owner.passes(4)
        await draining
        assert (owner.kafka.position, owner.kafka.gap(SLOW)) == (1, 0)

    in_a_loop(scenario)


def test_who_lets_go_waits_for_a_sink_that_trickles_for_so_long_and_no_longer(tmp_path: Path) -> None:
    """Each batch is acknowledged in time, and all of them would take longer than there is."""

    async def scenario() -> None:
        owner = started(tmp_path)
        await owner.queue_records(3)
        draining = asyncio.ensure_future(owner.commit_loop.drain())
        await owner.passes(STALL_S - 2)
        await owner.acknowledge(SLOW, 1)
        await owner.passes(DRAIN_S - STALL_S)
        assert not draining.done()
        await owner.passes(4)
        assert draining.done()
        assert (owner.kafka.position, owner.kafka.gap(SLOW), owner.kafka.gap(FAST)) == (2, 1, None)

    in_a_loop(scenario)


def test_who_lets_go_detaches_only_feeds_whose_rows_lack(tmp_path: Path) -> None:
    async def scenario() -> None:
        owner = started(tmp_path)
        await owner.queue_records(1)
        await owner.acknowledge(SLOW, 1)
        draining = asyncio.ensure_future(owner.commit_loop.drain())
        await owner.passes(DRAIN_S + 2)
        assert draining.done()
        assert (owner.kafka.gap(SLOW), owner.kafka.gap(FAST)) == (None, None)

    in_a_loop(scenario)


@pytest.mark.parametrize("detached_first", [False, True])
def test_a_feed_that_is_dropped_while_it_is_detached_is_forgotten(
    tmp_path: Path, *, detached_first: bool
) -> None:
    async def scenario() -> None:
        owner = await detached(tmp_path) if detached_first else started(tmp_path)
        await owner.queue_records(2)
        await owner.tell(Remove(SLOW, FeedEpoch(1)))
        await owner.passes(STALL_S + 2)
        await owner.queue_records(3)
        assert owner.kafka.position == owner.next - 1
        assert SLOW.encode() not in owner.kafka.state
        assert [report.feed_id for report in owner.commit_loop.outlets.report()] == [FAST]
        await owner.comes_back(SLOW)
        await owner.commit_loop.drain()

    in_a_loop(scenario)
