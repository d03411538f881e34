"""One subscription of a shared table. For the numbers of steps see docs/serve.md#one-reader-for-all.

The subscription stands at a frontier. Everything below the frontier was given; the table's log has what comes
next. So there is no gap and no repeat between the snapshot and the first changes, whenever they were read.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import replace
from typing import Final

from tidegate.errors import FellBehind, RetryError
from tidegate.serve.encoded_batches import CHUNK_ROWS
from tidegate.serve.held_batches import count_batch
from tidegate.serve.kept_memory import KeptShare
from tidegate.serve.metrics import ServeCounts
from tidegate.serve.shared.shared_table import ChangesDropped, SharedTable, TableEnded
from tidegate.serve.shared.shown_batches import batch_of
from tidegate.serve.shared.snapshot_chunks import SnapshotChunks
from tidegate.serve.stream_source import ShownType, StreamColumns, SubscriptionStream
from tidegate.subscribe.changes.table_changes import TableChanges
from tidegate.subscribe.client.resume_token import ResumeToken
from tidegate.subscribe.outputs.dialect import Dialect
from tidegate.subscribe.plan import SubscribePlan, require_bounds
from tidegate.subscribe.query.shown_bytes import PieceFull, ShownBytes
from tidegate.subscribe.statement_rows import ShownRows, StatementRows
from tidegate.subscribe.subscription import SubscriptionBatch
from tidegate.subscribe.updates.frontier import Frontier, resume_as_of

#: Opens a reader for one subscription, which goes on after a token.
OpenOwn = Callable[[ResumeToken], Awaitable[SubscriptionStream]]
_RESUME: Final = "resume from the error's token, and read faster"
_AGAIN: Final = "begin again with a snapshot, and read faster"


class SharedStream:
    """A stream that begins with a snapshot, or at a frontier that the table's log holds."""

    def __init__(
        self,
        table: SharedTable,
        plan: SubscribePlan,
        columns: StreamColumns,
        threads: Executor,
        closed: Callable[[SharedStream], object],
        *,
        start: Frontier | None = None,
        token: ResumeToken | None = None,
        counts: ServeCounts | None = None,
        open_own: OpenOwn | None = None,
        shown_by: StatementRows | None = None,
        share: KeptShare | None = None,
    ) -> None:
        """``open_own`` opens a reader for a stream that is too slow. Without it, such a stream ends.

        ``shown_by`` shows the table's rows in the form of the plan; without it, it is made here. ``share``
        counts the memory that the stream takes.
        """
        self._table = table
        self._plan = plan
        self._columns = columns
        self._threads = threads
        self._closed = closed
        self._share = share or table.batches.kept_memory.share()
        self._shown_by = shown_by or StatementRows(plan, table.source, self._share)
        self._frontier = start
        self._token = token
        self._open_own = open_own
        self._counts = counts or ServeCounts()
        self._own: SubscriptionStream | None = None
        self._ready: deque[SubscriptionBatch] = deque()
        #: The rest of a snapshot in chunks.
        self._chunks: SnapshotChunks | None = None
        #: Changes of more timestamps than this are shown in parts.
        self._part_times = sys.maxsize
        self._opening_due = True
        self._pending: asyncio.Task[SubscriptionBatch | None] | None = None
        self._failure: BaseException | None = None
        self._ended = False
        #: The number of times that it was too slow for the log.
        self.times_behind = 0

    @property
    def header(self) -> tuple[str, ...]:
        """See ``SubscriptionStream``."""
        return self._columns.header

    @property
    def types(self) -> tuple[ShownType, ...]:
        """See ``SubscriptionStream``."""
        return self._columns.types

    @property
    def has_own_reader(self) -> bool:
        """Whether it was too slow, and catches up by a reader of its own."""
        return self._own is not None

    async def next(self) -> SubscriptionBatch | None:
        """See ``SubscriptionStream``."""
        if self._failure is not None:
            raise self._failure
        if self._ended:
            return None
        # If this call is cancelled, the batch is still made, and the next call gets it.
        if self._pending is None:
            self._pending = asyncio.ensure_future(self._counted())
        pending = self._pending
        await asyncio.wait({pending})
        self._pending = None
        if pending.cancelled():
            return None
        error = pending.exception()
        if isinstance(error, TableEnded):
            self._ended = True
            return None
        if error is not None:
            self._failure = error
            raise error
        batch = pending.result()
        if batch is not None:
            self._counts.delivered(self._plan.shape.mode.value, batch)
        self._ended = batch is None or batch.is_last
        return batch

    async def close(self) -> None:
        """See ``SubscriptionStream``."""
        if self._closed is _nobody:
            return
        closed, self._closed = self._closed, _nobody
        self._ended = True
        self._share.close()
        closed(self)
        try:
            if self._pending is not None:
                self._pending.cancel()
                await asyncio.wait({self._pending})
        finally:  # even if a second cancel comes during the wait
            await self._close_chunks()
            await self._close_own()

    async def _counted(self) -> SubscriptionBatch | None:
        """Return the next batch. Its memory counts until the client has taken it."""
        batch, kept_memory = await self._next(), self._table.batches.kept_memory
        if batch is None:
            return None
        if len(batch.rows) <= CHUNK_ROWS or kept_memory.counts(batch):
            count_batch(kept_memory, batch)
        else:
            await asyncio.get_running_loop().run_in_executor(self._threads, count_batch, kept_memory, batch)
        return batch

    async def _next(self) -> SubscriptionBatch | None:
        if self._frontier is None:
            await self._join()
        elif self._opening_due:
            self._open(self._frontier)
        if self._ready:
            return self._ready.popleft()
        if self._chunks is not None:
            chunk = await self._table.next_chunk(self._chunks, self._threads)
            if chunk is not None:
                return chunk
            await self._close_chunks()
        assert self._frontier is not None
        if self._own is None:
            try:
                changes = await self._table.changes_after(self._frontier)
            except ChangesDropped:
                await self._fall_behind()
            else:
                return await self._batch(changes)
        return await self._from_own()

    async def _join(self) -> None:
        """Begin with the table's rows, or at its frontier (steps 3 and 4)."""
        plan = self._plan
        if plan.snapshot or self._shown_by.stateful:
            shown = await self._table.snapshot(self._shown_by, plan.as_of)
            if isinstance(shown, SnapshotChunks):
                self._chunks = shown
            self._frontier, self._token = shown.frontier, shown.token
            self._open(shown.frontier)
            if plan.up_to is not None and resume_as_of(shown.frontier) >= plan.up_to:
                # UP TO was above the table when the stream was opened. Now the table has reached it.
                self._ready.append(SubscriptionBatch(Frontier(plan.up_to), (), True, None, True))
            elif isinstance(shown, SubscriptionBatch) and plan.snapshot:
                self._ready.append(shown)
        else:
            self._frontier = await self._table.present()
            self._open(self._frontier)

    def _open(self, frontier: Frontier) -> None:
        self._opening_due = False
        as_of = resume_as_of(frontier)
        if self._plan.up_to is not None:
            require_bounds(str(as_of), str(self._plan.up_to), crossed=as_of > self._plan.up_to)
        opening = self._shown_by.opening(as_of)
        if opening:
            self._ready.append(SubscriptionBatch(Frontier(as_of), opening, False, None, False))

    async def _batch(self, changes: TableChanges) -> SubscriptionBatch:
        batch: SubscriptionBatch | None = None
        if len(changes.times) <= self._part_times:
            with suppress(PieceFull):
                batch = await self._whole(changes)
        if batch is None:
            loop, whole_threads = asyncio.get_running_loop(), self._table.batches.whole_threads
            shown = await loop.run_in_executor(self._threads, self._part, changes)
            if shown is None:
                shown = await loop.run_in_executor(whole_threads, self._single, changes)
            batch = self._with_own_token(changes, shown)
        self._frontier, self._token = batch.frontier, batch.token
        return batch

    async def _whole(self, changes: TableChanges) -> SubscriptionBatch:
        """Make one batch of changes. Raises ``PieceFull`` if the batch is too large and can be cut."""
        up_to, shown_by, sizes = self._plan.up_to, self._shown_by, self._table.batches.sizes
        if not shown_by.stateful:
            sizes.require_room_for(changes)
        if not shown_by.stateful and (up_to is None or changes.frontier < up_to):
            return await self._table.batches.of_changes(changes, shown_by)
        made = ShownBytes() if shown_by.stateful else sizes.piece()
        threads = self._table.batches.whole_threads if shown_by.stateful else self._threads
        shown = await asyncio.get_running_loop().run_in_executor(
            threads, shown_by.changes, changes, up_to, made
        )
        if up_to is not None and changes.frontier >= up_to:
            return self._with_own_token(changes, shown)
        return batch_of(changes, shown_by, shown)

    def _part(self, changes: TableChanges) -> ShownRows | None:
        """Show the first timestamps of some changes, as many as a piece has room for.

        Returns ``None`` if a piece has no room even for the first one, or if there is only one timestamp.
        """
        up_to, sizes = self._plan.up_to, self._table.batches.sizes
        count = min(len(changes.times), self._part_times)
        while count > 1:
            count = (count + 1) // 2
            part = changes.first(count)
            with suppress(PieceFull):
                sizes.require_room_for(part)
                shown = self._shown_by.changes(part, up_to, sizes.piece())
                self._part_times = 4 * count
                return shown
        return None

    def _single(self, changes: TableChanges) -> ShownRows:
        """Show the first timestamp of some changes as a whole, though a piece has no room for it.

        Raises ``LimitExceeded`` for a timestamp that is beyond the bound of a batch.
        """
        self._part_times = 2
        part = changes if len(changes.times) == 1 else changes.first(1)
        return self._shown_by.changes(part, self._plan.up_to)

    def _with_own_token(self, changes: TableChanges, shown: ShownRows) -> SubscriptionBatch:
        """Make a batch that may end in the middle of the changes. Its token keeps the offsets of the previous
        token, since a resume has to read from there.
        """
        token = self._token and replace(self._token, frontier=shown.frontier)
        return replace(batch_of(changes, self._shown_by, shown), token=token)

    async def _fall_behind(self) -> None:
        """Go on with a reader of its own, or end (step 6)."""
        self.times_behind += 1
        self._counts.behind += 1
        token, open_own = self._token, self._open_own
        if token is None or open_own is None:
            raise self._behind(None)
        if self._plan.dialect is Dialect.MATERIALIZE:
            raise self._behind(token)
        try:
            self._own = await open_own(token)
        except RetryError as error:  # no more readers of their own are possible, or Kafka does not answer
            raise self._behind(token, f" ({error})") from error

    def _behind(self, token: ResumeToken | None, why: str = "") -> FellBehind:
        """Make the error for a stream that ends here; ``token`` is where the client can go on."""
        text = (
            f"subscribe fell behind: what has changed since {self._frontier} is not held for readers any "
            f"more{why}; {_AGAIN if token is None else _RESUME}"
        )
        if token is None:
            return FellBehind(text)
        return FellBehind(text, str(token), f"go on by AS OF {token.as_of} and WITH (SNAPSHOT = false)")

    async def _from_own(self) -> SubscriptionBatch | None:
        assert self._own is not None
        batch = await self._own.next()
        if batch is None:
            return None
        self._frontier, self._token = batch.frontier, batch.token
        if self._table.holds(batch.frontier) and not self._table.ended:
            await self._close_own()
        return batch

    async def _close_chunks(self) -> None:
        chunks, self._chunks = self._chunks, None
        if chunks is not None:
            await asyncio.get_running_loop().run_in_executor(self._threads, chunks.close)

    async def _close_own(self) -> None:
        own, self._own = self._own, None
        if own is not None:
            await own.close()


def _nobody(_: SharedStream) -> None:
    """Tell nobody that a stream is closed."""
