"""``async for``: nothing is lost by a cancellation, and a slow consumer holds back the reader."""

from __future__ import annotations

import asyncio
import random

import pytest

from tests.unit.client.subscribe.gated_source import GatedSubscription, NumberedBatch
from tidegate.client.subscribe.batch_stream import BatchStream, in_thread
from tidegate.errors import HistoryLost


def test_batches_come_in_their_order_until_the_end() -> None:
    async def numbers() -> list[int]:
        async with GatedSubscription(let_out=20, last=20) as subscription:
            return [batch.number async for batch in subscription]

    assert asyncio.run(numbers()) == list(range(20))


@pytest.mark.parametrize("ahead", [1, 3])
def test_no_more_batches_are_read_than_have_a_place(ahead: int) -> None:
    async def consume() -> None:
        async with GatedSubscription(let_out=100, last=100) as subscription:
            stream = subscription.stream(ahead)
            await in_thread(subscription.wait_until_given, ahead)
            for taken in range(1, 100 - ahead):
                await anext(stream)
                assert subscription.given <= taken + ahead
                await in_thread(subscription.wait_until_given, taken + ahead)

    asyncio.run(consume())


def test_a_place_less_than_one_is_refused() -> None:
    async def consume() -> None:
        with pytest.raises(ValueError, match="0 batches ahead"):
            BatchStream(GatedSubscription(), 0)

    asyncio.run(consume())


@pytest.mark.parametrize("seed", range(5))
def test_a_call_that_is_cancelled_at_any_moment_loses_no_batch(seed: int) -> None:
    draw = random.Random(seed)

    async def consume() -> list[int]:
        found: list[int] = []
        async with GatedSubscription(last=100) as subscription:
            stream = subscription.stream()
            while len(found) < 100:
                asked = asyncio.ensure_future(anext(stream))
                for _ in range(draw.randrange(4)):
                    await asyncio.sleep(0)
                subscription.let_out(draw.randrange(2))
                for _ in range(draw.randrange(4)):
                    await asyncio.sleep(0)
                asked.cancel()
                try:
                    found.append((await asked).number)
                except asyncio.CancelledError:
                    subscription.let_out(len(found) == subscription.given)
                except StopAsyncIteration:
                    break
        return found

    assert asyncio.run(consume()) == list(range(100))


def test_an_error_comes_behind_the_batches_before_it_and_at_every_later_call() -> None:
    async def consume() -> None:
        lost = HistoryLost("gone")
        async with GatedSubscription(let_out=2, last=2, error=lost) as subscription:
            stream = subscription.stream()
            assert [(await anext(stream)).number for _ in range(2)] == [0, 1]
            for _ in range(2):
                with pytest.raises(HistoryLost) as failure:
                    await anext(stream)
                assert failure.value is lost

    asyncio.run(consume())


def test_the_end_reaches_all_that_wait() -> None:
    async def consume() -> None:
        async with GatedSubscription(last=0) as subscription:
            stream = subscription.stream()
            ended = await asyncio.gather(*(anext(stream, None) for _ in range(3)))
            assert ended == [None] * 3

    asyncio.run(consume())


def test_leaving_a_loop_and_the_subscription_ends_its_thread_and_closes_it_once() -> None:
    async def consume() -> tuple[GatedSubscription, BatchStream[NumberedBatch]]:
        async with GatedSubscription(let_out=5) as subscription:
            async for batch in subscription:
                if batch.number == 2:
                    break
            return subscription, subscription.stream()

    subscription, stream = asyncio.run(consume())
    assert subscription.closed == 1
    stream.stop()  # returns at once: the thread has ended


def test_with_closes_it_too_and_one_that_waits_gets_the_end() -> None:
    async def consume() -> None:
        with GatedSubscription() as subscription:
            asked = asyncio.ensure_future(anext(subscription.stream(), None))
            await asyncio.sleep(0)
        assert await asked is None
        assert subscription.closed == 1

    asyncio.run(consume())


def test_a_cancelled_task_waits_for_its_thread_before_it_ends() -> None:
    async def close() -> int:
        async def use() -> None:
            async with GatedSubscription() as subscription:
                opened.append(subscription)
                await anext(subscription.stream())

        opened: list[GatedSubscription] = []
        task = asyncio.ensure_future(use())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return opened[0].closed

    assert asyncio.run(close()) == 1


def test_a_task_that_is_cancelled_again_and_again_closes_its_subscription_behind_its_thread() -> None:
    async def close() -> tuple[int, bool]:
        async def use() -> None:
            async with GatedSubscription() as subscription:
                opened.append(subscription)
                await anext(subscription.stream())

        opened: list[GatedSubscription] = []
        task = asyncio.ensure_future(use())
        while not task.done():
            await asyncio.sleep(0.01)
            task.cancel()
        reader = opened[0].stream()
        return opened[0].closed, reader._thread.is_alive()

    assert asyncio.run(close()) == (1, False)
