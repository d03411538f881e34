"""The end of the process around the application."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from app.worker import BatchWorker

_FAUST_WAITS_S: Final = 1.0


def _last_of(worker: BatchWorker, cancelled_ends_after_s: float | None) -> tuple[float, bool]:
    """Return how long the last step of the loop takes, and whether a task that is cancelled before has
    ended."""
    ended = cancelled_ends_after_s is None

    async def release() -> None:
        nonlocal ended
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(cancelled_ends_after_s or 0)
            ended = True

    async def end() -> tuple[float, bool]:
        if cancelled_ends_after_s is not None:
            task = asyncio.ensure_future(release())
            await asyncio.sleep(0)
            task.cancel()
        begun = time.monotonic()
        await worker._sentinel_task()
        return time.monotonic() - begun, ended

    return asyncio.run(end())


def test_the_loop_ends_at_once_when_nothing_is_left_to_end() -> None:
    took_s, _ = _last_of(BatchWorker.__new__(BatchWorker), None)
    assert took_s < _FAUST_WAITS_S


def test_a_cancelled_task_comes_to_its_end_before_the_loop_does() -> None:
    took_s, ended = _last_of(BatchWorker.__new__(BatchWorker), 0.05)
    assert ended
    assert took_s < _FAUST_WAITS_S
