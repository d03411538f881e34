"""The row that each key has. It gives the row before a change where records do not have it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeAlias

from tidegate.subscribe.updates.frontier import ZERO_FRONTIER, Frontier
from tidegate.subscribe.updates.update import RowValues

#: A key, and the row that it has from now on: ``None`` for none.
KeyChange: TypeAlias = tuple[bytes, RowValues | None]


class KeyRows(Protocol):
    """A table of rows by their keys, which are the bytes of records.

    It is as of its ``frontier``: both become durable together, or a resume would find rows of another time.
    """

    @property
    def frontier(self) -> Frontier:
        """The timestamp up to which the table is complete: it has every change below it, and no other."""

    def replace(self, key: bytes, row: RowValues | None) -> RowValues | None:
        """Set a key's row, ``None`` to remove it; returns the row before."""

    def replace_all(self, changes: Iterable[KeyChange]) -> list[RowValues | None]:
        """Do the same for each change, in order; a table on disk reads all keys at once.

        Returns the row before each change. A key may come again: its row before is then that of the change
        before.
        """

    def close_at(self, frontier: Frontier) -> None:
        """Say that every change below ``frontier`` was given."""


class MemoryKeyRows:
    """Rows by key in a ``dict``: gone with the process."""

    __slots__ = ("_rows", "frontier")

    def __init__(self) -> None:
        self._rows: dict[bytes, RowValues] = {}
        self.frontier = ZERO_FRONTIER

    def replace(self, key: bytes, row: RowValues | None) -> RowValues | None:
        """Set a key's row, ``None`` to remove it; returns the row before."""
        return self.replace_all([(key, row)])[0]

    def replace_all(self, changes: Iterable[KeyChange]) -> list[RowValues | None]:
        """Do the same for each change, in order; returns the row before each change."""
        rows = self._rows
        before: list[RowValues | None] = []
        for key, row in changes:
            before.append(rows.get(key))
            if row is not None:
                rows[key] = row
            else:
                rows.pop(key, None)
        return before

    def close_at(self, frontier: Frontier) -> None:
        """Say that every change below ``frontier`` was given."""
        self.frontier = frontier
