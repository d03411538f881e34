"""The row that each key has. It gives the row before a change where records do not have it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tidegate.subscribe.updates.frontier import ZERO_FRONTIER, Frontier
from tidegate.subscribe.updates.update import RowValues


class KeyRows(Protocol):
    """A table of rows by their keys, which are the bytes of records.

    It is as of its ``frontier``: both become durable together, or a resume would find rows of another time.
    """

    @property
    def frontier(self) -> Frontier:
        """Every change below it is in the table, none at or above it."""

    def replace(self, key: bytes, row: RowValues | None) -> RowValues | None:
        """Set a key's row, ``None`` to remove it; returns the row before."""

    def replace_all(self, changes: Sequence[tuple[bytes, RowValues | None]]) -> list[RowValues | None]:
        """Set the rows of several keys, one after the other; returns the row before each."""

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
        before = self._rows.pop(key, None)
        if row is not None:
            self._rows[key] = row
        return before

    def replace_all(self, changes: Sequence[tuple[bytes, RowValues | None]]) -> list[RowValues | None]:
        """Set the rows of several keys, one after the other; returns the row before each."""
        return [self.replace(key, row) for key, row in changes]

    def close_at(self, frontier: Frontier) -> None:
        """Say that every change below ``frontier`` was given."""
        self.frontier = frontier
