"""A jobs agent asks whether a call has returned, and never waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from tidegate.changefeed.definition.feed import FeedId
from tidegate.errors import RetryError
from tidegate.worker.feeds.background_calls import BackgroundCalls

_FEED = FeedId("feed")


def _run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 10))


def test_a_call_is_made_once_and_its_feed_is_looked_at_behind_it() -> None:
    async def main() -> None:
        looked_at: asyncio.Queue[FeedId] = asyncio.Queue()
        calls, answer, begun = BackgroundCalls(looked_at.put_nowait), asyncio.Event(), 0

        async def call() -> None:
            nonlocal begun
            begun += 1
            await answer.wait()

        for _ in range(3):
            assert not calls.has_returned((_FEED, 1, "a fence"), call)
            await asyncio.sleep(0)
        assert begun == 1
        assert looked_at.empty()
        answer.set()
        assert await looked_at.get() == _FEED
        assert calls.has_returned((_FEED, 1, "a fence"), call)
        assert not calls.has_returned((_FEED, 1, "a fence"), call), "the answer was told"
        await calls.close()

    _run(main())


def test_a_call_for_another_epoch_or_step_is_another_call() -> None:
    async def main() -> None:
        calls, made = BackgroundCalls(lambda _: None), list[str]()

        async def call(name: str) -> None:
            made.append(name)

        assert not calls.has_returned((_FEED, 1, "a fence"), lambda: call("the first"))
        assert not calls.has_returned((_FEED, 2, "a fence"), lambda: call("the epoch's"))
        assert not calls.has_returned((_FEED, 1, "a question"), lambda: call("the step's"))
        await calls.close()
        assert sorted(made) == ["the epoch's", "the first", "the step's"]

    _run(main())


def test_what_a_call_raises_is_raised_once_and_the_call_is_made_again() -> None:
    async def main() -> None:
        looked_at: asyncio.Queue[FeedId] = asyncio.Queue()
        calls, failures = BackgroundCalls(looked_at.put_nowait), [RetryError("a broker is away")]

        async def call() -> None:
            if failures:
                raise failures.pop()

        assert not calls.has_returned((_FEED, 1, "a fence"), call)
        await looked_at.get()
        with pytest.raises(RetryError, match="a broker is away"):
            calls.has_returned((_FEED, 1, "a fence"), call)
        assert not calls.has_returned((_FEED, 1, "a fence"), call)
        await looked_at.get()
        assert calls.has_returned((_FEED, 1, "a fence"), call)

    _run(main())
