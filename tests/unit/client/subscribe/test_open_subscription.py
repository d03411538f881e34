"""Callbacks: a token is stored when its callback has returned, never before."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.client.subscribe.gated_source import GatedSubscription, NumberedBatch
from tidegate.client.subscribe.state.checkpoint import fenced
from tidegate.errors import CallInterrupted, Fenced, HistoryLost


class Stored:
    """A checkpoint in memory that writes down what happens when."""

    name, epoch, token = "c", 1, None

    def __init__(self, events: list[str], *, fence: bool = False) -> None:
        self._events = events
        self.fence = fence

    def commit(self, token: str) -> None:
        if self.fence:
            raise fenced(self.name, self.epoch, "by a test")
        self._events.append(token)

    def require_held(self) -> None:
        if self.fence:
            raise fenced(self.name, self.epoch, "by a test")
        self._events.append("held")

    def close(self) -> None:
        """Nothing is open."""


def test_the_first_batch_is_the_snapshots_and_each_token_is_stored_behind_its_callback() -> None:
    events: list[str] = []
    subscription = GatedSubscription(let_out=3, last=3)
    subscription.deliver(
        lambda batch: events.append(f"snapshot {batch.number}"),
        lambda batch: events.append(f"update {batch.number}"),
        Stored(events),
    )
    assert events == ["snapshot 0", "token 0", "update 1", "token 1", "update 2", "token 2"]
    assert subscription.settled == [0, 1, 2]


def test_awaited_callbacks_are_called_in_the_same_way() -> None:
    events: list[str] = []

    async def on_snapshot(batch: NumberedBatch) -> None:
        await asyncio.sleep(0)
        events.append(f"snapshot {batch.number}")

    async def on_update(batch: NumberedBatch) -> None:
        await asyncio.sleep(0)
        events.append(f"update {batch.number}")

    async def consume() -> None:
        async with GatedSubscription(let_out=2, last=2) as subscription:
            await subscription.deliver_async(on_snapshot, on_update, Stored(events))
            assert subscription.settled == [0, 1]

    asyncio.run(consume())
    assert events == ["snapshot 0", "token 0", "update 1", "token 1"]


def test_the_checkpoint_is_asked_for_before_each_chunk_and_stores_a_token_behind_the_last() -> None:
    events: list[str] = []

    async def on_snapshot(batch: NumberedBatch) -> None:
        events.append(f"snapshot {batch.number}")

    async def consume() -> None:
        async with GatedSubscription(let_out=4, last=4, chunks=2) as subscription:
            await subscription.deliver_async(on_snapshot, on_snapshot, Stored(events))

    GatedSubscription(let_out=4, last=4, chunks=2).deliver(
        lambda batch: events.append(f"snapshot {batch.number}"),
        lambda batch: events.append(f"snapshot {batch.number}"),
        Stored(events),
    )
    expected = ["held", "snapshot 0", "held", "snapshot 1", "snapshot 2", "token 2", "snapshot 3", "token 3"]
    assert events == expected
    events.clear()
    asyncio.run(consume())
    assert events == expected


def test_a_process_that_is_fenced_between_chunks_writes_no_further_one() -> None:
    subscription = GatedSubscription(let_out=4, last=4, chunks=3)
    stored = Stored([])
    written: list[int] = []

    def on_snapshot(batch: NumberedBatch) -> None:
        written.append(batch.number)
        stored.fence = batch.number == 1  # another process acquires the name meanwhile

    with pytest.raises(Fenced):
        subscription.deliver(on_snapshot, on_snapshot, stored)
    assert written == [0, 1]


def test_a_callback_that_raises_stores_no_token_and_settles_nothing() -> None:
    events: list[str] = []
    subscription = GatedSubscription(let_out=3, last=3)

    def fail(batch: NumberedBatch) -> None:
        raise KeyError(batch.number)

    with pytest.raises(KeyError):
        subscription.deliver(lambda _: None, fail, Stored(events))
    assert (events, subscription.settled) == (["token 0"], [0])
    with pytest.raises(KeyError):
        subscription.next(0)  # which would be after the batch that was not delivered


def test_a_callback_that_is_interrupted_ends_the_subscription() -> None:
    subscription = GatedSubscription(let_out=3, last=3)

    def interrupt(_: NumberedBatch) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        subscription.deliver(lambda _: None, interrupt)
    for _ in range(2):
        with pytest.raises(CallInterrupted):
            subscription.deliver(lambda _: None, lambda _: None)
    assert subscription.settled == [0]


def test_an_awaited_callback_that_is_cancelled_ends_the_subscription() -> None:
    async def never(_: NumberedBatch) -> None:
        began.set()
        await asyncio.Event().wait()

    async def consume() -> None:
        async with GatedSubscription(let_out=3, last=3) as subscription:
            delivery = asyncio.ensure_future(subscription.deliver_async(never, never))
            await began.wait()
            delivery.cancel()
            with pytest.raises(asyncio.CancelledError):
                await delivery
            for _ in range(2):
                with pytest.raises(CallInterrupted):
                    await anext(subscription.stream())
            assert subscription.settled == []

    began = asyncio.Event()
    asyncio.run(consume())


def test_a_checkpoint_that_another_process_holds_ends_it_unsettled() -> None:
    subscription = GatedSubscription(let_out=3, last=3)
    with pytest.raises(Fenced):
        subscription.deliver(lambda _: None, lambda _: None, Stored([], fence=True))
    assert subscription.settled == []


def test_an_error_is_raised_again_at_every_later_call() -> None:
    subscription = GatedSubscription(last=0, error=HistoryLost("gone"))
    for _ in range(2):
        with pytest.raises(HistoryLost, match="gone"):
            subscription.next(0)
