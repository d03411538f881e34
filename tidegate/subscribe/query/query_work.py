"""Bounds the time of a query: no statement occupies a thread for long, whatever it asks for.

Work is counted in *steps* of about a microsecond. An operation is a step. When an operation goes through a
text, a number of characters is a step, too. The steps of three things have a bound:

1. A row (`RowWork`).
2. A result that can be cut into pieces: a larger piece is cut (`PieceFull`).
3. A result that has to come as a whole (`ShownBytes`). This bound never stops a query of up to `FREE_STEPS`
   for each row, however many rows there are.

After every `PAUSE_STEPS` a query pauses (`ProcessShare.pause`): other queries go on, and the query ends if
its subscription was closed. A query without a `ProcessShare` has none of these bounds: in the client library
a process runs only its own queries.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tidegate.errors import LimitExceeded

#: The most steps for a row, for a piece, and for a result that has to come as a whole.
ROW_STEPS: Final = 200_000
PIECE_STEPS: Final = 400_000
WHOLE_STEPS: Final = 100_000_000
NO_BOUND: Final = 1 << 62
#: In a result that has to come as a whole, this many steps for each row are always allowed.
FREE_STEPS: Final = 200
PAUSE_STEPS: Final = 2_000

#: The characters of a text that are one step: for an operation that reads each character, such as a cast to a
#: number; for LIKE that searches; for a change of ASCII letters; and for a copy.
CHARACTERS: Final = 32
SOUGHT: Final = 128
LETTERS: Final = 1_024
COPIED: Final = 4_096


class RowWork:
    """Counts the steps that a query takes for one row.

    Attributes:
        taken: the steps so far. The caller sets it back for the next row.
    """

    __slots__ = ("_most", "taken")

    def __init__(self, most: int = ROW_STEPS) -> None:
        """``most`` is the bound; `NO_BOUND` for none."""
        self._most = most
        self.taken = 0

    def spend(self, steps: int) -> None:
        """Count steps, before more are done. Raises ``LimitExceeded`` if they are too many."""
        self.taken += steps
        if self.taken > self._most:
            raise LimitExceeded(
                f"the query takes more than {self._most:,} steps for one row: write fewer LIKEs and other "
                "operations, patterns with fewer _, or look at shorter texts"
            )

    def copy(self, *texts: str) -> None:
        """Count the steps to copy texts. Raises ``LimitExceeded``."""
        self.spend(sum(map(len, texts)) // COPIED)

    def compare(self, left: Any, right: Any) -> None:
        """Count the steps to compare two values. Raises ``LimitExceeded``."""
        if isinstance(left, str | bytes):
            self.spend(min(len(left), len(right)) // COPIED)
        else:
            self.look_at(left)
            self.look_at(right)

    def look_at(self, value: Any) -> None:
        """Count the steps to go through a value: one for each member of JSON. Raises ``LimitExceeded``."""
        if isinstance(value, dict | list | tuple):
            self.spend(sum(map(len, _containers_of(value))))

    def change_letters(self, text: str) -> None:
        """Count the steps to change the letters of a text. Raises ``LimitExceeded``."""
        self.spend(len(text) // (LETTERS if text.isascii() else CHARACTERS))


def _containers_of(value: Any) -> Iterator[Any]:
    """Yield the objects and lists of a value of JSON, the value itself first."""
    waiting = [value]
    while waiting:
        container = waiting.pop()
        yield container
        members = container.values() if isinstance(container, dict) else container
        waiting += [member for member in members if isinstance(member, dict | list | tuple)]
