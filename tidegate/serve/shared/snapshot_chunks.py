"""The snapshot of a shared table for one subscriber, some rows at a time: memory holds a chunk of it.

A table with few rows is shown as one batch, which all subscribers that begin meanwhile are given. For one
with many rows such a batch would take most of the server's memory, so each subscriber goes through the rows
by itself (step 4 of docs/serve.md). All chunks are as of one frontier, whatever the table does meanwhile.
The same is done for few rows of many bytes: of the table's, if they are not in memory already, or of those
that the query makes of them.
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
    """The sizes beyond which a snapshot is given in chunks, and changes in parts.

    Attributes:
        shared_rows: the snapshot of a table with more rows is given in chunks.
        chunk_rows: rows of the table that a chunk shows.
        piece_bytes: bytes of rows in a chunk or a part: of the table's rows that are read from a directory,
            and of rows that a query makes. A single row may have more.
        whole_bytes: bytes of rows that are read from a directory for a snapshot that has to be one batch.
        cuts_all: whether changes of which a query makes nothing come in parts too.
    """

    shared_rows: int = 100_000
    chunk_rows: int = 10_000
    piece_bytes: int = 16 * _MIB
    whole_bytes: int = 4096 * _MIB
    cuts_all: bool = False

    def scarce(self) -> SnapshotSizes:
        """Return the sizes for a server that has little memory left: pieces that count for nothing."""
        return replace(
            self,
            shared_rows=min(self.shared_rows, 1_000),
            chunk_rows=min(self.chunk_rows, 1_000),
            piece_bytes=min(self.piece_bytes, COUNTED_BYTES // 2),
            cuts_all=True,
        )

    def piece(self) -> ShownBytes:
        """Return the count for rows that can be cut into several pieces."""
        return ShownBytes(self.piece_bytes, cut=True)

    def require_room_for(self, changes: TableChanges) -> None:
        """Raise ``PieceFull`` for changes of several timestamps that are too large, where all are cut."""
        if self.cuts_all and len(changes.times) > 1 and changes.held_bytes > self.piece_bytes:
            raise PieceFull

    def require_room(self, rows: Sequence[RowValues]) -> None:
        """Raise ``PieceFull`` for several rows of the table that are too large, where all pieces are cut."""
        if self.cuts_all and len(rows) > 1 and _is_beyond(rows, self.piece_bytes):
            raise PieceFull


class SnapshotChunks:
    """The chunks of one snapshot, for one subscriber. Close it: it keeps rows of its time.

    Rows in memory count for as long as they are kept, but for those that the table has, too.
    """

    __slots__ = ("_closed", "_halves", "_lock", "_rows", "_shown_by", "_sizes", "frontier", "token")

    def __init__(
        self,
        snapshot: TableSnapshot,
        shown_by: StatementRows,
        sizes: Callable[[], SnapshotSizes],
        kept_memory: KeptMemory,
    ) -> None:
        """``sizes`` says the sizes for the next chunk: memory may become scarce amid a snapshot.

        Raises ``LimitExceeded`` if the memory has no room for its rows.
        """
        self._rows = _of_pieces(snapshot.rows)
        if isinstance(self._rows, MomentRows):
            self._rows.moment.count_in(kept_memory)
        #: The rows are as of it.
        self.frontier = snapshot.frontier
        #: That of the last chunk.
        self.token = ResumeToken(snapshot.frontier, shown_by.fingerprint, snapshot.offsets)
        self._shown_by = shown_by
        self._sizes = sizes
        #: Halves of a piece that were too large together.
        self._halves: deque[RowPiece] = deque()
        self._lock = threading.Lock()
        self._closed = False

    def next(self) -> SubscriptionBatch | None:
        """Make the next batch; ``None`` after the last one. It takes a while: call it in a thread.

        Raises ``EvaluationError``, among these ``LimitExceeded`` where memory has no room for the rows any
        more, ``HistoryLost`` for damaged rows, and ``StateError`` where the reader has let its rows go. An
        error is its end.
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
        """Let the rows go: at once, or when the thread that makes a batch of them has made it.

        It does not wait: that thread may wait for its turn, which others have who close chunks.
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
            except PieceFull:  # a chunk has no room for what is made of it
                self._halves.extendleft(reversed(piece.halves()))
            else:
                if batch is not None:
                    return batch

    def _batch(self, piece: RowPiece, sizes: SnapshotSizes) -> SubscriptionBatch | None:
        """Make the batch of a piece; ``None`` for nothing, which only the last piece may show.

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
    """Take rows into memory, up to ``most`` bytes.

    Returns those, and all of them once more if there are more; ``None`` if there are not. Rows that are in
    memory in any case are not weighed, unless it ``weighs_all``.
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
