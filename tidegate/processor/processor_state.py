"""The state of one log partition: its position in the log, its ranges, feeds and descriptors, all as rows.

``freeze`` gives the rows as bytes of one moment. ``restore`` makes the same state of them, or refuses them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from tidegate.errors import StateError
from tidegate.hlc import ZERO, Timestamp
from tidegate.processor.batch import LogRecord, StateChange, StateTable
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.feeds.feed_table import PartitionFeeds
from tidegate.processor.feeds.journal import Journal
from tidegate.processor.feeds.kernel_rows import KernelRows
from tidegate.processor.feeds.row_reckoning import RowReckoning
from tidegate.processor.feeds.version_rows import PartitionRows
from tidegate.processor.moving.partition_ranges import PartitionRanges
from tidegate.processor.restore import RangeRows, read_named, require_written
from tidegate.processor.state.digest import RowDigests
from tidegate.processor.state.position_hash import POSITION_KEY
from tidegate.processor.state.row_pieces import RowPieces
from tidegate.processor.state.state_codec import (
    NOWHERE,
    Position,
    TableSizes,
    position_row,
)
from tidegate.processor.step_size import StepPace
from tidegate.raftlog.entry import Offset
from tidegate.ranges.range_state import RangeState, RangeStatus


class ProcessorState:
    """The state that a processor keeps of log partition ``partition`` of ``partitions``."""

    def __init__(self, partition: int, partitions: int, config: ProcessorConfig) -> None:
        self.partition = partition
        self.position = Position(log_id=config.log_id, control_id=config.control_id)
        #: The last offset of the log that was read in this run. After a restart it is below the position
        #: while ranges that were behind read their entries again.
        self.read = NOWHERE
        self.rows = PartitionRows(config.descriptors)
        self.feeds = PartitionFeeds(partition)
        #: The states of ranges before the uncommitted steps; ``None`` where feeds cannot be detached.
        self.journal = Journal() if config.detachable else None
        self.reckoning = RowReckoning(self.rows, self.feeds)
        self.ranges = PartitionRanges(
            partition,
            partitions,
            self.feeds,
            config.queue,
            config.spill,
            config.catch_up,
            self.journal,
            config.bounds,
            self.reckoning,
            config.backlog_bytes,
        )
        #: The kernel that writes rows in native code; ``None`` if Python writes them.
        self.kernel = None if config.kernel is None else KernelRows(config.kernel, self.rows, self.feeds)
        self.row_limits = config.rows
        #: One pace for the log and one for backlogs: an entry that is put off makes its rows only later.
        self.pace, self.backlog_pace = (StepPace(self.reckoning, config.rows) for _ in range(2))
        self.rows.is_wanted = lambda table_id: table_id in self.feeds.wanted_tables
        self.rows.room.lowest_read = self._lowest_read
        self._pieces = RowPieces(config.bounds.piece_bytes)
        self._digests = RowDigests()

    # ---- position ----

    def counts(self, record: LogRecord) -> bool:
        """Whether a record is to be applied.

        It is new to the partition, or the partition has passed it and a range that is behind has not.
        """
        if record.offset > self.position.offset:
            return True
        return record.offset > self.read and self.ranges.is_behind(record.key, record.offset)

    def advance(self, offset: Offset) -> None:
        """Move the position on: everything up to ``offset`` was read."""
        behind = self.read < self.position.offset
        self.read = max(self.read, offset)
        self.position.offset = max(self.position.offset, offset)
        if behind and self.read == self.position.offset:
            self.ranges.catch_up()

    def raise_high(self, timestamp: Timestamp) -> None:
        """Take in that a version at ``timestamp`` was applied."""
        if timestamp > self.position.high:
            self.position.high = timestamp

    def _lowest_read(self) -> Timestamp:
        """Return a time at or below which no row is read any more, by any feed, now or later."""
        lowest: list[Timestamp] = [each.feed.start for each in self.ranges.gaps.feeds.values()]
        lowest += (
            self._lowest_row(state)
            for state in self.ranges.table
            if state.status is not RangeStatus.ENDED and not self._is_only_claimed(state)
        )
        return min(lowest, default=ZERO)

    def _is_only_claimed(self, state: RangeState) -> bool:
        """Whether other ranges name a range, as a parent, and the log shows no Snapshot of it.

        Such a range may have ended before the log's beginning, and then no Snapshot of it ever comes. If one
        comes, it brings the descriptors of the range's rows, as that of any new range does.
        """
        waits = state.chunks or state.behind is not None or self.ranges.has_backlog(state.range_id)
        return state.span is None and not waits

    def _lowest_row(self, state: RangeState) -> Timestamp:
        """Return a time at or below which a range has no row to give; zero if that is not known.

        A Snapshot that waits may bring keys by a merge. These may have intents and missing rows below the
        timestamp that the range has resolved.
        """
        waits = state.awaits_snapshot or state.chunks or state.behind is not None
        if waits or self.ranges.has_backlog(state.range_id):
            return ZERO
        return min(state.gc_threshold, state.resolved)

    # ---- rows of state ----

    def freeze(self) -> list[StateChange]:
        """Return the rows that changed since the last call, with the position as the last one."""
        changes = self.ranges.freeze(self.position.offset, self.read)
        changes.extend(self.rows.freeze())
        changes.extend(self.feeds.freeze())
        changes = self._pieces.split(changes)
        self._digests.add_changes(changes)
        clock = self.ranges.table.clock
        self.position.log_time_ms, self.position.clock = clock.time_ms, clock.state()
        self.position.sizes = self._sizes()
        self.position.digests = self._digests.digests(self.ranges.table.intents_hash)
        changes.append(position_row(self.position))
        return changes

    def _sizes(self) -> TableSizes:
        return TableSizes(len(self.ranges), len(self.rows), len(self.feeds))

    def restore(self, rows: Iterable[tuple[StateTable, bytes, bytes]], config: ProcessorConfig) -> None:
        """Put back the state that ``rows`` hold; see `PartitionProcessor.restore`.

        The rows are read twice. The first pass checks that they are the rows that were written, and parses
        only the position's row. The second pass parses all others.
        """
        again = tuple(rows) if isinstance(rows, Iterator) else rows
        stored = require_written(self.partition, again, self._digests)
        if stored is not None:
            self.position = _position_for(config, self.partition, stored)
        vouched = stored is not None and stored.digests is not None
        read_named(self.partition, lambda: self._read_rows(again), vouched=vouched)

    def _read_rows(self, rows: Iterable[tuple[StateTable, bytes, bytes]]) -> None:
        restoring = RangeRows(self.ranges)
        others: dict[StateTable, list[tuple[bytes, bytes]]] = defaultdict(list)
        for table, key, value in rows:
            if table is StateTable.INTENTS:
                restoring.take_intent(key, value)
            elif key != POSITION_KEY and (row := self._pieces.join_piece(table, key, value)) is not None:
                if table is StateTable.RANGES:
                    restoring.take_range(row.key, row.value)
                else:
                    others[table].append((row.key, row.value))
        self._pieces.finish()
        restoring.finish(self.position.offset)
        behind = self.ranges.lowest_behind
        self.read = self.position.offset if behind is None else Offset(behind - 1)
        self.rows.restore(others[StateTable.DESCRIPTORS])
        self.feeds.restore(value for _, value in others[StateTable.FEEDS])
        self.ranges.gaps.restore()
        self._restore_clock()

    def _restore_clock(self) -> None:
        clock, stored = self.ranges.table.clock, self.position.clock
        if stored is not None:
            clock.restore(stored)
        else:
            closed = (state.resolver.closed.wall_ms for state in self.ranges)
            clock.guess(self.position.log_time_ms, closed)


def _position_for(config: ProcessorConfig, partition: int, stored: Position) -> Position:
    """Return the stored position, with the ids of its topics filled in.

    Raises ``StateError`` when it belongs to other topics.
    """
    for name, then, now in (
        ("log", stored.log_id, config.log_id),
        ("control", stored.control_id, config.control_id),
    ):
        if then and now and then != now:
            raise StateError(
                f"The state of log partition {partition} belongs to another {name} topic (its id was {then}, "
                f"the topic of that name has {now}): it was deleted and created again, or another one is "
                "configured. Bring the old topic back, or start with another application id"
            )
    return replace(
        stored, log_id=stored.log_id or config.log_id, control_id=stored.control_id or config.control_id
    )
