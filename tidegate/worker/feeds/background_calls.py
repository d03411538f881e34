"""Calls to Kafka clusters for which a jobs agent does not wait.

A call may take long: the cluster may not answer, or topics of a feed may have too few replicas in sync.
Meanwhile the agent takes the steps of other feeds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from tidegate.changefeed.definition.feed import FeedId

#: A feed, its epoch, and the step that the call is for. Each step has one call at a time.
Purpose: TypeAlias = tuple[FeedId, int, str]


class BackgroundCalls:
    """The calls of one jobs agent that are under way. ``look_at`` is called with the feed after each."""

    def __init__(self, look_at: Callable[[FeedId], None]) -> None:
        self._look_at = look_at
        self._tasks: dict[Purpose, asyncio.Task[None]] = {}

    def has_returned(self, purpose: Purpose, call: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        """Return whether the call for ``purpose`` has ended. If there is none, begin ``call``.

        Raises what the call raised. The end of a call is told only once; after that the next question begins
        another call.
        """
        task = self._tasks.get(purpose)
        if task is None:
            task = self._tasks[purpose] = asyncio.create_task(call(), name=f"{purpose[2]} of {purpose[0]}")
            task.add_done_callback(lambda _: self._look_at(purpose[0]))
        if not task.done():
            return False
        del self._tasks[purpose]
        task.result()
        return True

    async def close(self) -> None:
        """Wait for the calls that are under way. Nobody asks how they ended."""
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
