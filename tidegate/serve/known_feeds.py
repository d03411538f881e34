"""The feeds of the server's application, looked up for all clients together.

A look of this module is the *table look* of docs/serve.md.

1. A statement comes. If the last look ended more than ``fresh_s`` ago, a new one begins. Only one look runs
   at a time, in a thread of its own.
2. The statement waits for the look. If the last look is at most ``stale_s`` old, the statement waits up to
   ``patience_s``, and is then planned by the last look. Otherwise it waits up to ``wait_s``, and then ends
   with ``RetryError``.
3. If a statement cannot be planned by a look that is older than the statement, it waits for a look that
   begins later. So a table or a column is found even if it was made a moment ago.

Failure cases: a look fails: all statements that wait for it get its error, and the next statement begins
another look. A look takes long: it goes on, although statements do not wait for it any more. A client is gone
in step 2 or 3: the look goes on for the others.
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
        fresh_s: how many seconds after the end of a look no new one begins.
        stale_s: the greatest age of a look by which statements are planned while the next look is slow.
        patience_s: how long a statement waits for the next look before it is planned by the last one.
        wait_s: how long a statement waits if it cannot be planned by what is known.
        again_s: a statement that cannot be planned needs a new look only if the last one began more than this
            before the statement. So mistakes in statements cause at most one look in this time.
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
    """Looks the feeds up. It calls ``look`` in a thread of its own, and only once at a time.

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
        """Return the feeds as the last look, or a new one, has found them. Raises as ``look`` does, and
        ``RetryError`` if a new look takes too long.
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
        """Return the feeds for a statement that came at ``asked`` and cannot be planned by those of ``now``.

        Raises as ``now`` does.
        """
        return await self._since(asked - self._times.again_s, self._clock() + self._times.wait_s)

    async def refresh(self) -> None:
        """Look at the feeds anew, however long that takes. Raises as ``look`` does."""
        await self._since(self._clock(), None)

    def close(self) -> None:
        """Begin no new look from now on."""
        self._thread.shutdown(wait=False)

    async def _since(self, begun: float, until: float | None) -> FeedsSeen:
        """Return the result of a look that began at ``begun`` or later."""
        if self._looking is not None and self._begun < begun:
            await self._ended(self._looking, until)  # if it fails, the next look may still succeed
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
        """Wait for the end of a look, however it ends. Raises ``RetryError`` if it lasts beyond ``until``."""
        left_s = None if until is None else max(until - self._clock(), 0)
        await asyncio.wait({looking}, timeout=left_s)
        if not looking.done():
            raise RetryError(
                f"The feeds are being looked up since {self._clock() - self._begun:.0f} s: Kafka is slow, or "
                "much was written to the log since the last statement. That goes on; try again soon."
            )
