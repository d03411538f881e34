"""Tests how long an outlet lets batches wait for a sink that flapped, and how soon that is over."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Final

import pytest

from tidegate.changefeed.definition.feed import FeedId
from tidegate.processor.batch import OutputRecord
from tidegate.worker.output.barrier import Barrier
from tidegate.worker.output.outlet import Outlet, OutletChange, OutletLimits, OutletState

_STALL_S: Final = 16.0
_ROW_BYTES: Final = 10
_MEMORY_BYTES: Final = 1_000


class _Sink:
    """Acknowledges when it is told to."""

    is_over = False

    def __init__(self) -> None:
        self._waiting: deque[Barrier] = deque()

    is_held = False

    def send(self, rows: Sequence[OutputRecord], barrier: Barrier, first: int = 0) -> int:
        self._waiting.extend([barrier] * (len(rows) - first))
        return len(rows)

    async def acknowledge(self, rows: int) -> None:
        for _ in range(min(rows, len(self._waiting))):
            self._waiting.popleft().row_acknowledged()
        await asyncio.sleep(0)


class _Feed:
    """Stalled each time that it is detached, as one that catches up is, unless ``stalls`` is false."""

    def __init__(self, directory: Path) -> None:
        limits = OutletLimits(directory, _MEMORY_BYTES, 0, _STALL_S, _STALL_S)
        self.sink = _Sink()
        self.outlet = Outlet(FeedId("feed"), lambda: self.sink, limits, lambda: None)
        self.now = 0.0
        self.stalls = True

    def batch(self, rows: int) -> None:
        row = OutputRecord(FeedId("feed"), 0, b"k", b"v" * (_ROW_BYTES - 1), 0, [])
        self.outlet.queue_rows([row] * rows, self.outlet.barrier(rows))
        self.outlet.hand_over()

    def passes(self) -> OutletChange | None:
        """A second; what comes of it is done."""
        self.now += 1.0
        change = self.outlet.look(self.now)
        if change is not None:
            self.outlet.become(change, self.now)
            if change is OutletChange.DETACH and self.stalls:
                self.outlet.become(OutletChange.STALL, self.now)
        return change

    async def flaps(self, times: int) -> None:
        """The sink takes nothing while batches wait for it."""
        for _ in range(times):
            self.batch(1)
            while self.passes() is not OutletChange.DETACH:
                pass
            await self.sink.acknowledge(1)
            while self.passes() is not OutletChange.RESUME:
                pass

    async def follows(self, seconds: int) -> None:
        """Each batch is acknowledged within a second."""
        for _ in range(seconds):
            self.batch(1)
            await self.sink.acknowledge(1)
            assert self.passes() is None

    async def trickles(self, every_s: int) -> float:
        """A row is acknowledged every so often; gives the seconds until that is waited for no more."""
        begun = self.now
        while True:
            if (self.now - begun) % every_s == every_s - 1:
                await self.sink.acknowledge(1)
            if self.passes() is OutletChange.DETACH:
                return self.now - begun


def _run(directory: Path, scenario: Callable[[_Feed], Coroutine[None, None, None]]) -> None:
    async def main() -> None:
        await scenario(_Feed(directory))

    asyncio.run(main())


def test_a_feed_that_flapped_is_given_more_time_for_a_batch(tmp_path: Path) -> None:
    async def scenario(feed: _Feed) -> None:
        await feed.flaps(7)
        feed.batch(50)
        assert await feed.trickles(10) == pytest.approx(6 * _STALL_S, abs=2)

    _run(tmp_path, scenario)


def test_that_is_over_when_its_sink_has_followed(tmp_path: Path) -> None:
    async def scenario(feed: _Feed) -> None:
        await feed.flaps(7)
        await feed.follows(21 * int(_STALL_S))
        feed.batch(50)
        assert await feed.trickles(10) == pytest.approx(_STALL_S, abs=2)

    _run(tmp_path, scenario)


def test_that_is_over_when_nothing_came_for_long(tmp_path: Path) -> None:
    async def scenario(feed: _Feed) -> None:
        await feed.flaps(7)
        for _ in range(41 * int(_STALL_S)):
            assert feed.passes() is None
        feed.batch(50)
        assert await feed.trickles(10) == pytest.approx(_STALL_S, abs=2)

    _run(tmp_path, scenario)


def test_what_was_used_up_is_not_given_again_without_a_pause(tmp_path: Path) -> None:
    """A feed that is attached was spooling for as long as its sink took, which may be short."""

    async def scenario(feed: _Feed) -> None:
        await feed.flaps(7)
        feed.batch(50)
        feed.stalls = False
        await feed.trickles(10)
        await feed.sink.acknowledge(50)
        assert feed.passes() is OutletChange.ATTACH
        feed.batch(50)
        assert await feed.trickles(10) == pytest.approx(_STALL_S, abs=2)

    _run(tmp_path, scenario)


def test_too_much_in_memory_is_waited_for_no_longer_than_of_any_feed(tmp_path: Path) -> None:
    async def scenario(feed: _Feed) -> None:
        await feed.flaps(7)
        feed.batch(50)
        feed.batch(_MEMORY_BYTES // _ROW_BYTES)
        assert await feed.trickles(10) == pytest.approx(_STALL_S / 4, abs=2)

    _run(tmp_path, scenario)


@pytest.mark.parametrize("rows", [4, 9, 1_000])
def test_a_sink_that_trickles_for_good_is_waited_for_less_than_half_of_the_time(
    tmp_path: Path, rows: int
) -> None:
    """Whether it gets through batches in the time that it is given, or never does."""

    async def scenario(feed: _Feed) -> None:
        waited_s = 0
        for second in range(40_000):
            if feed.outlet.state is OutletState.LIVE:
                waited_s += 1
                if feed.outlet.is_empty:
                    feed.batch(rows)
            stalled = feed.outlet.state is OutletState.STALLED
            if stalled or second % 10 == 9:
                await feed.sink.acknowledge(1_000 if stalled else 1)
            feed.passes()
        assert waited_s < 40_000 * 2 / 5

    _run(tmp_path, scenario)
