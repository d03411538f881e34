"""The feeds of the server's application, looked up for all clients together.

A look of this module is the *table look* of docs/serve.md.

1. A statement comes. If the last look ended more than ``fresh_s`` ago, a new one begins. There is one at a
   time, in a thread of its own.
2. The statement waits for the look. If what is known is at most ``stale_s`` old, it waits ``patience_s``, and
   is planned by what is known then. Otherwise it waits ``wait_s``, and ends by ``RetryError`` then.
3. A statement that cannot be planned by a look older than itself waits for a look that begins after it. So a
   table or a column is found that was made a moment ago.

Failure cases: a look fails: all that wait for it get its error, and the next statement begins another. A look
takes long: it goes on, although statements wait no more. A client is gone in step 2 or 3: the look goes on
for the others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tidegate.client.subscribe.feed_catalog import FeedCatalog
from tidegate.errors import RetryError
from tidegate.subscribe.updates.relation import Relations


@dataclass(frozen=True, slots=True)
class LookTimes:
    """The ages up to which a look counts, and the times for which a statement waits for a new one.

    Attributes:
        fresh_s: seconds after a look without another one.
        stale_s: the age of a look up to which statements are planned by it while the next one is slow.
        patience_s: how long a statement waits for the next one before it is.
        wait_s: how long a statement waits that cannot be planned by what is known.
        again_s: the age of a look that is as good as a new one for a statement that cannot be planned. So
            mistakes in statements cause one look in that time, and no more.
    """

    fresh_s: float = 5.0
    stale_s: float = 60.0
    patience_s: float = 2.0
    wait_s: float = 20.0
    again_s: float = 1.0


@dataclass(frozen=True, slots=True)
class FeedsSeen:
    """The result of one look. ``begun`` and ``ended`` are by the monotonic clock, in seconds."""

    catalog: FeedCatalog
    relations: Relations
    begun: float
    ended: float


class KnownFeeds:
    """Looks the feeds up: calls ``look`` in a thread of its own, never twice at a time.

    All calls have to come from one event loop. ``clock`` is a monotonic one, in seconds.
    """

    def __init__(
        self,
        look: Callable[[], FeedCatalog],
        times: LookTimes | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look = look
        self._times = times or LookTimes()
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, "catalog")
        self._seen: FeedsSeen | None = None
        self._looking: asyncio.Future[FeedsSeen] | None = None
        self._begun = 0.0

    async def now(self) -> FeedsSeen:
        """Return the feeds as the last look has found them, or a new one. Raises as ``look`` does, and
        ``RetryError`` where that takes too long.
        """
        seen, now, times = self._seen, self._clock(), self._times
        if seen is not None and self._looking is None and now <= seen.ended + times.fresh_s:
            return seen
        looking = self._begin()
        if seen is not None and now <= seen.begun + times.stale_s:
            await asyncio.wait({looking}, timeout=times.patience_s)
            return looking.result() if looking.done() else seen
        return await self._result(looking, now + times.wait_s)

    async def newer(self, asked: float) -> FeedsSeen:
        """Return the feeds for a statement of the time ``asked`` that those of ``now`` do not suffice for.

        Raises as ``now`` does.
        """
        return await self._since(asked - self._times.again_s, self._clock() + self._times.wait_s)

    async def refresh(self) -> None:
        """Look at the feeds anew, however long that takes. Raises as ``look`` does."""
        await self._since(self._clock(), None)

    def close(self) -> None:
        """Begin no look any more."""
        self._thread.shutdown(wait=False)

    async def _since(self, begun: float, until: float | None) -> FeedsSeen:
        """Return what a look has found that began at ``begun`` or later."""
        if self._looking is not None and self._begun < begun:
            await self._ended(self._looking, until)  # its failure is not that of the look behind it
        if self._looking is None and self._seen is not None and self._seen.begun >= begun:
            return self._seen
        return await self._result(self._begin(), until)

    def _begin(self) -> asyncio.Future[FeedsSeen]:
        """Return the look that is under way, or a new one."""
        if self._looking is None or self._looking.done():
            self._begun = self._clock()
            loop = asyncio.get_running_loop()
            self._looking = loop.run_in_executor(self._thread, self._look_once, self._begun)
            self._looking.add_done_callback(self._note)
        return self._looking

    def _look_once(self, begun: float) -> FeedsSeen:
        catalog = self._look()
        return FeedsSeen(catalog, catalog.relations(), begun, self._clock())

    def _note(self, looking: asyncio.Future[FeedsSeen]) -> None:
        if self._looking is looking:
            self._looking = None
        if not looking.cancelled() and looking.exception() is None:
            self._seen = looking.result()

    async def _result(self, looking: asyncio.Future[FeedsSeen], until: float | None) -> FeedsSeen:
        await self._ended(looking, until)
        return looking.result()

    async def _ended(self, looking: asyncio.Future[FeedsSeen], until: float | None) -> None:
        """Wait for the end of a look, however it ends. Raises ``RetryError`` if that comes too late."""
        left_s = None if until is None else max(until - self._clock(), 0)
        await asyncio.wait({looking}, timeout=left_s)
        if not looking.done():
            raise RetryError(
                f"The feeds are being looked up since {self._clock() - self._begun:.0f} s: Kafka is slow, or "
                "much was written to the log since the last statement. That goes on; try again soon."
            )
