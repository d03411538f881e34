"""The rows of one partition that wait for the other partitions.

The rows between two markers are a *segment*. They wait as bytes if their timestamps can be read from the
bytes. A segment begins after marker A and ends with marker M, so all of its rows are above A. None of them is
complete before the minimum of all partitions is above A. Then the segment is looked at, once. Its rows above
the minimum are carried over.

Rows that are moved out of memory are no segment any more. They are in blocks, and each block is taken back
when the minimum reaches its lowest timestamp.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.hlc import ZERO, Timestamp
from tidegate.subscribe.gate.row_chunk import RowChunk
from tidegate.subscribe.gate.segment_queue import SegmentQueue
from tidegate.subscribe.gate.spilled_rows import BlockStore, SpilledBlock, move_out, take_back


class WaitingRows:
    """One partition's segments, the rows that were carried over, and how far the partition is.

    Attributes:
        begin: no row at or below it is taken.
        silent_to: no marker at or below it counts; it is at least ``begin``.
        marker: its last marker; zero before the first.
        bound: the timestamp up to which all rows were read: ``marker``, or ``begin`` if that is higher.
        next_offset: the offset after the last record that was read.
        memory_bytes: about how many bytes the rows take that wait in memory.
    """

    __slots__ = (
        *("_carried", "_carried_rows", "_marker_offset", "_segments", "_spilled", "_spilled_rows", "_store"),
        *("begin", "bound", "marker", "memory_bytes", "next_offset", "silent_to"),
    )

    def __init__(
        self,
        begin: Timestamp,
        next_offset: int,
        store: BlockStore | None = None,
        silent_to: Timestamp | None = None,
    ) -> None:
        """``store`` is the place to which ``move_out`` moves rows."""
        self.marker = ZERO
        self.begin = self.bound = begin
        self.silent_to = begin if silent_to is None else silent_to
        self.next_offset = next_offset
        self._segments = SegmentQueue()
        self._carried: list[RowChunk] = []
        self._carried_rows = 0
        self.memory_bytes = 0
        self._store = store
        self._spilled: list[SpilledBlock] = []
        self._spilled_rows = 0
        self._marker_offset: int | None = None

    @property
    def rows(self) -> int:
        """The number of rows that wait."""
        return self._segments.rows + self._carried_rows + self._spilled_rows

    @property
    def bytes(self) -> int:
        """The number of bytes of the keys and values in memory. Each call counts them, which takes 0.1 us a
        row."""
        return sum(chunk.bytes for chunk in (*self._carried, *self._segments.chunks()))

    def add(self, chunk: RowChunk) -> None:
        """Take rows above ``bound``."""
        self._segments.add(chunk)
        self.memory_bytes += chunk.memory_bytes

    def add_below_bound(self, chunk: RowChunk) -> None:
        """Take rows at or below the partition's own marker that are above what was delivered."""
        self._carried.append(chunk)
        self._carried_rows += chunk.rows
        self.memory_bytes += chunk.memory_bytes

    def pass_marker(self, marker: Timestamp) -> None:
        """End the segment. The caller has seen that markers do not fall."""
        self.marker = marker
        if marker <= self.bound:
            return
        self._segments.end(self.bound)
        self.bound = marker

    def stand_at_marker(self, offset: int) -> None:
        """Note that the last marker stands among the waiting rows, at ``offset``.

        A resume has to read it again with these rows.
        """
        self._marker_offset = offset

    def move_out(self) -> int:
        """Move all rows that are in memory to the store; return how many. Raises ``SpillLost``."""
        assert self._store is not None
        chunks = self._carried + self._segments.take_all()
        rows = sum(chunk.rows for chunk in chunks)
        self._carried, self._carried_rows, self.memory_bytes = [], 0, 0
        self._spilled += move_out(chunks, self._store)
        self._spilled_rows += rows
        return rows

    def spilled_up_to(self, minimum: Timestamp) -> list[SpilledBlock]:
        """Return the blocks outside of memory that have rows at or below a minimum."""
        return [block for block in self._spilled if block.lowest <= minimum]

    def in_memory_up_to(self, minimum: Timestamp) -> list[RowChunk]:
        """Return the rows in memory that ``take_up_to`` looks at; some of them may be above the minimum."""
        return self._carried + self._segments.below(minimum)

    def take_up_to(self, minimum: Timestamp) -> list[RowChunk]:
        """Take out the rows at or below a minimum, which is not above ``bound``. Raises ``SpillLost``."""
        looked_at = self._carried + self._segments.take_below(minimum)
        self.memory_bytes -= sum(chunk.memory_bytes for chunk in looked_at)
        complete, self._carried = [], []
        for chunk in (*looked_at, *self._taken_back(minimum)):
            below = chunk.up_to(minimum)
            if below.all():
                complete.append(chunk)
            elif below.any():
                complete.append(chunk.where(below))
                self._carried.append(chunk.where(~below))
            else:
                self._carried.append(chunk)
        self._carried_rows = sum(chunk.rows for chunk in self._carried)
        self.memory_bytes += sum(chunk.memory_bytes for chunk in self._carried)
        return complete

    def take_some_up_to(self, bound: Timestamp, most_bytes: int) -> list[RowChunk]:
        """Take out rows at or below a bound, unsorted, until they take ``most_bytes`` or all are taken.

        The last chunk may exceed ``most_bytes``. ``bound`` is not above the partition's own bound. Raises
        ``SpillLost``.
        """
        segments = self._segments.take_below(bound)
        self._carried += segments
        self._carried_rows += sum(chunk.rows for chunk in segments)
        taken: list[RowChunk] = []
        taken_bytes = 0
        above: list[RowChunk] = []
        while taken_bytes < most_bytes:
            if self._carried:
                chunk = self._carried.pop()
                self._carried_rows -= chunk.rows
                self.memory_bytes -= chunk.memory_bytes
            elif (found := self._take_block(bound)) is not None:
                chunk = found
            else:
                break
            below = chunk.up_to(bound)
            if below.any():
                taken.append(chunk.where(below))
                taken_bytes += taken[-1].memory_bytes
            if not below.all():
                above.append(chunk.where(~below))
        self._carried += above
        self._carried_rows += sum(chunk.rows for chunk in above)
        self.memory_bytes += sum(chunk.memory_bytes for chunk in above)
        return taken

    def _take_block(self, bound: Timestamp) -> RowChunk | None:
        """Take one block back from the store that has rows at or below a bound; ``None`` if there is none."""
        at = next((at for at, block in enumerate(self._spilled) if block.lowest <= bound), None)
        if at is None or self._store is None:
            return None
        chunk = take_back(self._spilled.pop(at), self._store)
        self._spilled_rows -= chunk.rows
        return chunk

    def _taken_back(self, minimum: Timestamp) -> Iterator[RowChunk]:
        """Take the blocks back from the store that have rows at or below a minimum."""
        if not self._spilled or self._store is None:
            return
        blocks = self.spilled_up_to(minimum)
        self._spilled = [block for block in self._spilled if block.lowest > minimum]
        for block in blocks:
            chunk = take_back(block, self._store)
            self._spilled_rows -= chunk.rows
            yield chunk

    def first_offset(self, delivered: Timestamp) -> int:
        """Return the offset from which a resume has to read, to get again every row that waits, and the last
        marker if it is above ``delivered``.

        Without the marker a partition that is ahead would seem to stand still until its next marker.
        """
        first = [chunk.first_offset for chunk in self._carried]
        first += [block.first_offset for block in self._spilled]
        if (in_segments := self._segments.first_offset()) is not None:
            first.append(in_segments)
        if self.bound > delivered and self._marker_offset is not None:
            first.append(self._marker_offset)
        return min(first, default=self.next_offset)
