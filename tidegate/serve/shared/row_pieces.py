"""Gives rows piece by piece to a subscriber that goes through them at its own pace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tidegate.subscribe.updates.row_size import row_bytes
from tidegate.subscribe.updates.update import RowValues


class RowPage:
    """Some rows of a table. It lives as long as somebody needs them.

    Attributes:
        count: the number of its rows, even after they were freed.
    """

    __slots__ = ("__weakref__", "count", "rows")

    def __init__(self, rows: list[RowValues]) -> None:
        self.rows = rows
        self.count = len(rows)

    def require(self) -> None:
        """Raise an error if its rows were freed. The rows of this class are never freed."""


@dataclass(frozen=True, slots=True)
class RowPiece:
    """The rows of a page from ``begin`` to ``end``, the last one excluded.

    ``is_last`` says that no rows of the table follow.
    """

    page: RowPage
    begin: int
    end: int
    is_last: bool

    def rows(self) -> list[RowValues]:
        """Return its rows. Raises ``LimitExceeded`` if they were freed, since memory had no room for them."""
        rows = self.page.rows[self.begin : self.end]
        self.page.require()
        return rows

    def halves(self) -> tuple[RowPiece, RowPiece]:
        """Return its first half, and its second."""
        middle = (self.begin + self.end) // 2
        return (
            RowPiece(self.page, self.begin, middle, is_last=False),
            RowPiece(self.page, middle, self.end, self.is_last),
        )


class WeighedRows:
    """Rows that are read from a directory. Only those of one piece, and one more row, are in memory."""

    __slots__ = ("_ended", "_first", "_rows")

    def __init__(self, rows: Iterable[RowValues]) -> None:
        self._rows: Iterator[RowValues] = iter(rows)
        #: The row that had no room in the last piece: the next piece begins with it.
        self._first: list[RowValues] = []
        self._ended = False

    def next(self, most_rows: int, most_bytes: int) -> RowPiece | None:
        """Read the next piece; ``None`` after the last one. A piece of a single row may have more bytes."""
        if self._ended:
            return None
        rows, self._first = self._first, []
        taken = sum(map(row_bytes, rows))
        for row in self._rows:
            taken += row_bytes(row)
            if rows and (len(rows) >= most_rows or taken > most_bytes):
                self._first = [row]
                return RowPiece(RowPage(rows), 0, len(rows), is_last=False)
            rows.append(row)
        self._ended = True
        return RowPiece(RowPage(rows), 0, len(rows), is_last=True)

    def close(self) -> None:
        """Free the rows."""
        self._ended = True
        self._rows, self._first = iter(()), []
