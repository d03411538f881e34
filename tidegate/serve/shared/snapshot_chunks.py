"""The snapshot of a shared table for one subscriber, some rows at a time: memory holds a chunk of it.

A table with few rows is shown as one batch, which all subscribers that begin meanwhile are given. For one
with many rows such a batch would take most of the server's memory, so each subscriber goes through the rows
by itself (step 4 of docs/serve.md). All chunks are as of one frontier, whatever the table does meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from itertools import islice

from tidegate.serve.shared.table_reader import TableSnapshot
from tidegate.subscribe.client.resume_token import ResumeToken
from tidegate.subscribe.statement_rows import ShownRows, StatementRows
from tidegate.subscribe.subscription import SubscriptionBatch
from tidegate.subscribe.updates.frontier import Frontier, resume_as_of
from tidegate.subscribe.updates.update import RowValues


@dataclass(frozen=True, slots=True)
class SnapshotSizes:
    """When a snapshot is given in chunks.

    Attributes:
        shared_rows: a table with more rows is.
        chunk_rows: rows of the table that a chunk shows.
    """

    shared_rows: int = 100_000
    chunk_rows: int = 10_000


class SnapshotChunks:
    """The chunks of one snapshot, for one subscriber. Close it: it keeps rows of its time."""

    __slots__ = ("_batches", "_closed", "_lock", "frontier", "token")

    def __init__(self, snapshot: TableSnapshot, shown_by: StatementRows, chunk_rows: int) -> None:
        #: The rows are as of it.
        self.frontier = snapshot.frontier
        #: That of the last chunk.
        self.token = ResumeToken(snapshot.frontier, shown_by.fingerprint, snapshot.offsets)
        self._batches = self._made(snapshot, shown_by, chunk_rows)
        self._lock = threading.Lock()
        self._closed = False

    def next(self) -> SubscriptionBatch | None:
        """Make the next batch; ``None`` behind the last one. It takes a while: call it in a thread.

        Raises ``EvaluationError``, ``HistoryLost`` for damaged rows, and ``StateError`` where the reader has
        let its rows go.
        """
        with self._lock:
            return None if self._closed else next(self._batches, None)

    def close(self) -> None:
        """Let the rows go. It waits for a thread that makes a batch."""
        with self._lock:
            self._closed = True
            self._batches.close()

    def _made(
        self, snapshot: TableSnapshot, shown_by: StatementRows, chunk_rows: int
    ) -> Generator[SubscriptionBatch]:
        as_of = Frontier(resume_as_of(self.frontier))
        rows = iter(snapshot.rows)
        some: Sequence[RowValues] = list(islice(rows, chunk_rows))
        while following := list(islice(rows, chunk_rows)):
            shown = tuple(shown_by.chunk(some, self.frontier))
            some = following
            del following
            if shown:
                yield SubscriptionBatch(as_of, shown, False, None, False, is_partial=True)
        last: ShownRows = shown_by.snapshot(some, self.frontier)
        yield SubscriptionBatch(self.frontier, last.rows, True, self.token, False)
