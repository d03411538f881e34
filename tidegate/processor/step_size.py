"""The size of a step: as much of the log as has rows that fit into memory (docs/protocols/batches.md).

A row may have a thousand times the bytes of its entry in the log. Example: a table has 1,000 columns with
names of 20 bytes. An entry that sets two of them has 60 bytes. Its row in JSON names all columns, and has
30,000 bytes. 5,000 such entries are 0.3 MB of log and 150 MB of rows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import attrgetter
from typing import Final

from tidegate.processor.batch import LogRecord
from tidegate.processor.feeds.row_reckoning import RowReckoning

#: The bytes of the log in a portion, at most: in the first one of a run, and in any other one.
_FIRST: Final = 64 << 10
_MOST: Final = 1 << 20
#: A portion may be this many times as long as the one before.
_GROWS: Final = 4
#: The weight of what a portion has shown is halved with each further portion.
_FADES: Final = 0.5
_value_of: Final = attrgetter("value")


@dataclass(frozen=True, slots=True)
class RowLimits:
    """The bounds of rows, in bytes of keys, values and headers.

    A step takes records until the rows of all feeds have ``step_bytes`` together. If one entry of the log
    makes more than ``entry_bytes`` for a feed, that feed fails.
    """

    step_bytes: int = 64 << 20
    entry_bytes: int = 512 << 20


class StepPace:
    """Cuts records into portions: after each one the rows are made and counted.

    It remembers how many bytes of rows a byte of the log has made lately, and looks at how wide tables are.
    So if rows are long, or soon may be, a portion is short. A step exceeds its limit only by a little.
    """

    __slots__ = ("_most", "_ratio", "_reckoning", "_step_bytes")

    def __init__(self, reckoning: RowReckoning, limits: RowLimits) -> None:
        self._step_bytes = limits.step_bytes
        self._reckoning = reckoning
        self._ratio = 1.0
        self._most = _FIRST

    @property
    def log_bytes(self) -> int:
        """The number of bytes of the log that the next portion may have, at least 1."""
        longest = max(1.0, self._ratio, self._reckoning.longest)
        return max(1, min(self._most, int(self._step_bytes / longest)))

    def portion_end(self, sizes: Sequence[int], first: int) -> int:
        """Return where the portion ends that begins with record ``first``: it has that record at least.

        ``sizes`` is what ``sizes_before`` returns.
        """
        return max(first + 1, bisect_right(sizes, sizes[first] + self.log_bytes, first) - 1)

    def note(self, log_bytes: int, row_bytes: int) -> None:
        """Note that ``log_bytes`` bytes of the log have made ``row_bytes`` bytes of rows. The next portion
        may be longer.
        """
        self._ratio = max(row_bytes / max(1, log_bytes), _FADES * self._ratio)
        self._most = min(_MOST, _GROWS * self._most)


def sizes_before(records: Sequence[LogRecord]) -> list[int]:
    """Return how many bytes the values of the records before each one have, and then those of all.

    Example: values of 3, 0 and 4 bytes give 0, 3, 3 and 7.
    """
    values = map(_value_of, records)
    return [*accumulate((len(value) if value else 0 for value in values), initial=0)]
