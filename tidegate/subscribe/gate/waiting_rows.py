"""The rows of one partition that wait for the other partitions.

Between two markers rows lie as bytes, in a *segment*. Rows of a segment that ends with marker M and begins
after marker A are above A, so nothing in it is complete before the minimum of all partitions passes A: then
the segment is looked at, once. What is above the minimum is carried over, decoded and in order.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from tidegate.hlc import ZERO, Timestamp
from tidegate.subscribe.gate.feed_record import FeedRecord, RowVersion

#: A row that waits: as it was read, or decoded where its timestamp cannot be seen otherwise.
Waiting: TypeAlias = FeedRecord | RowVersion
DecodeRow: TypeAlias = Callable[[FeedRecord], RowVersion]


class Segment(NamedTuple):
    """Rows between two markers: none of them is at or below ``after``."""

    after: Timestamp
    rows: list[Waiting]


class WaitingRows:
    """One partition's segments, what was carried over, and how far the partition is.

    Attributes:
        marker: its last marker; zero before the first.
        bound: everything at or below it was read: the marker, or where the gate began if that is higher.
        next_offset: the offset behind the last record that was read.
    """

    __slots__ = (
        "_carried",
        "_decode",
        "_marker_offset",
        "_open",
        "_segments",
        "bound",
        "marker",
        "next_offset",
    )

    def __init__(self, decode: DecodeRow, begin: Timestamp, next_offset: int) -> None:
        self.marker = ZERO
        self.bound = begin
        self.next_offset = next_offset
        self._decode = decode
        self._open: list[Waiting] = []
        self._segments: deque[Segment] = deque()
        self._carried: list[RowVersion] = []
        self._marker_offset: int | None = None

    def __len__(self) -> int:
        return len(self._carried) + len(self._open) + sum(len(segment.rows) for segment in self._segments)

    def add(self, row: Waiting) -> None:
        """Take a row above ``bound``."""
        self._open.append(row)

    def add_below_bound(self, version: RowVersion) -> None:
        """Take a row at or below the partition's own marker, and above what was delivered: it is not
        dropped."""
        insort(self._carried, version)

    def pass_marker(self, marker: Timestamp) -> None:
        """End the segment. The caller has seen that markers do not fall."""
        self.marker = marker
        if marker <= self.bound:
            return
        if self._open:
            self._segments.append(Segment(self.bound, self._open))
            self._open = []
        self.bound = marker

    def stand_at_marker(self, offset: int) -> None:
        """Say that the last marker stands among the rows, at an offset: it has to be read again with them."""
        self._marker_offset = offset

    def take_up_to(self, minimum: Timestamp) -> list[RowVersion]:
        """The versions at or below a minimum, which is not above ``bound``, in their order."""
        looked_at: list[Waiting] = []
        while self._segments and self._segments[0].after < minimum:
            looked_at += self._segments.popleft().rows
        if looked_at:
            decode = self._decode
            self._carried += [row if isinstance(row, RowVersion) else decode(row) for row in looked_at]
            self._carried.sort()
        end = bisect_right(self._carried, minimum, key=lambda version: version.updated)
        complete, self._carried = self._carried[:end], self._carried[end:]
        return complete

    def first_offset(self, delivered: Timestamp) -> int:
        """Where to read from to have again every row that waits, and a marker above what was delivered.

        Without the marker a partition that is ahead would seem to stand still until the next one.
        """
        first = [version.offset for version in self._carried]
        for rows in (*(segment.rows for segment in self._segments), self._open):
            if rows:
                first.append(rows[0].offset)
                break
        if self.bound > delivered and self._marker_offset is not None:
            first.append(self._marker_offset)
        return min(first, default=self.next_offset)
