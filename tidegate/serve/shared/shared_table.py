"""A table that is read once for all of its subscribers. This is its part in the event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

from tidegate.errors import StateError
from tidegate.hlc import Timestamp
from tidegate.serve.kept_memory import KeptMemory
from tidegate.serve.shared.changes_log import ChangesLog
from tidegate.serve.shared.shown_batches import ShownBatches, TableRowsShown
from tidegate.serve.shared.snapshot_chunks import SnapshotChunks, SnapshotSizes
from tidegate.serve.shared.table_reader import RowsGone, TableReader, TableSnapshot
from tidegate.subscribe.changes.table_changes import TableChanges
from tidegate.subscribe.figures import SubscriptionFigures
from tidegate.subscribe.statement_rows import StatementRows
from tidegate.subscribe.subscription import SubscriptionBatch
from tidegate.subscribe.updates.frontier import Frontier, frontier_after, resume_as_of

_Told = TypeVar("_Told")


class ChangesDropped(Exception):
    """The log has dropped changes that a subscriber still needs, since it was too slow.

    The subscriber's stream handles this.
    """


class TableEnded(Exception):
    """Nothing follows, since the feed has succeeded or the reader was stopped. The streams end too."""


class SharedTable:
    """A table that is read once for all of its subscribers. It has to be used in one event loop.

    ``as_of`` is the timestamp at which the first snapshot is complete. ``source`` is the name of the feed and
    the id of its topic, for tokens. Call `read` after making it.
    """

    def __init__(
        self,
        source: str,
        as_of: Timestamp,
        log_bytes: int,
        threads: Executor,
        kept_memory: KeptMemory,
        sizes: SnapshotSizes | None = None,
        whole_threads: Executor | None = None,
    ) -> None:
        self.source = source
        self.as_of = as_of
        self.batches = ShownBatches(threads, kept_memory, sizes, whole_threads)
        #: Whether the first snapshot is complete.
        self.filled = False
        #: The number of streams that go through it.
        self.subscribers = 0
        self._log = ChangesLog(frontier_after(as_of), log_bytes)
        self._reader: TableReader | None = None
        self._failure: BaseException | None = None
        #: Whether nothing follows the changes in the log, since the feed has succeeded. The rows stay, for
        #: snapshots.
        self._finished = False
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def read(self, reader: TableReader) -> None:
        """Set the reader of the table. The reader has to call ``publish``, ``fail`` and ``finish``."""
        self._reader = reader

    @property
    def frontier(self) -> Frontier:
        """The frontier of the table: every change below it has come."""
        return self._log.end

    @property
    def ended(self) -> bool:
        """Whether the reader has ended, by an error or by ``stop``.

        A feed that has succeeded does not end it: the rows stay.
        """
        return self._failure is not None

    @property
    def figures(self) -> SubscriptionFigures | None:
        """The figures of the reading; ``None`` as long as there are none."""
        return None if self._reader is None else self._reader.figures

    @property
    def held_bytes(self) -> int:
        """About how many bytes of memory the log takes."""
        return self._log.held_bytes

    def holds(self, frontier: Frontier) -> bool:
        """Whether a subscription at a frontier can go on here."""
        return self._log.holds(frontier)

    async def snapshot(self, shown_by: StatementRows, at_least: Timestamp | None = None) -> TableRowsShown:
        """Return the rows as of the present, once they are complete: as a batch, or as chunks. The caller has
        to close chunks.

        Raises what ended the reader. A batch may be up to a second old. But it is at or above ``at_least``,
        which the table has reached. And it is at or above the beginning of the log, since no stream could go
        on from below.
        """
        await self.present()
        try:
            shown = await self.batches.of_snapshot(self._snapshot, shown_by, at_least)
            if self.holds(shown.frontier):
                return shown
            return await self.batches.of_snapshot(self._snapshot, shown_by, resume_as_of(self.frontier))
        except RowsGone:
            while True:
                await self._wait()  # until it raises what ended the reader

    async def present(self) -> Frontier:
        """Return the frontier, once the rows are complete. Raises what ended the reader."""
        while not self.filled:
            await self._wait()
        if self._failure is not None:
            raise self._failure
        return self.frontier

    async def next_chunk(self, chunks: SnapshotChunks, threads: Executor) -> SubscriptionBatch | None:
        """Return the next batch of a snapshot; ``None`` after the last one.

        If the reader has ended and freed the rows, this raises what ended it. Otherwise it raises as
        ``SnapshotChunks.next`` does.
        """
        try:
            return await asyncio.get_running_loop().run_in_executor(threads, chunks.next)
        except StateError as error:
            raise self._failure or error from error

    async def changes_after(self, frontier: Frontier) -> TableChanges:
        """Return the next changes, as soon as there are some.

        Raises ``ChangesDropped``, what ended the reader, and ``TableEnded`` if nothing follows.

        Changes that came before the end are given first.
        """
        while True:
            if not self._log.holds(frontier):
                raise ChangesDropped
            changes = self._log.after(frontier)
            if changes is not None:
                return changes
            if self._finished:
                raise TableEnded
            await self._wait()

    def publish(self, changes: TableChanges) -> None:
        """Take the reader's next changes. The reader's thread calls this."""
        self._in_loop(self._add, changes)

    def fail(self, error: BaseException) -> None:
        """Take the error that has ended the reader. The reader's thread calls this."""
        self._in_loop(self._end, error)

    def finish(self) -> None:
        """Note that nothing follows, because the feed has succeeded. The reader's thread calls this."""
        self._in_loop(self._finish, None)

    def stop(self) -> None:
        """End the reader, and all calls that wait for it."""
        if self._reader is not None:
            self._reader.stop()
        self._end(TableEnded())

    def _snapshot(self) -> TableSnapshot:
        assert self._reader is not None
        return self._reader.snapshot()

    async def _wait(self) -> None:
        if self._failure is not None:
            raise self._failure
        await self._news.wait()

    def _add(self, changes: TableChanges) -> None:
        self._log.add(changes)
        self.filled = True
        self._wake()

    def _finish(self, _: None) -> None:
        self._finished = True
        self._wake()

    def _end(self, error: BaseException) -> None:
        if self._failure is None:
            self._failure = error
            self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def _in_loop(self, call: Callable[[_Told], object], told: _Told) -> None:
        with contextlib.suppress(RuntimeError):  # if the loop is closed, no call waits any more
            self._loop.call_soon_threadsafe(call, told)
