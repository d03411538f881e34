"""Bounds the time of a query: no statement holds a thread for long, whatever it asks for.

Work is counted in *steps* of about a microsecond. An operation is a step; so are some characters of a text
that an operation goes through. Three things have a bound:

1. A row (`RowWork`).
2. What comes in one go and can be cut: a larger piece is cut (`PieceFull`).
3. What has to come at once (`ShownBytes`). A query of up to `FREE_STEPS` a row meets no bound, however many
   rows there are.

After every `PAUSE_STEPS` a query pauses (`ProcessShare.pause`): others go on, and whoever is closed ends. A
query that shares its process with nobody has none of these bounds: in the client library it is one's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tidegate.errors import LimitExceeded

#: Steps for a row, for a piece, and for what has to come at once.
ROW_STEPS: Final = 200_000
PIECE_STEPS: Final = 400_000
WHOLE_STEPS: Final = 100_000_000
NO_BOUND: Final = 1 << 62
#: Steps for each row that no bound counts.
FREE_STEPS: Final = 200
PAUSE_STEPS: Final = 2_000

#: Characters that an operation goes through in a step: one that reads each, such as a cast to a number; LIKE
#: that looks for a text; one that changes letters of ASCII; and one that copies.
CHARACTERS: Final = 32
SOUGHT: Final = 128
LETTERS: Final = 1_024
COPIED: Final = 4_096


class RowWork:
    """Counts the steps that a query takes for one row.

    Attributes:
        taken: the steps so far. Whoever goes on to the next row sets it back.
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
