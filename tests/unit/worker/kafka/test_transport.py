"""Tests what the transport asks of aiokafka's inner parts."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.consumer.fetcher import Fetcher
from faust.types import TP

from tidegate.worker.kafka import transport
from tidegate.worker.kafka.transport import BatchConsumerThread


def test_waiting_in_vain_leaves_no_waiter_behind() -> None:
    async def run() -> int:
        waiting: Any = SimpleNamespace(_fetch_waiters=set(), _loop=asyncio.get_running_loop())
        waiting._create_fetch_waiter = lambda: Fetcher._create_fetch_waiter(waiting)
        for _ in range(3):
            await transport._arrival(waiting)
        await asyncio.sleep(0)
        return len(waiting._fetch_waiters)

    assert asyncio.run(run()) == 0


def test_what_the_consumers_thread_fetches_for_is_not_changed_by_the_loop() -> None:
    asked: list[Any] = []

    class Thread(BatchConsumerThread):
        def __init__(self) -> None: ...

        def _ensure_consumer(self) -> Any:
            return SimpleNamespace(_max_poll_records=10)

        async def call_thread(self, fetch: Any, consumer: Any, active: Any, **_: Any) -> Any:
            asked.append(active)

    flowing = {TP("log", 0)}
    asyncio.run(Thread().getmany(flowing, 1.0))
    flowing.clear()
    assert asked == [{TP("log", 0)}]


def test_no_partition_is_not_every_partition() -> None:
    """To aiokafka's fetcher an empty set means all; it would drop what it has fetched for them."""

    async def run() -> Any:
        consumer: Any = SimpleNamespace(
            _subscription=SimpleNamespace(
                subscription=SimpleNamespace(assignment=SimpleNamespace(active=True, tps={TP("log", 0)})),
                reassignment_in_progress=False,
            ),
            _fetcher=None,  # must not be asked
        )
        thread = BatchConsumerThread.__new__(BatchConsumerThread)
        return await thread._drain(consumer, frozenset(), None)

    assert asyncio.run(run()) == []


def test_a_commit_that_finds_no_coordinator_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_COMMIT_WAIT_S", 0.01)

    class Thread(BatchConsumerThread):
        def __init__(self) -> None: ...

        def assignment(self) -> Any:
            return {TP("log", 0)}

        def _ensure_consumer(self) -> Any:
            return SimpleNamespace(commit=lambda _: asyncio.Event().wait())

    assert asyncio.run(asyncio.wait_for(Thread()._commit({TP("log", 0): 7}), 10)) is False
