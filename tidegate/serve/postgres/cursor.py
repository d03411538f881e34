"""A cursor: an open subscription, and the rows that were read from it and not given yet.

| FETCH | gives |
|---|---|
| ``0 c`` | no rows: the columns alone |
| ``n c`` | waits for one row, then up to n that are there |
| ``ALL c`` | waits for one row, then all that are there |
| ``n c WITH (timeout = '1s')`` | n rows, or those of one second |
| ``ALL c WITH (timeout = '1s')`` | all rows of one second |

At the subscription's end each FETCH gives what is left. Source: Materialize
``src/sql/src/plan/statement/scl.rs``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence

from tidegate.serve.encoded_batches import chunk_of
from tidegate.serve.stream_source import StreamColumns, SubscriptionStream
from tidegate.subscribe.subscription import SubscriptionBatch
from tidegate.subscribe.updates.update import RowValues


class Cursor:
    """Reads one subscription. At most one batch waits here: if a client does not read, its source waits."""

    __slots__ = ("_at", "_ended", "_pending", "_rows", "_stream", "columns")

    def __init__(self, stream: SubscriptionStream) -> None:
        self._stream = stream
        self.columns = StreamColumns(stream.header, stream.types)
        self._rows: Sequence[RowValues] = ()
        self._at = 0
        self._ended = False
        #: The call of ``next`` that still runs after a FETCH whose time was over.
        self._pending: asyncio.Task[SubscriptionBatch | None] | None = None

    @property
    def ended(self) -> bool:
        """Whether there will be no more rows."""
        return self._ended and self._at == len(self._rows)

    def rest(self) -> Iterator[Sequence[RowValues]]:
        """Yield what is left of the batch that was read last, in pieces."""
        while self._at < len(self._rows):
            piece = chunk_of(self._rows, self._at, len(self._rows) - self._at)
            self._at += len(piece)
            yield piece

    async def batches(self) -> AsyncIterator[SubscriptionBatch]:
        """Yield every further batch to the end. Take ``rest`` before them."""
        while (batch := await self._next(None)) is not None:
            yield batch

    async def rows(self, most: int, timeout_s: float | None) -> AsyncIterator[Sequence[RowValues]]:
        """Yield up to ``most`` rows, in pieces. The table above says how long it waits for them."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        given = 0
        while given < most:
            if self._at == len(self._rows):
                if deadline is None:
                    wait_s = 0.0 if given else None
                else:
                    wait_s = max(deadline - time.monotonic(), 0.0)
                batch = await self._next(wait_s)
                if batch is None:
                    return
                self._rows, self._at = batch.rows, 0
                continue
            piece = chunk_of(self._rows, self._at, most - given)
            self._at += len(piece)
            given += len(piece)
            yield piece

    async def _next(self, wait_s: float | None) -> SubscriptionBatch | None:
        """Return the next batch; ``None`` at the end, or if none comes within ``wait_s`` seconds."""
        if self._ended:
            return None
        if self._pending is None:
            self._pending = asyncio.ensure_future(self._stream.next())
        done, _ = await asyncio.wait({self._pending}, timeout=wait_s)
        if not done:
            return None
        task, self._pending = self._pending, None
        batch = task.result()
        self._ended = batch is None
        return batch

    async def close(self) -> None:
        """End the subscription, even if this call is cancelled: a second cancel may come while it waits."""
        self._ended = True
        task, self._pending = self._pending, None
        try:
            if task is not None:
                task.cancel()
                await asyncio.wait({task})
                if not task.cancelled():
                    task.exception()  # nobody asks for the error
        finally:
            await self._stream.close()
