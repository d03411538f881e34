"""The segments of one partition's waiting rows, the oldest first."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from tidegate.hlc import Timestamp
from tidegate.subscribe.gate.row_chunk import RowChunk


class _Segment(NamedTuple):
    """Rows between two markers: none of them is at or below ``after``."""

    after: Timestamp
    chunks: list[RowChunk]


class SegmentQueue:
    """Holds each segment until the minimum of all partitions is above the marker before the segment.

    Rows are added to the open segment, which has no end yet. Most rows that wait are here.

    Attributes:
        rows: how many rows it holds.
    """

    __slots__ = ("_ended", "_open", "rows")

    def __init__(self) -> None:
        self.rows = 0
        self._ended: deque[_Segment] = deque()
        self._open: list[RowChunk] = []

    def add(self, chunk: RowChunk) -> None:
        """Add rows to the open segment."""
        self._open.append(chunk)
        self.rows += chunk.rows

    def end(self, after: Timestamp) -> None:
        """End the open segment, which began after a marker at ``after``. Drop it if it has no rows."""
        if self._open:
            self._ended.append(_Segment(after, self._open))
            self._open = []

    def take_below(self, minimum: Timestamp) -> list[RowChunk]:
        """Remove the ended segments that begin below a minimum, and return their rows.

        Some of the rows may be above it.
        """
        taken: list[RowChunk] = []
        while self._ended and self._ended[0].after < minimum:
            taken += self._ended.popleft().chunks
        self.rows -= sum(chunk.rows for chunk in taken)
        return taken

    def below(self, minimum: Timestamp) -> list[RowChunk]:
        """Return the rows that ``take_below`` would take, and leave them here."""
        return [chunk for segment in self._ended if segment.after < minimum for chunk in segment.chunks]

    def take_all(self) -> list[RowChunk]:
        """Remove all rows, also those of the open segment, and return them in their order."""
        taken = self.chunks()
        self._ended.clear()
        self._open = []
        self.rows = 0
        return taken

    def chunks(self) -> list[RowChunk]:
        """Return all rows, in their order. One thread may call this while another adds rows."""
        return [*(chunk for segment in tuple(self._ended) for chunk in segment.chunks), *self._open]

    def first_offset(self) -> int | None:
        """Return the lowest offset of a row; ``None`` without rows."""
        # The queue is copied first: another thread may ask for the figures while this one reads.
        for chunks in (*(segment.chunks for segment in tuple(self._ended)), self._open):
            if chunks:
                return chunks[0].first_offset
        return None
