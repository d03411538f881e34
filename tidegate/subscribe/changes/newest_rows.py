"""The newest row of each key, as bytes, while the rows of a snapshot come in."""

from __future__ import annotations

from typing import Final

from tidegate.subscribe.gate.opened_rows import OpenedRows, joined_rows
from tidegate.subscribe.updates.process_share import HeldRows, ProcessShare

#: Rows that are not the newest of their keys are dropped only when there are more of them than this.
_STALE_ROWS: Final = 50_000


class NewestRows:
    """Takes the rows of one topic in the order of their timestamps, and keeps the last of each key.

    The rows stay as columns, and for each key the position of its row in them is kept: an object for each row
    would keep the garbage collector busy. When too many rows are not the newest of their keys, these are
    dropped.
    """

    __slots__ = ("_at", "_count", "_held", "_parts")

    def __init__(self, share: ProcessShare | None = None) -> None:
        """``share`` bounds the memory of these rows, together with that of the share's other users."""
        self._held = HeldRows(share)
        self._parts: list[OpenedRows] = []
        #: The number of rows of the parts.
        self._count = 0
        self._at: dict[bytes, int] = {}

    def add_rows(self, rows: OpenedRows) -> None:
        """Add rows in the order of their timestamps. None is below a row that was added before.

        Raises ``LimitExceeded`` if the share has no room.
        """
        begin = self._count
        self._parts.append(rows)
        if self._held.share is not None:
            self._held.add(rows.memory_bytes)
        self._count += len(rows)
        self._at.update(zip(rows.keys, range(begin, self._count), strict=True))
        if self._count - len(self._at) > max(_STALE_ROWS, len(self._at) // 4):
            self._let_go()

    @property
    def count(self) -> int:
        """The number of keys that were added."""
        return len(self._at)

    def rows(self) -> OpenedRows:
        """Return the newest row of each key, deletions too, in the order in which the keys first came.

        From now on the caller counts their memory.
        """
        self._let_go()
        self._held.set(0)
        return self._parts[0]

    def _let_go(self) -> None:
        """Drop all rows that are not the newest of their keys."""
        kept = joined_rows(self._parts).at(list(self._at.values()))
        self._parts, self._count = [kept], len(kept)
        if self._held.share is not None:
            self._held.set(kept.memory_bytes)
        self._at = dict(zip(self._at, range(len(kept)), strict=True))
