"""Detached feeds: their spool, and when they are stalled or resumed (docs/protocols/slow-sinks.md, K3 to
K6)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import tidegate.worker.commit.commit_loop
import tidegate.worker.output.spool
from tests.unit.worker.commit.judged_commits import (
    FAST,
    ROW_BYTES,
    SLOW,
    STALL_S,
    VALUE_BYTES,
    Owner,
    detached,
    in_a_loop,
    offset_of,
    started,
)
from tidegate.processor.batch import OutputRecord
from tidegate.worker.output.outlet import OutletReport, OutletState


async def until(true: Callable[[], bool]) -> None:
    """Return once ``true``: for what waits for real time."""
    while True:
        if true():
            return
        await asyncio.sleep(0.001)


def test_a_full_producer_holds_back_its_own_feeds_only(tmp_path: Path) -> None:
    async def scenario() -> None:
        owner = started(tmp_path, SLOW, FAST)
        owner.kafka.sinks[SLOW].room = 0
        await owner.queue_records(3)
        assert owner.kafka.sinks[FAST].offsets == [0, 1, 2]
        owner.kafka.sinks[SLOW].room = 1
        await until(lambda: bool(owner.kafka.sinks[SLOW].queue))  # nobody tells of room: it is asked for
        await owner.acknowledge(SLOW, 1)
        assert [offset_of(row) for row, _ in owner.kafka.sinks[SLOW].queue] == [1]
        await owner.die()

    in_a_loop(scenario)


def test_rows_that_were_never_handed_over_come_before_the_spool(tmp_path: Path) -> None:
    async def scenario() -> None:
        owner = started(tmp_path)
        slow = owner.kafka.sinks[SLOW]
        slow.room = 0
        await owner.queue_records(3)
        await owner.passes(STALL_S + 2)
        await owner.queue_records(3)
        slow.room = 1_000
        await owner.comes_back(SLOW)
        assert slow.offsets == list(range(6))
        await owner.commit_loop.drain()

    in_a_loop(scenario)


def test_a_feed_that_lacks_rows_from_elsewhere_is_not_attached(tmp_path: Path) -> None:
    """Keys with a gap came to the partition meanwhile: the spool does not have what they lack."""

    async def scenario() -> None:
        owner = await detached(tmp_path)
        feed = owner.processor.feeds[SLOW]
        owner.processor.feeds[SLOW] = replace(feed, mode="stalled")
        await owner.comes_back(SLOW)
        assert owner.kafka.sinks[SLOW].offsets == [0, 1, 2, 0, 1, 2]
        assert owner.kafka.named(SLOW) == 2
        await owner.commit_loop.drain()

    in_a_loop(scenario)


def test_a_full_spool_stalls_the_feed(tmp_path: Path) -> None:
    async def scenario() -> None:
        owner = await detached(tmp_path, spool_bytes=5 * VALUE_BYTES)
        await owner.queue_records(10)
        assert owner.report(SLOW) == OutletReport(SLOW, OutletState.STALLED, 3 * ROW_BYTES, 0)
        assert owner.kafka.position == 12
        await owner.comes_back(SLOW)
        assert owner.kafka.sinks[SLOW].offsets == [0, 1, 2, *range(13)], "scanned for, from the gap on"
        assert (owner.kafka.named(SLOW), owner.kafka.gap(SLOW)) == (12, None)
        await owner.queue_records(1)
        assert owner.kafka.named(SLOW) == 13
        await owner.commit_loop.drain()

    in_a_loop(scenario)


def test_what_a_stalled_feed_has_thrown_away_waits_no_more(tmp_path: Path) -> None:
    async def scenario() -> None:
        owner = started(tmp_path, spool_bytes=2 * VALUE_BYTES)
        owner.kafka.sinks[SLOW].room = 1
        await owner.queue_records(3)
        await owner.passes(STALL_S + 2)
        await owner.queue_records(10)
        assert owner.report(SLOW) == OutletReport(SLOW, OutletState.STALLED, ROW_BYTES, 0)
        await owner.commit_loop.drain()

    in_a_loop(scenario)


def test_a_spool_that_cannot_be_written_stalls_the_feed(tmp_path: Path) -> None:
    async def scenario() -> None:
        (tmp_path / "file").write_bytes(b"")
        owner = await detached(tmp_path / "file")
        await owner.queue_records(1)
        assert owner.report(SLOW).state is OutletState.STALLED
        await owner.comes_back(SLOW)
        assert owner.kafka.named(SLOW) == 3
        await owner.commit_loop.drain()

    in_a_loop(scenario)


def test_a_spool_that_cannot_be_read_stalls_the_feed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        owner = await detached(tmp_path)
        await owner.queue_records(4)

        def broken(file: object) -> OutputRecord:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(tidegate.worker.output.spool, "_read", broken)
        await owner.comes_back(SLOW)
        assert owner.kafka.sinks[SLOW].offsets == [0, 1, 2, *range(7)]
        assert owner.kafka.named(SLOW) == 6
        await owner.commit_loop.drain()

    in_a_loop(scenario)


def test_a_feed_that_is_catching_up_is_stalled_when_its_sink_stops_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        owner = await detached(tmp_path)
        await owner.die()
        successor = Owner(owner.kafka, tmp_path)
        await successor.queue_records(3)
        await successor.passes(STALL_S + 2)
        assert successor.report(SLOW).state is OutletState.STALLED
        assert (owner.kafka.position, owner.kafka.gap(SLOW)) == (5, 0)
        await successor.comes_back(SLOW)
        assert owner.kafka.named(SLOW) == 5
        await successor.commit_loop.drain()

    in_a_loop(scenario)


def test_the_pause_before_a_feed_is_resumed_grows_while_its_sink_flaps(tmp_path: Path) -> None:
    async def scenario() -> None:
        owner = await detached(tmp_path, spool_bytes=0)
        await owner.queue_records(1)
        pauses = [await owner.flaps(SLOW) for _ in range(4)]
        asked = [0, STALL_S, 2 * STALL_S, 4 * STALL_S]
        early = 3  # a pause is counted from the stall, which is as much before the end of ``flaps``
        assert all(full - early <= seconds <= full for seconds, full in zip(pauses, asked, strict=True))
        await owner.comes_back(SLOW)
        await owner.passes(64)
        assert (owner.report(SLOW), owner.kafka.gap(SLOW)) == (OutletReport(SLOW), None)
        await owner.commit_loop.drain()

    in_a_loop(scenario)
