"""Bounds the bytes that a query shows: a statement of a few thousand characters must not fill the memory.

A query can show a column many times, and put texts together: 65,536 characters make a row of 1 MB out of a
text of 100 characters. So four things have a bound:

1. A text that an expression makes (`bounded_text`).
2. A row that is shown (`RowBytes`).
3. All rows that are shown together (`ShownBytes`). If a batch can be cut, it is cut at a lower bound
   (`PieceFull`).
4. All rows that a query with LIMIT or OFFSET keeps (`HeldBytes`). There may be a bound for all such queries
   of a process together (`ProcessShare`).

A row or a batch may always have twice the bytes of the table's rows that it is made from. So a query that
only picks columns and rows meets no bound.
"""

from __future__ import annotations

from typing import Final

from tidegate.errors import LimitExceeded
from tidegate.subscribe.query.query_work import FREE_STEPS, PIECE_STEPS, WHOLE_STEPS
from tidegate.subscribe.updates.process_share import HeldRows, ProcessShare
from tidegate.subscribe.updates.row_size import row_bytes
from tidegate.subscribe.updates.update import RowValues

MOST_CHARACTERS: Final = 1024 * 1024
MOST_ROW_BYTES: Final = 4 * 1024 * 1024
MOST_BYTES: Final = 128 * 1024 * 1024
_OF_SOURCE: Final = 2


class PieceFull(Exception):
    """A piece would have more bytes, or take more steps, than it may. The caller cuts the batch."""


class RowBytes:
    """Counts what a query makes of one row of the table.

    Attributes:
        taken: the bytes so far.
    """

    __slots__ = ("_most", "_row", "taken")

    def __init__(self, row: RowValues) -> None:
        self._row = row
        self._most = MOST_ROW_BYTES
        self.taken = 0

    def add(self, taken: int) -> None:
        """Count bytes, before more are made. Raises ``LimitExceeded`` if they are too many."""
        self.taken += taken
        if self.taken > self._most:
            self._most = max(self._most, _OF_SOURCE * row_bytes(self._row))
            if self.taken > self._most:
                raise LimitExceeded(
                    f"the query makes more than {MOST_ROW_BYTES >> 20} MiB of one row, and more than twice "
                    "what the row has: show fewer columns, or shorter texts"
                )


class ShownBytes:
    """Counts the bytes of the rows that a query shows together, and the steps that they take (`query_work`).

    Attributes:
        taken: the bytes of the rows that were shown.
    """

    __slots__ = ("_cut", "_most", "_rows", "_source", "_stepped_rows", "_steps", "taken")

    def __init__(self, most: int = MOST_BYTES, *, cut: bool = False) -> None:
        """With ``cut`` a count beyond ``most`` raises ``PieceFull``, unless it counts only a single row."""
        self._most = most
        self._cut = cut
        self._rows = 0
        self._source = 0
        self._stepped_rows = 0
        self._steps = 0
        self.taken = 0

    def spend(self, steps: int) -> None:
        """Count the steps for a row of the table.

        Raises ``LimitExceeded``, or ``PieceFull`` where a batch can be cut.
        """
        self._stepped_rows += 1
        self._steps += steps
        if self._steps <= PIECE_STEPS:
            return
        if self._cut:
            if self._stepped_rows > 1:
                raise PieceFull
        elif self._steps > max(WHOLE_STEPS, FREE_STEPS * self._stepped_rows):
            raise LimitExceeded(
                f"the query takes more than {WHOLE_STEPS:,} steps for rows that have to come at once, and "
                f"more than {FREE_STEPS} for each of them: write fewer operations, or leave out what keeps "
                "the rows together, such as LIMIT or an order"
            )

    def add(self, shown: int, source: int) -> None:
        """Count the bytes of a row, and of the table's row that it is made from.

        Raises ``LimitExceeded``, or ``PieceFull`` where a batch can be cut.
        """
        self._rows += 1
        self._source += source
        self.taken += shown
        if self.taken <= self._most:
            return
        if self._cut:
            if self._rows > 1:
                raise PieceFull
        elif self.taken > _OF_SOURCE * self._source:
            raise LimitExceeded(
                f"the query shows more than {self._most >> 20} MiB that have to come at once, and more than "
                f"twice what the table's rows have: show fewer columns, shorter texts, or fewer rows"
            )


class HeldBytes:
    """Counts the rows that a query with LIMIT or OFFSET keeps: all that pass its WHERE."""

    __slots__ = ("_in_budget", "_most", "_shown", "_source")

    def __init__(self, most: int = MOST_BYTES, share: ProcessShare | None = None) -> None:
        self._most = most
        self._shown = self._source = 0
        self._in_budget = HeldRows(share)

    def add(self, shown: int, source: int) -> None:
        """Count a row that comes; negative numbers count a row that goes. Raises ``LimitExceeded``."""
        self._shown += shown
        self._source += source
        self._in_budget.add(shown)
        if shown > 0 and self._shown > max(self._most, _OF_SOURCE * self._source):
            raise LimitExceeded(
                f"a query with LIMIT or OFFSET keeps more than {self._most >> 20} MiB, and more than twice "
                "what the table's rows have: show fewer columns or shorter texts, or fewer rows by WHERE"
            )


def bounded_text(text: str) -> str:
    """Return a text that an expression has made. Raises ``LimitExceeded`` if it is too long."""
    if len(text) > MOST_CHARACTERS:
        raise LimitExceeded(
            f"an expression makes a text of {len(text):,} characters, and {MOST_CHARACTERS:,} are possible: "
            "put fewer texts together, or show them as columns of their own"
        )
    return text
