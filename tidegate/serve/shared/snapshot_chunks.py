"""Gives the snapshot of a shared table to one subscriber in chunks: memory holds one chunk at a time.

A table with few rows is shown as one batch, which is given to all subscribers that begin at about the same
time. For a table with many rows such a batch would take most of the server's memory. So each subscriber goes
through the rows by itself (step 4 of docs/serve.md). All chunks are as of one frontier, even if the table
changes between them. Few rows are given in chunks too if they have many bytes: the rows of the table, if they
are not in memory already, or the rows that the query makes of them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from typing import Final

from tidegate.errors import LimitExceeded
from tidegate.serve.held_batches import COUNTED_BYTES
from tidegate.serve.kept_memory import KeptMemory
from tidegate.serve.shared.row_pieces import RowPiece, WeighedRows
from tidegate.serve.shared.table_moment import MomentRows, held_rows
from tidegate.serve.shared.table_reader import TableSnapshot
from tidegate.subscribe.changes.table_changes import TableChanges
from tidegate.subscribe.client.resume_token import ResumeToken
from tidegate.subscribe.query.shown_bytes import PieceFull, ShownBytes
from tidegate.subscribe.statement_rows import StatementRows
from tidegate.subscribe.subscription import SubscriptionBatch
from tidegate.subscribe.updates.frontier import Frontier, resume_as_of
from tidegate.subscribe.updates.row_size import row_bytes
from tidegate.subscribe.updates.update import RowValues

_MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class SnapshotSizes:
    """The sizes above which a snapshot is given in chunks, and changes in parts.

    Attributes:
        shared_rows: the snapshot of a table with more rows than this is given in chunks.
        chunk_rows: the most rows of the table that a chunk shows.
        piece_bytes: the most bytes of rows in a chunk or a part. Rows of the table that are read from a
            directory count, and rows that a query makes. A single row may have more bytes.
        whole_bytes: the most bytes of rows that are read from a directory for a snapshot that has to be one
            batch.
        cuts_all: whether rows that are in memory already, and that no query changes, are cut too.
    """

    shared_rows: int = 100_000
    chunk_rows: int = 10_000
    piece_bytes: int = 16 * _MIB
    whole_bytes: int = 4096 * _MIB
    cuts_all: bool = False

    def scarce(self) -> SnapshotSizes:
        """Return the sizes for a server that has little memory left. Batches of these sizes are below
        ``COUNTED_BYTES``, so `KeptMemory` does not count them.
        """
        return replace(
            self,
            shared_rows=min(self.shared_rows, 1_000),
            chunk_rows=min(self.chunk_rows, 1_000),
            piece_bytes=min(self.piece_bytes, COUNTED_BYTES // 2),
            cuts_all=True,
        )

    def piece(self) -> ShownBytes:
        """Return a counter for the bytes of a piece, where rows can be cut into several pieces."""
        return ShownBytes(self.piece_bytes, cut=True)

    def require_room_for(self, changes: TableChanges) -> None:
        """Raise ``PieceFull`` if ``cuts_all`` is set, and changes of several timestamps are too large."""
        if self.cuts_all and len(changes.times) > 1 and changes.held_bytes > self.piece_bytes:
            raise PieceFull

    def require_room(self, rows: Sequence[RowValues]) -> None:
        """Raise ``PieceFull`` if ``cuts_all`` is set, and several rows of the table are too large."""
        if self.cuts_all and len(rows) > 1 and _is_beyond(rows, self.piece_bytes):
            raise PieceFull


class SnapshotChunks:
    """The chunks of one snapshot, for one subscriber. It keeps the rows of its moment until it is closed.

    While it keeps rows in memory, they count as memory of subscriptions. Rows that the table still has do not
    count.
    """

    __slots__ = ("_closed", "_halves", "_lock", "_rows", "_shown_by", "_sizes", "frontier", "token")

    def __init__(
        self,
        snapshot: TableSnapshot,
        shown_by: StatementRows,
        sizes: Callable[[], SnapshotSizes],
        kept_memory: KeptMemory,
    ) -> None:
        """``sizes`` returns the sizes for the next chunk, since memory may become scarce during a snapshot.

        Raises ``LimitExceeded`` if memory has no room for its rows.
        """
        self._rows = _of_pieces(snapshot.rows)
        if isinstance(self._rows, MomentRows):
            self._rows.moment.count_in(kept_memory)
        #: The rows are as of this frontier.
        self.frontier = snapshot.frontier
        #: The token of the last chunk.
        self.token = ResumeToken(snapshot.frontier, shown_by.fingerprint, snapshot.offsets)
        self._shown_by = shown_by
        self._sizes = sizes
        #: The halves of pieces that were too large as a whole.
        self._halves: deque[RowPiece] = deque()
        self._lock = threading.Lock()
        self._closed = False

    def next(self) -> SubscriptionBatch | None:
        """Make the next batch; ``None`` after the last one. This takes a while: call it in a thread.

        Raises ``EvaluationError``, ``LimitExceeded`` if memory has no room for the rows any more,
        ``HistoryLost`` for damaged rows, and ``StateError`` if the reader has freed its rows. After an error
        no batch follows.
        """
        try:
            with self._lock:
                return None if self._closed else self._next()
        except BaseException:
            self._closed = True
            raise
        finally:
            self._let_go()

    def close(self) -> None:
        """Free the rows. If a thread makes a batch of them now, that thread frees them when it is done.

        This call does not wait for the thread, since that could last for ever: the thread may wait for its
        turn, while all threads that have a turn close chunks.
        """
        self._closed = True
        self._let_go()

    def _let_go(self) -> None:
        if self._closed and self._lock.acquire(blocking=False):
            try:
                self._halves.clear()
                self._rows.close()
            finally:
                self._lock.release()

    def _next(self) -> SubscriptionBatch | None:
        while True:
            sizes = self._sizes()
            if self._halves:
                piece: RowPiece | None = self._halves.popleft()
            else:
                piece = self._rows.next(sizes.chunk_rows, sizes.piece_bytes)
            if piece is None:
                return None
            try:
                batch = self._batch(piece, sizes)
            except PieceFull:  # a chunk has no room for the rows that are made of the piece
                self._halves.extendleft(reversed(piece.halves()))
            else:
                if batch is not None:
                    return batch

    def _batch(self, piece: RowPiece, sizes: SnapshotSizes) -> SubscriptionBatch | None:
        """Make the batch of a piece; ``None`` if it shows nothing. Only the last piece gives a batch without
        rows.

        Raises ``PieceFull``.
        """
        rows = piece.rows()
        sizes.require_room(rows)
        if piece.is_last:
            last = self._shown_by.snapshot(rows, self.frontier, sizes.piece())
            return SubscriptionBatch(self.frontier, last.rows, True, self.token, False)
        shown = self._shown_by.chunk(rows, self.frontier, sizes.piece())
        as_of = Frontier(resume_as_of(self.frontier))
        return SubscriptionBatch(as_of, tuple(shown), False, None, False, is_partial=True) if shown else None


def _of_pieces(rows: Iterable[RowValues]) -> MomentRows | WeighedRows:
    if isinstance(rows, MomentRows):
        return rows
    return held_rows(rows) if isinstance(rows, list) else WeighedRows(rows)


def _is_beyond(rows: Iterable[RowValues], most: int) -> bool:
    return any(taken > most for taken in accumulate(map(row_bytes, rows)))


def rows_up_to(
    rows: Iterable[RowValues], most: int, *, weighs_all: bool = False
) -> tuple[Iterable[RowValues], Iterable[RowValues] | None]:
    """Take rows into memory, until they have more than ``most`` bytes.

    Returns the rows that were taken, and an iterable of all rows if they have more bytes, otherwise ``None``.
    Rows that are in memory already are weighed only with ``weighs_all``.
    """
    if isinstance(rows, MomentRows):
        return rows, rows if weighs_all and _is_beyond(rows, most) else None
    rows, taken, some = iter(rows), 0, list[RowValues]()
    for row in rows:
        taken += row_bytes(row)
        some.append(row)
        if taken > most:
            return some, chain(some, rows)
    return some, None


def all_rows(rows: Iterable[RowValues], most: int) -> Iterable[RowValues]:
    """Take all rows into memory. Raises ``LimitExceeded`` if that takes more than ``most`` bytes."""
    some, more = rows_up_to(rows, most)
    if more is not None:
        raise LimitExceeded(
            f"a snapshot that has to come at once takes more than {most // _MIB:,} MiB: leave out WITHIN "
            "TIMESTAMP ORDER BY, LIMIT and OFFSET, and show the primary key"
        )
    return some
