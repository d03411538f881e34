"""Tests that nothing which runs beside everything else fails in silence."""

from __future__ import annotations

import asyncio

import pytest

import tidegate.worker.kafka.jobs_follower
import tidegate.worker.process.ending
from tests.unit.worker.ended_process import Ended
from tidegate.errors import StateError


def test_a_guarded_task_that_fails_ends_the_process(reasons: list[BaseException]) -> None:
    async def fail() -> None:
        raise StateError("damaged")

    async def main() -> None:
        with pytest.raises(Ended):
            await tidegate.worker.process.ending.guarded_task(fail(), "a task")

    asyncio.run(main())
    assert [str(reason) for reason in reasons] == ["damaged"]


def test_a_cancelled_guarded_task_ends_nothing(reasons: list[BaseException]) -> None:
    async def main() -> None:
        task = tidegate.worker.process.ending.guarded_task(asyncio.sleep(3600), "a task")
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert reasons == []
