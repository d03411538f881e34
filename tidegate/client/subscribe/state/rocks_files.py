"""The RocksDB database of a key table: opens it, and says in our terms what its errors mean."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rocksdict import Rdict, RdictIter

from tidegate.client.subscribe.state.key_table_options import KeyTableOptions
from tidegate.errors import HistoryLost, StateError, TidegateError

#: The words of RocksDB's errors when the disk, the machine or another reader, and not the table, is at fault.
_ELSEWHERE: Final = (
    "No space left on device",
    "Disk quota exceeded",
    "Permission denied",
    "Read-only file system",
    "Too many open files",
    "Cannot allocate memory",
    "lock hold by current process",
    "While lock file",
)


def open_database(path: Path, options: KeyTableOptions) -> Rdict:
    """Open the database, or create it. Raises ``HistoryLost`` for a damaged one, else ``StateError``."""
    with reading(path):
        return Rdict(str(path), options.build())


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn errors while stored bytes are read into ``HistoryLost`` or ``StateError``."""
    try:
        yield
    except TidegateError:
        raise
    except Exception as error:  # rocksdict raises nothing more specific
        if any(sign in str(error) for sign in _ELSEWHERE):
            raise StateError(
                f"The key table in {path} cannot be opened or read: {error}. Its rows are as they were. Look "
                "after the disk, or end the process that has its files open, then start again"
            ) from None
        raise damaged(path, str(error)) from None


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn errors while rows are written into ``StateError``."""
    try:
        yield
    except Exception as error:  # rocksdict raises nothing more specific
        raise StateError(
            f"The key table in {path} cannot be written: {error}. It still has its former frontier. Make "
            "room on its disk, and start again from the stored token"
        ) from None


def damaged(path: Path, how: str) -> HistoryLost:
    """Make the error for rows that cannot be trusted."""
    return HistoryLost(
        f"The rows by key in {path} are damaged ({how:.300}): what later changes retract is not known. "
        "Discard them, and begin again with a snapshot"
    )


def read_span(db: Rdict, start: bytes, end: bytes, limit: int) -> list[tuple[bytes, bytes]]:
    """Read up to ``limit`` keys from ``start`` on and below ``end``, with their values, in order."""
    # Nobody keeps the iterator: it would keep the database open.
    return span_of(db.iter(), start, end, limit)


def span_of(rows: RdictIter, start: bytes, end: bytes, limit: int) -> list[tuple[bytes, bytes]]:
    """Do what `read_span` does, with an iterator. It reads the rows of the moment at which it was made."""
    found = list[tuple[bytes, bytes]]()
    rows.seek(start)
    while len(found) < limit and rows.valid() and (key := rows.key()) < end:
        found.append((key, rows.value()))
        rows.next()
    rows.status()  # a damaged block ends the iteration, and only this tells
    return found
