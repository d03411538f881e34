"""A subscription with a reader of its own, which reads Kafka in threads.

It reads only while somebody asks for its next batch: a slow client holds back only itself.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from tidegate.client.subscribe import LiveSubscription
from tidegate.errors import LimitExceeded
from tidegate.serve.held_batches import count_batch
from tidegate.serve.kept_memory import KeptShare, SubscriptionClosed
from tidegate.serve.metrics import ServeCounts
from tidegate.serve.stream_source import ShownType, StreamColumns
from tidegate.subscribe.subscription import SubscriptionBatch
from tidegate.subscribe.updates.frontier import Frontier
from tidegate.subscribe.updates.update import RowValues

#: The longest time for which a thread waits for a batch in one call. After ``close`` a stream may take this
#: time to end.
_POLL_S: Final = 0.5


class FeedStream:
    """One open subscription: see ``SubscriptionStream``."""

    def __init__(
        self,
        live: LiveSubscription,
        columns: StreamColumns,
        threads: ThreadPoolExecutor,
        closed: Callable[[FeedStream], object],
        opening: Sequence[RowValues] = (),
        counts: ServeCounts | None = None,
        share: KeptShare | None = None,
    ) -> None:
        """``opening`` are the rows before all batches. ``counts`` counts the batches that this stream gives;
        it is ``None`` if another stream passes them on and counts them. ``share`` counts the memory of this
        subscription: of its reader, and of batches that its client has not taken yet.
        """
        self._share = share
        self._counts = counts
        self._live = live
        self._columns = columns
        self._threads = threads
        self._closed = closed
        self._reading: asyncio.Future[SubscriptionBatch | None] | None = None
        self._is_closed = False
        self._failure: LimitExceeded | None = None
        self._closing: asyncio.Future[None] | None = None
        self._opening = (
            SubscriptionBatch(Frontier(live.as_of), tuple(opening), False, None, False) if opening else None
        )

    @property
    def header(self) -> tuple[str, ...]:
        """See ``SubscriptionStream``."""
        return self._columns.header

    @property
    def types(self) -> tuple[ShownType, ...]:
        """See ``SubscriptionStream``."""
        return self._columns.types

    async def next(self) -> SubscriptionBatch | None:
        """See ``SubscriptionStream``."""
        if self._failure is not None:
            raise self._failure
        if self._opening is not None:
            opening, self._opening = self._opening, None
            return opening
        while not self._is_closed:
            # If this call is cancelled, its thread goes on reading, and the next call gets the batch.
            if self._reading is None:
                loop = asyncio.get_running_loop()
                self._reading = loop.run_in_executor(self._threads, self._read)
            reading = self._reading
            try:
                batch = await asyncio.shield(reading)
            except asyncio.CancelledError:
                raise
            except SubscriptionClosed:
                self._reading = None
                return None
            except BaseException:
                self._reading = None
                raise
            self._reading = None
            if batch is not None and self._counts is not None:
                self._counts.delivered(self._live.plan.shape.mode.value, batch)
            if batch is not None or self._live.ended:
                return batch
        return None

    def _read(self) -> SubscriptionBatch | None:
        """Return the next batch; ``None`` if none comes within ``_POLL_S``. It is called in a thread."""
        batch = self._live.next(_POLL_S)
        if batch is not None and self._share is not None:
            try:
                count_batch(self._share.memory, batch)
            except LimitExceeded as error:
                self._failure = error  # the reader has passed the batch: without it nothing may follow
                raise
        return batch

    async def close(self) -> None:
        """See ``SubscriptionStream``. If a thread reads, it waits for that thread before it closes."""
        if self._closing is None:
            self._is_closed = True
            if self._share is not None:
                self._share.close()
            self._closing = asyncio.ensure_future(self._close_reader())
        # The reader is closed even if this call is cancelled while it waits.
        await asyncio.shield(self._closing)

    async def _close_reader(self) -> None:
        try:
            if self._reading is not None:
                await asyncio.wait([self._reading])
                with contextlib.suppress(asyncio.CancelledError):
                    self._reading.exception()  # nobody else asks for the error
            await asyncio.to_thread(self._live.close)
        finally:
            self._closed(self)  # only now, since another stream takes this place and needs the thread
