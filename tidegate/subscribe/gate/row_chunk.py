"""Rows of one partition as columns, so that thousands of them are compared, sorted and cut in one go.

A row stays as its bytes until it is complete. Only its timestamp is known before: wall and logical part as
two columns of numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tidegate.changefeed.encoding.record import RowRecord
from tidegate.hlc import Timestamp

IntColumn: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

#: About how many bytes a row takes in memory beside its key and value: for objects and numbers of columns.
_ROW_BYTES: Final = 160
#: A decoded row takes about this many times the bytes of its value.
_DECODED: Final = 10


class RowChunk(NamedTuple):
    """Some rows of one partition, as columns of equal length.

    Rows that have just come are in the order of their offsets. Rows that come back from a store are in any
    order. ``records`` has the decoded form of those rows whose timestamps cannot be read without decoding,
    and ``None`` for the others. ``memory_bytes`` is an estimate of the memory that the chunk takes.
    """

    offsets: IntColumn
    walls: IntColumn
    logicals: IntColumn
    keys: list[bytes]
    values: list[bytes | None]
    records: list[RowRecord | None]
    memory_bytes: int

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.keys)

    @property
    def bytes(self) -> int:
        """The number of bytes of their keys and values."""
        return sum(map(len, self.keys)) + sum(len(value) for value in self.values if value is not None)

    @property
    def first_offset(self) -> int:
        """The lowest offset of a row."""
        return int(self.offsets.min())

    def up_to(self, bound: Timestamp) -> Mask:
        """Return the mask of the rows at or below a timestamp."""
        return at_or_below(self.walls, self.logicals, bound)

    def part(self, begin: int, end: int) -> RowChunk:
        """Return the rows from one position up to another."""
        return RowChunk(
            self.offsets[begin:end],
            self.walls[begin:end],
            self.logicals[begin:end],
            self.keys[begin:end],
            self.values[begin:end],
            self.records[begin:end],
            self._share(end - begin),
        )

    def where(self, mask: Mask) -> RowChunk:
        """Return the rows that a mask selects."""
        at = np.flatnonzero(mask)
        return self if len(at) == self.rows else self.at(at)

    def at(self, at: IntColumn) -> RowChunk:
        """Return the rows at some positions, in the order of the positions."""
        keys, values, records = self.keys, self.values, self.records
        places = at.tolist()
        return RowChunk(
            self.offsets[at],
            self.walls[at],
            self.logicals[at],
            [keys[each] for each in places],
            [values[each] for each in places],
            [records[each] for each in places],
            self._share(len(places)),
        )

    def _share(self, rows: int) -> int:
        """Estimate the memory in bytes that ``rows`` of its rows take."""
        return self.memory_bytes * rows // max(self.rows, 1)


def joined_chunks(chunks: Sequence[RowChunk]) -> RowChunk:
    """Return the rows of some chunks, one chunk after the other. There is at least one."""
    if len(chunks) == 1:
        return chunks[0]
    return RowChunk(
        np.concatenate([each.offsets for each in chunks]),
        np.concatenate([each.walls for each in chunks]),
        np.concatenate([each.logicals for each in chunks]),
        [key for each in chunks for key in each.keys],
        [value for each in chunks for value in each.values],
        [record for each in chunks for record in each.records],
        sum(each.memory_bytes for each in chunks),
    )


def memory_of(keys: Sequence[bytes], values: Sequence[bytes | None], decoded: int) -> int:
    """Estimate the memory in bytes that rows take; ``decoded`` of them are decoded."""
    value_bytes = sum(map(len, filter(None, values)))
    rows = len(keys)
    return (
        rows * _ROW_BYTES
        + sum(map(len, keys))
        + value_bytes
        + value_bytes * _DECODED * decoded // max(rows, 1)
    )


def at_or_below(walls: IntColumn, logicals: IntColumn, bound: Timestamp) -> Mask:
    """Return the mask of the timestamps at or below a bound."""
    mask: Mask = (walls < bound.wall) | ((walls == bound.wall) & (logicals <= bound.logical))
    return mask


def below(walls: IntColumn, logicals: IntColumn, bound: Timestamp) -> Mask:
    """Return the mask of the timestamps below a bound."""
    mask: Mask = (walls < bound.wall) | ((walls == bound.wall) & (logicals < bound.logical))
    return mask


def int_column(numbers: Sequence[int]) -> IntColumn:
    """Return numbers of 64 bits as a column."""
    return np.array(numbers, np.int64)
