"""All rows of a key table as of one frontier, in chunks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeAlias

from rocksdict import Snapshot

from tidegate.client.subscribe.state.rocks_files import damaged, read_span, reading
from tidegate.client.subscribe.state.table_records import (
    ROW,
    ROWS_END,
    STATE_KEY,
    TableState,
    read_state,
    unsealed,
)
from tidegate.client.subscribe.state.value_codec import decode_row
from tidegate.errors import StateError
from tidegate.subscribe.updates.frontier import Frontier
from tidegate.subscribe.updates.update import RowValues

#: Rows in the order of their keys' bytes.
Chunk: TypeAlias = list[tuple[bytes, RowValues]]

ROWS_OF_A_CHUNK: Final = 1_000


class KeyTableSnapshot:
    """The rows as they were when it was made, whatever the table does since. Close it: it holds old rows on
    the disk."""

    __slots__ = ("_path", "_snapshot", "_state")

    def __init__(self, snapshot: Snapshot, path: Path) -> None:
        self._snapshot: Snapshot | None = snapshot
        self._path = path
        self._state = read_state(snapshot[STATE_KEY])

    @property
    def frontier(self) -> Frontier:
        """The rows are those of this frontier."""
        return self._state.frontier

    @property
    def row_count(self) -> int:
        """How many rows there are."""
        return self._state.rows

    @property
    def is_open(self) -> bool:
        """Whether it can be read."""
        return self._snapshot is not None

    def chunks(self, rows: int = ROWS_OF_A_CHUNK) -> Iterator[Chunk]:
        """All rows in the order of their keys, up to ``rows`` of them at a time. It can be called again.

        The last chunk comes once the sums over all rows were found right. Raises ``HistoryLost`` for damaged
        rows, ``StateError`` where the table was closed.
        """
        found = TableState(self.frontier)
        waiting: Chunk | None = None
        start = ROW
        while some := self._read(start, rows):
            if waiting is not None:
                yield waiting
            with reading(self._path):
                waiting = [(key[1:], decode_row(unsealed(key, stored))) for key, stored in some]
            for _, stored in some:
                found.count(None, stored)
            start = some[-1][0] + b"\x00"
        if found != self._state:
            raise damaged(
                self._path,
                f"{found.rows} rows of {self._state.rows}, or some that are not of {self.frontier}",
            )
        if waiting is not None:
            yield waiting

    def close(self) -> None:
        """Let the old rows go."""
        self._snapshot = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read(self, start: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        if self._snapshot is None:
            raise StateError(
                f"The snapshot of the key table in {self._path} is closed, or its table is: open it again"
            )
        with reading(self._path):
            return read_span(self._snapshot, start, ROWS_END, limit)
