"""The undo records of a key table. They lead back from its frontier to those of tokens that may be stored."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rocksdict import Rdict, WriteBatch

from tidegate.client.subscribe.state.opening_changes import OpeningChanges, put_row
from tidegate.client.subscribe.state.rocks_files import read_span
from tidegate.client.subscribe.state.table_records import (
    STATE_KEY,
    UNDO,
    UNDO_END,
    KeyTableState,
    Stored,
    UndoRecord,
    read_undo,
    undo_frontier,
    undo_key,
)
from tidegate.errors import HistoryLost
from tidegate.subscribe.updates.frontier import ZERO_FRONTIER, Frontier

_RECORDS_AT_ONCE: Final = 100


class UndoLog:
    """The chain of a table's undo records. Each leads back from one frontier to the frontier before it.

    Beyond ``limit_bytes`` the oldest records are deleted. Then there is no way back to their frontiers.
    """

    __slots__ = ("_bytes", "_db", "_limit", "_path", "_records", "_settled")

    def __init__(self, db: Rdict, path: Path, limit_bytes: int) -> None:
        """Find the undo records in ``db``. Raises ``ValueError`` for a damaged key of a record, and RocksDB's
        errors."""
        self._db = db
        self._path = path
        self._limit = limit_bytes
        self._settled = ZERO_FRONTIER
        #: The frontier that each record goes back from, and its bytes; oldest first.
        self._records = deque(_sizes(db))
        self._bytes = sum(size for _, size in self._records)

    def settle(self, frontier: Frontier) -> None:
        """Note that nobody goes back to a frontier below this one."""
        self._settled = max(self._settled, frontier)

    def add(self, batch: WriteBatch, before: KeyTableState, changes: OpeningChanges, after: Frontier) -> None:
        """Add to ``batch`` the record of an opening, and the deletion of records that are settled or too
        many."""
        if before.frontier != ZERO_FRONTIER:  # no token is of the frontier zero
            record = UndoRecord(before, list(changes.replaced())).to_bytes(after)
            batch.put(undo_key(after), record)
            self._records.append((after, len(record)))
            self._bytes += len(record)
        while self._records and (self._records[0][0] <= self._settled or self._is_too_large()):
            oldest, size = self._records.popleft()
            batch.delete(undo_key(oldest))
            self._bytes -= size

    def _is_too_large(self) -> bool:
        """Whether the oldest record has to be deleted. The newest stays: its token may not be stored yet."""
        return self._bytes > self._limit and len(self._records) > 1

    def put_way_back(self, batch: WriteBatch, now: Frontier, target: Frontier) -> KeyTableState:
        """Write into ``batch`` the changes that turn the table as of ``now`` into the table as of ``target``.

        Returns the table's state at ``target``. Raises ``HistoryLost`` if there is no way back.
        """
        rows: dict[bytes, Stored] = {}
        at, state = now, KeyTableState()
        while at > target:
            key = undo_key(at)
            stored: bytes | None = self._db.get(key)
            if stored is None:
                break
            record = read_undo(key, stored)
            rows.update(record.replaced)  # what an older record says of a key counts
            batch.delete(key)
            at, state = record.before.frontier, record.before
        if at != target:
            raise HistoryLost(
                f"The rows by key in {self._path} are as of {now}, and cannot be brought back to {target}, "
                "where the token is: what later changes retract is not known. Discard the rows, and begin "
                "again with a snapshot"
            )
        for key, row in rows.items():
            put_row(batch, key, row)
        batch.put(STATE_KEY, state.to_bytes())
        while self._records and self._records[-1][0] > target:
            self._bytes -= self._records.pop()[1]
        return state


def _sizes(db: Rdict) -> Iterator[tuple[Frontier, int]]:
    start = UNDO
    while some := read_span(db, start, UNDO_END, _RECORDS_AT_ONCE):
        yield from ((undo_frontier(key), len(stored)) for key, stored in some)
        start = some[-1][0] + b"\x00"
