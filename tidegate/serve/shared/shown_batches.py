"""Makes the batches of a table's subscribers, once for all subscribers that show the same rows.

A batch is kept for a short while. Subscribers that keep up are given the same object, which is then encoded
once (`encoded_batches`). For a slow subscriber the batch is made again.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, TypeVar

from tidegate.hlc import Timestamp
from tidegate.serve.kept_memory import KeptMemory, SubscriptionClosed
from tidegate.serve.shared.snapshot_chunks import SnapshotChunks, SnapshotSizes, all_rows, rows_up_to
from tidegate.serve.shared.table_reader import TableSnapshot
from tidegate.subscribe.changes.table_changes import TableChanges
from tidegate.subscribe.client.resume_token import ResumeToken
from tidegate.subscribe.query.shown_bytes import PieceFull, ShownBytes
from tidegate.subscribe.statement_rows import ShownRows, StatementRows
from tidegate.subscribe.subscription import SubscriptionBatch

#: The most bytes of changes whose batches are kept, together with the bytes that queries made of them.
_KEPT_BYTES: Final = 16 * 1024 * 1024
#: For so many seconds a snapshot is given to other subscribers that begin. The changes since then follow it
#: without delay.
_SNAPSHOT_S: Final = 1.0

_Made: TypeAlias = "asyncio.Future[SubscriptionBatch]"
#: The rows that a subscriber begins with: one batch, or chunks of its own.
TableRowsShown: TypeAlias = SubscriptionBatch | SnapshotChunks
_Shown: TypeAlias = "asyncio.Future[TableRowsShown]"
_T = TypeVar("_T")


@dataclass(slots=True, eq=False)
class _Kept:
    """A batch with its changes. While the changes are kept here, no other object can have their id."""

    changes: TableChanges
    made: _Made
    held_bytes: int


class ShownBatches:
    """Makes batches in threads. It has to be used in one event loop.

    Attributes:
        whole_threads: the threads that make batches which cannot be cut, and so may take long.
        held_bytes: about how many bytes the kept batches take, with their changes.
        kept_memory: the memory that subscriptions take for themselves: snapshots in chunks, and batches that
            clients have not taken yet, count there.
    """

    __slots__ = (
        *("_batches", "_sizes", "_snapshots", "_threads"),
        *("held_bytes", "kept_memory", "made", "whole_threads"),
    )

    def __init__(
        self,
        threads: Executor,
        kept_memory: KeptMemory,
        sizes: SnapshotSizes | None = None,
        whole_threads: Executor | None = None,
    ) -> None:
        self._threads = threads
        self.whole_threads = whole_threads or threads
        self._sizes = sizes or SnapshotSizes()
        self.kept_memory = kept_memory
        self._batches: OrderedDict[tuple[int, Hashable], _Kept] = OrderedDict()
        self.held_bytes = 0
        self._snapshots: dict[Hashable, _Shown] = {}
        #: The number of batches that were made of changes.
        self.made = 0

    @property
    def sizes(self) -> SnapshotSizes:
        """The sizes of pieces. They are small while memory is scarce."""
        return self._sizes.scarce() if self.kept_memory.is_scarce else self._sizes

    async def of_changes(self, changes: TableChanges, shown_by: StatementRows) -> SubscriptionBatch:
        """Return the batch of some changes, for a statement that is not ``stateful``.

        Raises ``EvaluationError``, and ``PieceFull`` for changes that have to be shown in parts.
        """
        place = (id(changes), shown_by.form)
        while (known := self._batches.get(place)) is not None:
            try:
                return await asyncio.shield(known.made)
            except SubscriptionClosed:  # the subscription for which it was made is closed
                if self._batches.get(place) is known:
                    del self._batches[place]
                    self.held_bytes -= known.held_bytes
        self.made += 1
        count = self.sizes.piece()
        made = self._in_thread(lambda: batch_of(changes, shown_by, shown_by.changes(changes, made=count)))
        kept = self._batches[place] = _Kept(changes, made, 0)
        self._hold(place, kept, changes.held_bytes)
        made.add_done_callback(lambda _: self._hold(place, kept, count.taken))
        return await asyncio.shield(made)

    def _hold(self, place: tuple[int, Hashable], kept: _Kept, held_bytes: int) -> None:
        """Count bytes of a kept batch. If they are too many, drop the oldest batches; the newest stays."""
        if self._batches.get(place) is not kept:
            return
        kept.held_bytes += held_bytes
        self.held_bytes += held_bytes
        while self.held_bytes > _KEPT_BYTES and len(self._batches) > 1:
            _, gone = self._batches.popitem(last=False)
            self.held_bytes -= gone.held_bytes

    async def of_snapshot(
        self,
        snapshot: Callable[[], TableSnapshot],
        shown_by: StatementRows,
        at_least: Timestamp | None = None,
    ) -> TableRowsShown:
        """Return the table's rows as of some moment of the last second: as a batch, or as chunks.

        With ``at_least`` they are as of the present, since a moment of the last second may be below
        ``at_least``. The caller has to close chunks. Raises ``EvaluationError`` and its kind
        ``LimitExceeded``.
        """
        known = self._snapshots.get(shown_by.form) if at_least is None else None
        if known is not None:
            with suppress(SubscriptionClosed):  # the subscription for which it was made is closed
                shown = await asyncio.shield(known)
                if isinstance(shown, SubscriptionBatch):
                    return shown  # chunks belong to another subscriber
        threads = self._threads if shown_by.gives_chunks else self.whole_threads
        made = self._in_thread(lambda: self._shown(snapshot(), shown_by), threads)
        if known is None and not shown_by.stateful and at_least is None:
            self._snapshots[shown_by.form] = made
            made.add_done_callback(lambda made: self._forget_soon(shown_by.form, made))
        return await asyncio.shield(made)

    def _shown(self, snapshot: TableSnapshot, shown_by: StatementRows) -> TableRowsShown:
        sizes = self.sizes
        if not shown_by.gives_chunks:
            return snapshot_batch(
                replace(snapshot, rows=all_rows(snapshot.rows, sizes.whole_bytes)), shown_by
            )
        if snapshot.row_count > sizes.shared_rows:
            return self._chunks(snapshot, shown_by)
        rows, more = rows_up_to(snapshot.rows, sizes.piece_bytes, weighs_all=sizes.cuts_all)
        if more is not None:
            return self._chunks(replace(snapshot, rows=more), shown_by)
        snapshot = replace(snapshot, rows=rows)
        try:
            return snapshot_batch(snapshot, shown_by, sizes.piece())
        except PieceFull:
            return self._chunks(snapshot, shown_by)

    def _chunks(self, snapshot: TableSnapshot, shown_by: StatementRows) -> SnapshotChunks:
        return SnapshotChunks(snapshot, shown_by, lambda: self.sizes, self.kept_memory)

    def _forget_soon(self, form: Hashable, made: _Shown) -> None:
        shared = not (made.cancelled() or made.exception()) and self._is_shared(made.result())
        asyncio.get_running_loop().call_later(_SNAPSHOT_S if shared else 0, self._snapshots.pop, form, None)

    def _is_shared(self, shown: TableRowsShown) -> bool:
        return isinstance(shown, SubscriptionBatch) and len(shown.rows) <= self.sizes.shared_rows

    def _in_thread(self, make: Callable[[], _T], threads: Executor | None = None) -> asyncio.Future[_T]:
        made = asyncio.get_running_loop().run_in_executor(threads or self._threads, make)
        made.add_done_callback(_note_error)
        return made


def _note_error(made: asyncio.Future[_T]) -> None:
    """Read the error, so that asyncio does not log it if all that waited for the result are gone."""
    if not made.cancelled():
        made.exception()


def batch_of(
    changes: TableChanges, shown_by: StatementRows, shown: ShownRows, token: ResumeToken | None = None
) -> SubscriptionBatch:
    """Make a batch of changes. Its token is ``token`` if one is given. Otherwise it is the token after the
    changes, or ``None`` for a statement that is ``stateful``.
    """
    if token is None and not shown_by.stateful:
        token = ResumeToken(shown.frontier, shown_by.fingerprint, changes.offsets)
    return SubscriptionBatch(shown.frontier, shown.rows, False, token, shown.is_last)


def snapshot_batch(
    snapshot: TableSnapshot, shown_by: StatementRows, made: ShownBytes | None = None
) -> SubscriptionBatch:
    """Make the batch of the table's rows as of the snapshot's frontier.

    ``made`` counts the bytes of the rows that a query makes.
    """
    shown = shown_by.snapshot(list(snapshot.rows), snapshot.frontier, made)
    offsets = snapshot.offsets
    token = None if shown_by.stateful else ResumeToken(shown.frontier, shown_by.fingerprint, offsets)
    return SubscriptionBatch(shown.frontier, shown.rows, True, token, False)
