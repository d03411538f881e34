"""How much of the log one step takes, so that its rows fit into memory (docs/protocols/batches.md).

A row may have a thousand times the bytes of its entry in the log. Example: a table has 1,000 columns with
names of 20 bytes. An entry that sets two of them has 60 bytes. Its row in JSON names all columns, and has
30,000 bytes. 5,000 such entries are 0.3 MB of log and 150 MB of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import attrgetter
from typing import Final

from tidegate.processor.batch import LogRecord

#: The bytes of the log in a portion: the first one of a run, and any other one at most.
_FIRST: Final = 64 << 10
_MOST: Final = 1 << 20
#: What one portion says counts half as much with each further portion.
_FADES: Final = 0.5
_value_of: Final = attrgetter("value")


@dataclass(frozen=True, slots=True)
class RowLimits:
    """How many bytes rows may have, in keys, values and headers.

    A step takes records until the rows of all feeds have ``step_bytes`` together. A feed fails for which one
    entry of the log makes more than ``entry_bytes``.
    """

    step_bytes: int = 64 << 20
    entry_bytes: int = 512 << 20


class StepPace:
    """Cuts records into portions: after each one the rows are made and counted.

    It remembers how many bytes of rows a byte of the log has made lately. So where rows are long a portion is
    short, and a step hardly gets longer than it may.
    """

    __slots__ = ("_ratio", "_step_bytes")

    def __init__(self, limits: RowLimits) -> None:
        self._step_bytes = limits.step_bytes
        self._ratio: float | None = None

    @property
    def log_bytes(self) -> int:
        """How many bytes of the log the next portion may have."""
        if self._ratio is None:
            return _FIRST
        return min(_MOST, int(self._step_bytes / max(1.0, self._ratio)))

    def portion(self, records: Sequence[LogRecord]) -> int:
        """Return how many of the first records are the next portion: one at least, if there is any."""
        most = self.log_bytes
        sizes = [len(value) if value else 0 for value in map(_value_of, records)]
        if sum(sizes) <= most:
            return len(records)
        return max(1, sum(size <= most for size in accumulate(sizes)))

    def note(self, log_bytes: int, row_bytes: int) -> None:
        """Take in that so many bytes of the log have made so many bytes of rows."""
        ratio = row_bytes / max(1, log_bytes)
        self._ratio = ratio if self._ratio is None else max(ratio, _FADES * self._ratio)


def log_size(records: Sequence[LogRecord]) -> int:
    """Return how many bytes the values of records have."""
    return sum(map(len, filter(None, map(_value_of, records))))
