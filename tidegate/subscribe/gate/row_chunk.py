"""Rows of one partition as columns, so that thousands of them are compared, sorted and cut in one go.

A row stays as its bytes until it is complete. Only its timestamp is known before: wall and logical part as
two columns of numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tidegate.changefeed.encoding.record import RowRecord
from tidegate.hlc import Timestamp

IntColumn: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]


class RowChunk(NamedTuple):
    """Some rows of one partition, in the order of their offsets.

    ``records`` has the rows that had to be decoded when they came, because their timestamps cannot be seen
    otherwise; ``None`` for each of the others.
    """

    offsets: IntColumn
    walls: IntColumn
    logicals: IntColumn
    keys: list[bytes]
    values: list[bytes | None]
    records: list[RowRecord | None]

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.keys)

    @property
    def bytes(self) -> int:
        """How many bytes their keys and values have."""
        return sum(map(len, self.keys)) + sum(len(value) for value in self.values if value is not None)

    @property
    def first_offset(self) -> int:
        """The lowest offset of a row."""
        return int(self.offsets[0])

    def up_to(self, bound: Timestamp) -> Mask:
        """Which rows are at or below a timestamp."""
        return at_or_below(self.walls, self.logicals, bound)

    def where(self, mask: Mask) -> RowChunk:
        """The rows of a mask."""
        at = np.flatnonzero(mask)
        if len(at) == self.rows:
            return self
        keys, values, records = self.keys, self.values, self.records
        places = at.tolist()
        return RowChunk(
            self.offsets[at],
            self.walls[at],
            self.logicals[at],
            [keys[each] for each in places],
            [values[each] for each in places],
            [records[each] for each in places],
        )


def at_or_below(walls: IntColumn, logicals: IntColumn, bound: Timestamp) -> Mask:
    """Which timestamps are at or below a bound."""
    mask: Mask = (walls < bound.wall) | ((walls == bound.wall) & (logicals <= bound.logical))
    return mask


def int_column(numbers: Sequence[int]) -> IntColumn:
    """Return numbers of 64 bits as a column."""
    return np.array(numbers, np.int64)
