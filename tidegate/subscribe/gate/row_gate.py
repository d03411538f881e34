"""The gate itself: lets row versions through once all partitions of all topics are complete up to them.

1. A row's timestamp is read when the row arrives. D is the timestamp up to which everything was delivered. A
   row at or below D is a repeat, and is dropped. A row at or below the begin of its topic
   (`GateStart.begins`) is dropped too: a former feed wrote it. Markers of that feed do not count either. A
   row above D, but not above the last marker of its own partition, is kept for the next opening. A row above
   that marker waits: as bytes if its timestamp could be read without decoding, else decoded.
2. A marker ends its partition's segment. The *minimum* is the lowest of the last markers of all partitions.
3. When the minimum rises to M, the rows at or below M are sorted by timestamp, and exact copies are
   dropped. Everything up to M is complete: the frontier is ``M.next()``.
4. If the rows that wait take more memory than they may (`Spill.budget_bytes`), all rows of the partition with
   the largest part of this memory are moved to a store. They are taken back in step 3. If the rows that are
   complete, in memory and in the store, take more than an eighth of that memory (`Spill.opening_bytes`), the
   gate opens in several steps, each up to a timestamp below M. The reason is that rows are decoded when they
   are delivered, and then take several times their bytes.
5. All rows of a snapshot may have the same timestamp. Therefore rows up to `GateStart.parts_up_to` are let
   through in *parts*, each with as many rows as step 4 allows, unsorted and with copies. The frontier of a
   part is the frontier before it, because nothing more is complete. After the last part comes an opening
   without rows. Its frontier says that all rows of the snapshot were there.

Step 1 has the rule of TiCDC's reference consumer. An earlier rule there dropped rows by a higher watermark,
and lost data.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from tidegate.changefeed.encoding.record import RecordDecoder
from tidegate.errors import UnreadableRow
from tidegate.hlc import ZERO, Timestamp
from tidegate.subscribe.gate.feed_record import FeedPartition, FeedRecord, RecordColumns, RowVersion
from tidegate.subscribe.gate.opened_rows import DecodeRow, OpenedRows, in_order, rows_of_chunks
from tidegate.subscribe.gate.recent_versions import VERSIONS_KEPT, RecentVersions
from tidegate.subscribe.gate.row_chunk import RowChunk, int_column
from tidegate.subscribe.gate.spilled_rows import Spill
from tidegate.subscribe.gate.version_reader import VersionReader, require_risen
from tidegate.subscribe.gate.waiting_rows import WaitingRows
from tidegate.subscribe.updates.first_error import FirstError
from tidegate.subscribe.updates.frontier import Frontier, frontier_after, resume_as_of


@dataclass(frozen=True, slots=True)
class GateOpening:
    """The rows that a rise of the minimum lets through: all below ``frontier`` that were not delivered yet.

    A part of a snapshot (step 5) has a frontier that did not rise, and rows in no order. ``decode`` decodes
    one of them.
    """

    frontier: Frontier
    rows: OpenedRows
    decode: DecodeRow

    @property
    def versions(self) -> tuple[RowVersion, ...]:
        """The rows decoded, in the order of timestamp, topic and key.

        Raises ``UnreadableRow`` for a row that cannot be decoded: then nothing of this opening was delivered.
        """
        return self.rows.versions(self.decode)


@dataclass(frozen=True, slots=True)
class GateStart:
    """The beginning of a gate: above ``delivered``, and at these offsets.

    A partition without an offset begins at 0. Rows up to ``parts_up_to`` are let through in parts. Some
    topics had a former feed. ``begins`` has for such a topic the timestamp up to which all rows and markers
    are the former feed's. ``silent_to`` has the timestamp up to which markers may be the former feed's,
    although all rows above the topic's begin are the present feed's.
    """

    delivered: Timestamp = ZERO
    offsets: Mapping[FeedPartition, int] = field(default_factory=dict)
    parts_up_to: Timestamp = ZERO
    begins: Mapping[str, Timestamp] = field(default_factory=dict)
    silent_to: Mapping[str, Timestamp] = field(default_factory=dict)

    def silence_of(self, place: FeedPartition) -> Timestamp:
        """Return the timestamp above which markers of a partition count."""
        return max(self.begin_of(place), self.silent_to.get(place.topic, ZERO))

    def begin_of(self, place: FeedPartition) -> Timestamp:
        """Return the timestamp above which rows of a partition are taken."""
        return max(self.delivered, self.begins.get(place.topic, ZERO))


class RowGate:
    """The gate of a subscription. It holds rows back until all partitions are complete up to them.

    It takes the records of all partitions of a feed's topics, in offset order within each partition.

    Attributes:
        delivered: the timestamp up to which (inclusive) all rows were let through.
        repeats: how many rows were dropped: copies of versions that had come already, and rows at or below
            their topic's begin.
        spilled_rows: how many rows were moved out of memory.
    """

    __slots__ = (
        *("_counted_bytes", "_first_error", "_parts_up_to", "_reader", "_recent", "_spill", "_waits"),
        *("delivered", "repeats", "spilled_rows"),
    )

    def __init__(
        self,
        decoders: Mapping[str, RecordDecoder],
        partitions: Iterable[FeedPartition],
        start: GateStart | None = None,
        versions_kept: int = VERSIONS_KEPT,
        spill: Spill | None = None,
    ) -> None:
        """``decoders`` are by topic. ``partitions`` are all that have rows; ``ValueError`` if there are none.

        ``spill`` says where rows are moved that have no room in memory; without it memory has no bound.
        """
        start = start or GateStart()
        self._reader = VersionReader(decoders)
        self.repeats = 0
        self.spilled_rows = 0
        self._spill = spill
        self._parts_up_to = start.parts_up_to
        #: The memory that rows took when it was counted last, and the memory of all rows added since.
        self._counted_bytes = 0
        self._first_error = FirstError()
        store = None if spill is None else spill.store
        self._waits = {
            place: WaitingRows(
                start.begin_of(place), start.offsets.get(place, 0), store, start.silence_of(place)
            )
            for place in partitions
        }
        if not self._waits:
            raise ValueError("a gate without partitions would never open")
        self.delivered = self.minimum
        self._recent = RecentVersions(self.delivered, versions_kept)

    @property
    def waiting_rows(self) -> int:
        """The number of rows that wait."""
        return sum(wait.rows for wait in self._waits.values())

    @property
    def waiting_bytes(self) -> int:
        """The number of bytes of the waiting rows' keys and values in memory."""
        return sum(wait.bytes for wait in self._waits.values())

    def add_record(self, place: FeedPartition, record: FeedRecord) -> None:
        """Add a record. A record whose offset was read already is ignored.

        Raises ``PromiseBroken`` and ``UnreadableRow`` with topic, partition and offset; each later call
        raises the same error.
        """
        self.add_records(place, RecordColumns.of((record,)))

    def add_records(self, place: FeedPartition, records: RecordColumns) -> None:
        """Add several records of one partition, as ``add_record`` does: a batch costs little more than a
        record."""
        with self._first_error:
            wait = self._wait_of(place)
            for rows, marker in records.by_markers(bisect_left(records.offsets, wait.next_offset)):
                self._take_rows(place, rows, wait)
                if marker is not None:
                    self._take_marker(place, marker, wait)
            self._move_out_of_memory()

    @property
    def minimum(self) -> Timestamp:
        """The lowest of the last markers of all partitions, or the timestamp at which the gate began if that
        is higher."""
        return min(wait.bound for wait in self._waits.values())

    def bound_of(self, place: FeedPartition) -> Timestamp:
        """Return the last marker of a partition, or the timestamp at which the gate began if that is
        higher."""
        return self._wait_of(place).bound

    def waiting_of(self, place: FeedPartition) -> int:
        """Count the rows of a partition that wait."""
        return self._wait_of(place).rows

    def is_ahead(self, place: FeedPartition) -> bool:
        """Whether other partitions hold this one's rows back: its marker is above the minimum."""
        return self._wait_of(place).bound > self.minimum

    def mark(self, place: FeedPartition, resolved: Timestamp, offset: int) -> None:
        """Take a marker for a partition; ``offset`` is its record's own offset.

        Raises ``MarkerFell`` if it is below the partition's last marker.
        """
        with self._first_error:
            self._mark(place, resolved, offset)

    def _mark(self, place: FeedPartition, resolved: Timestamp, offset: int) -> None:
        wait = self._wait_of(place)
        if resolved <= wait.silent_to and wait.marker <= wait.silent_to:
            return  # it may be a former feed's, or is not above what was delivered
        require_risen(place, offset, resolved, wait.marker)
        wait.pass_marker(resolved)

    def open(self) -> GateOpening | None:
        """Return the rows that became complete since the last call; ``None`` if the minimum did not rise.

        Call it until it returns ``None``: with a spill many rows come in several steps. Raises
        ``RepeatDiffers``, and ``SpillLost`` if the store does not give rows back.
        """
        with self._first_error:
            return self._open()

    def _open(self) -> GateOpening | None:
        minimum = self.minimum
        if minimum <= self.delivered:
            return None
        if self.delivered < self._parts_up_to and self._spill is not None:
            return self._open_part(min(minimum, self._parts_up_to), self._spill.opening_bytes)
        up_to = minimum if self._spill is None else self._step_towards(minimum, self._spill.opening_bytes)
        rows, copies = in_order(
            rows_of_chunks(
                [(place, chunk) for place, wait in self._waits.items() for chunk in wait.take_up_to(up_to)]
            )
        )
        self.repeats += copies
        self._recent.add(rows)
        self.delivered = up_to
        self._counted_bytes = self._memory_bytes()  # with what was taken back and is carried over
        return GateOpening(frontier_after(up_to), rows, self._reader.row)

    def _open_part(self, bound: Timestamp, most_bytes: int) -> GateOpening:
        """Let some of the rows up to a bound through. If none are left, return the opening that says that all
        rows up to the bound were there."""
        chunks: list[tuple[FeedPartition, RowChunk]] = []
        left = max(most_bytes, 1)
        for place, wait in self._waits.items():
            if left <= 0:
                break
            taken = wait.take_some_up_to(bound, left)
            left -= sum(chunk.memory_bytes for chunk in taken)
            chunks += [(place, chunk) for chunk in taken]
        self._counted_bytes = self._memory_bytes()
        rows = rows_of_chunks(chunks)
        if chunks:
            self._recent.add_part(rows)
        else:
            self._recent.end_parts(bound)
            self.delivered = bound
        return GateOpening(frontier_after(self.delivered), rows, self._reader.row)

    def _step_towards(self, minimum: Timestamp, budget_bytes: int) -> Timestamp:
        """Return the highest timestamp, up to a minimum, such that the rows up to it fit into the budget.

        Rows of one timestamp stay together, so the rows of one timestamp may be more than the budget.
        """
        blocks = [block for wait in self._waits.values() for block in wait.spilled_up_to(minimum)]
        if not blocks and sum(wait.memory_bytes for wait in self._waits.values()) <= budget_bytes:
            return minimum
        chunks = [chunk for wait in self._waits.values() for chunk in wait.in_memory_up_to(minimum)]
        # A block counts at its lowest timestamp, since it is taken back whole; a row counts at its own. Rows
        # with the same wall time stay together: rows that differ only in their logical parts are rare.
        walls = np.concatenate(
            [int_column([block.lowest.wall for block in blocks]), *(each.walls for each in chunks)]
        )
        sizes = np.concatenate(
            [
                int_column([block.memory_bytes for block in blocks]),
                *(np.full(each.rows, each.memory_bytes // max(each.rows, 1)) for each in chunks),
            ]
        )
        order = np.argsort(walls)
        walls, taken = walls[order], np.cumsum(sizes[order])
        over = walls[taken > budget_bytes]
        later = over[over > walls[0]] if len(over) else over
        if not len(later):
            return minimum
        return min(minimum, resume_as_of(Frontier(Timestamp(int(later[0])))))

    def _move_out_of_memory(self) -> None:
        if self._spill is None or self._counted_bytes <= self._spill.budget_bytes:
            return
        while (taken := self._memory_bytes()) > self._spill.budget_bytes:
            largest = max(self._waits.values(), key=lambda wait: wait.memory_bytes)
            self.spilled_rows += largest.move_out()
        self._counted_bytes = taken

    def _memory_bytes(self) -> int:
        return sum(wait.memory_bytes for wait in self._waits.values())

    def offsets(self) -> dict[FeedPartition, int]:
        """Return the offsets from which a resume has to read to get all above ``delivered`` again."""
        return {place: wait.first_offset(self.delivered) for place, wait in self._waits.items()}

    def next_offset(self, place: FeedPartition) -> int:
        """Return the offset after the last record that the gate has taken from a partition."""
        return self._wait_of(place).next_offset

    def _take_marker(self, place: FeedPartition, record: FeedRecord, wait: WaitingRows) -> None:
        wait.next_offset = record.offset + 1
        self._mark(place, self._reader.marker(place, record).resolved, record.offset)
        wait.stand_at_marker(record.offset)

    def _take_rows(self, place: FeedPartition, records: RecordColumns, wait: WaitingRows) -> None:
        if not records.offsets:
            return
        wait.next_offset = records.offsets[-1] + 1
        chunk = self._reader.chunk(place, records)
        if chunk is None:
            return
        self._counted_bytes += chunk.memory_bytes
        below = chunk.up_to(wait.bound)
        if not below.any():
            wait.add(chunk)
            return
        if (former := chunk.up_to(wait.begin)).any():
            self.repeats += int(former.sum())
            chunk, below = chunk.where(~former), below[~former]
        known = chunk.up_to(self.delivered)
        if known.any():
            repeats = chunk.where(known)
            self._recent.require_repeats(place, repeats, self.delivered)
            self.repeats += repeats.rows
        if (late := below & ~known).any():
            wait.add_below_bound(chunk.where(late))
        if not below.all():
            wait.add(chunk.where(~below))

    def _wait_of(self, place: FeedPartition) -> WaitingRows:
        wait = self._waits.get(place)
        if wait is None:
            raise UnreadableRow(
                f"{place} is no partition of the feed: its topic was created anew with other partitions. "
                "Begin a new subscription",
                place.topic,
                place.partition,
            )
        return wait
