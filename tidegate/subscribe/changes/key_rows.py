"""Tables of the row that each key has. They give the row before a change if the records do not have it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol, TypeAlias

from tidegate.subscribe.updates.frontier import ZERO_FRONTIER, Frontier
from tidegate.subscribe.updates.process_share import HeldRows, ProcessShare
from tidegate.subscribe.updates.row_size import row_bytes
from tidegate.subscribe.updates.update import RowValues

#: A key, and the row that it has from now on; ``None`` if it has no row any more.
KeyChange: TypeAlias = tuple[bytes, RowValues | None]

#: The bytes that a row takes in a table in memory, beside its key and its values.
_PLACE_BYTES: Final = 100


class KeyRows(Protocol):
    """A table of rows by key. The keys are those of the records, as bytes.

    It has the rows as of its ``frontier``. Rows and frontier become durable together: otherwise a resume
    would find rows of another time than the frontier.
    """

    @property
    def frontier(self) -> Frontier:
        """The timestamp up to which the table is complete: it has every change below it, and no other."""

    def replace(self, key: bytes, row: RowValues | None) -> RowValues | None:
        """Set a key's row, or remove it for ``None``. Return the row that it had before."""

    def replace_all(self, changes: Iterable[KeyChange]) -> list[RowValues | None]:
        """Make several changes in their order, as ``replace`` does. A table on disk reads all their keys
        together.

        Returns the row before each change. If a key comes again, the row before its second change is the row
        that its first change set.
        """

    def any_key(self) -> bytes | None:
        """Return one of the keys that have a row; ``None`` if none has."""

    def close_at(self, frontier: Frontier) -> None:
        """Note that every change below ``frontier`` was given."""


class MemoryKeyRows:
    """Rows by key in a ``dict``; they are lost when the process ends."""

    __slots__ = ("_held", "_rows", "frontier")

    def __init__(self, share: ProcessShare | None = None) -> None:
        """``share`` bounds the memory of these rows, together with that of the share's other users."""
        self._rows: dict[bytes, RowValues] = {}
        self._held = HeldRows(share)
        self.frontier = ZERO_FRONTIER

    def replace(self, key: bytes, row: RowValues | None) -> RowValues | None:
        """Set a key's row, or remove it for ``None``. Return the row that it had before."""
        return self.replace_all([(key, row)])[0]

    def replace_all(self, changes: Iterable[KeyChange]) -> list[RowValues | None]:
        """Make several changes in their order, as ``replace`` does. Return the row before each change.

        Raises ``LimitExceeded`` if the share has no room.
        """
        rows, is_bounded = self._rows, self._held.share is not None
        before: list[RowValues | None] = []
        for key, row in changes:
            before.append(rows.get(key))
            if row is not None:
                rows[key] = row
            else:
                rows.pop(key, None)
            if is_bounded:
                self._held.add(memory_bytes(key, row) - memory_bytes(key, before[-1]))
        return before

    def any_key(self) -> bytes | None:
        """Return one of the keys that have a row; ``None`` if none has."""
        return next(iter(self._rows), None)

    def close_at(self, frontier: Frontier) -> None:
        """Note that every change below ``frontier`` was given."""
        self.frontier = frontier


def memory_bytes(key: bytes, row: RowValues | None) -> int:
    """Return about how many bytes of memory a row takes with its key."""
    return 0 if row is None else _PLACE_BYTES + key.__sizeof__() + row_bytes(row)
