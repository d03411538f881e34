"""All rows of a key table as of one frontier, in chunks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeAlias

from rocksdict import RdictIter

from tidegate.client.subscribe.state.rocks_files import damaged, reading, span_of
from tidegate.client.subscribe.state.table_records import (
    ROW,
    ROWS_END,
    STATE_KEY,
    KeyTableState,
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
    """The rows as they were when the snapshot was made. Later changes of the table do not change them.

    Close it: it keeps files and buffers of that time. One thread at a time may use it; that may be another
    thread than the table's. It is one iterator of RocksDB, which sees what was there when it was made.
    rocksdict's own snapshots cannot be used: in 0.3.29 their iterators see the present.
    """

    __slots__ = ("_path", "_rows", "_state")

    def __init__(self, rows: RdictIter, path: Path) -> None:
        """Read the frontier that ``rows`` has. Raises ``ValueError`` if it cannot be read."""
        self._rows: RdictIter | None = rows
        self._path = path
        ((_, state),) = span_of(rows, STATE_KEY, STATE_KEY + b"\x00", 1)
        self._state = read_state(state)

    @property
    def frontier(self) -> Frontier:
        """The frontier as of which the rows are."""
        return self._state.frontier

    @property
    def row_count(self) -> int:
        """The number of rows."""
        return self._state.rows

    @property
    def is_open(self) -> bool:
        """Whether it can be read."""
        return self._rows is not None

    def chunks(self, rows: int = ROWS_OF_A_CHUNK) -> Iterator[Chunk]:
        """Yield all rows in the order of their keys, up to ``rows`` of them at a time.

        It can be called again.

        The last chunk comes once the sums over all rows were found right. Raises ``HistoryLost`` for damaged
        rows, ``StateError`` where the table was closed.
        """
        found = KeyTableState(self.frontier)
        waiting: Chunk = []
        start = ROW
        while some := self._read(start, rows):
            if waiting:
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
        if waiting:
            yield waiting

    def close(self) -> None:
        """Free the files and buffers that the snapshot keeps."""
        self._rows = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read(self, start: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        if self._rows is None:
            raise StateError(
                f"The snapshot of the key table in {self._path} is closed, or its table is: open it again"
            )
        with reading(self._path):
            return span_of(self._rows, start, ROWS_END, limit)
