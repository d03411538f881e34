"""The inside of a step: applies entries of the log and of backlogs, and emits the rows that they commit.

Some entries change how rows are read, or which feeds get them. Rows of earlier entries are emitted before
such a change takes effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from tidegate.errors import DescriptorConflict, EncodingError, FeedError, MalformedEntry
from tidegate.hlc import MAX, ZERO, ZERO_CLOSED, ClosedTimestamp, Timestamp
from tidegate.processor.batch import Incident, LogRecord, StepResult
from tidegate.processor.breaking import refused_record
from tidegate.processor.containment import Input, unforeseen_in
from tidegate.processor.deliveries import Deliveries
from tidegate.processor.feed_failures import (
    fail_dropped,
    fail_hidden,
    fail_mutated,
    fail_overtaken,
    fail_table,
    fail_unreachable,
    untold_mutations,
)
from tidegate.processor.feeds.changes_outside_log import Untold
from tidegate.processor.feeds.partition_feed import PartitionFeed
from tidegate.processor.processor_state import ProcessorState
from tidegate.raftlog.entry import Command, DescriptorUpdate, Entry, Heartbeat, Offset, RangeEnd, Snapshot

#: The most entries of backlogs that one step applies.
_DRAIN_MAX: Final = 4_096


class LogStep:
    """The parts of one step. Each changes the partition's state, and adds to the step's result."""

    def __init__(self, state: ProcessorState) -> None:
        self._state = state
        self._rows = state.rows
        self._feeds = state.feeds
        self._ranges = state.ranges
        self._entries = state.ranges.entries
        self._parking = state.ranges.parking
        self._catch_ups = state.ranges.catch_ups
        self._mutations = state.ranges.mutations
        self._has_warned = False
        self._deliveries = Deliveries(state)
        self._watched = self._feeds.active

    def emit(self, result: StepResult) -> None:
        """Emit the rows of all versions committed so far."""
        self._deliveries.emit(result)

    def receivers(self) -> Sequence[PartitionFeed]:
        """Return the feeds that are given the versions of live ranges."""
        return self._deliveries.receivers()

    @contextmanager
    def chunk_in_parts(self, room: int, *, is_amid: bool) -> Iterator[None]:
        """Within this context, take only as many rows of a scan's chunk as make about ``room`` bytes of rows.

        Use it for a portion of one record. If a chunk has rows left, it is given again: then the step
        ``is_amid`` the chunk. No other record may be taken twice.
        """
        entries = self._entries
        entries.has_more, entries.is_amid_chunk = False, is_amid
        entries.row_bytes = min(room, self._state.row_limits.step_bytes)
        try:
            yield
        finally:
            entries.row_bytes, entries.is_amid_chunk = None, False

    @property
    def has_more(self) -> bool:
        """Whether rows are left of the last chunk, which was taken in parts."""
        return self._entries.has_more

    def apply(self, record: LogRecord, entry: Entry | MalformedEntry, result: StepResult) -> None:
        """Apply the next entry of the log, or refuse the record if it cannot be read or believed."""
        offset = Offset(record.offset)
        fault = entry if isinstance(entry, MalformedEntry) else self._entries.horizon.fault(entry, record)
        if fault is not None:
            self._entries.refuse(record, fault, passed=offset <= self._state.position.offset)
        elif isinstance(entry, DescriptorUpdate):
            self._learn((entry,), record, result, None)
        elif not isinstance(entry, MalformedEntry):
            if isinstance(entry, Snapshot):
                self._learn(entry.descriptors, record, result, _lowest_row(entry))
                self._state.raise_high(entry.high)
                if entry.last_mutation is not None:
                    self._state.raise_high(entry.last_mutation.time)
            self._entries.apply_or_queue(record, entry, passed=offset <= self._state.position.offset)
            self._fail_feeds(result)

    def closed_before(self, entry: Entry | MalformedEntry) -> ClosedTimestamp:
        """Return what the range of an entry has closed so far, before the entry is applied."""
        if isinstance(entry, MalformedEntry | DescriptorUpdate):
            return ZERO_CLOSED
        state = self._ranges.table.states.get(entry.range_id)
        return ZERO_CLOSED if state is None else state.resolver.closed

    def hear(self, record: LogRecord, entry: Entry | MalformedEntry, before: ClosedTimestamp) -> None:
        """Tell the log clock of an entry that was applied. ``before`` is what its range had closed before.

        Records that cannot be read, stand in another partition than their range, or name no range do not
        count (L5).
        """
        if isinstance(entry, MalformedEntry | DescriptorUpdate):
            return
        table, range_id = self._ranges.table, entry.range_id
        if not table.is_here(range_id):
            return
        if isinstance(entry, RangeEnd):
            table.clock.forget(range_id)
            return
        state = table.states.get(range_id)
        closed = ZERO_CLOSED if state is None else state.resolver.closed
        if isinstance(entry, Command | Heartbeat | Snapshot) and entry.closed is not None:
            closed = max(closed, entry.closed)
        table.clock.hear(range_id, record.timestamp, closed.wall_ms, rose=closed > before)

    def settle(self, result: StepResult, row_bytes: int) -> None:
        """Answer claims, and apply at most ``_DRAIN_MAX`` entries of backlogs.

        Entries are applied in portions until the step has ``row_bytes`` bytes of rows. At least one portion
        is applied, so that backlogs advance even if the log alone fills each step.
        """
        self.look_at_feeds()
        room = _DRAIN_MAX
        while True:
            has_room = room == _DRAIN_MAX or result.row_bytes < row_bytes
            taken = self._drain_portion(room, result) if has_room else 0
            self._fail_feeds(result)
            room -= taken
            if not self._parking.settle() and not (taken and room):
                return

    def _drain_portion(self, room: int, result: StepResult) -> int:
        pace, before = self._state.backlog_pace, result.row_bytes
        taken, log_bytes = self._entries.drain(room, pace.log_bytes)
        if taken:
            self._fail_feeds(result)
            self._deliveries.emit(result)
            pace.note(log_bytes, result.row_bytes - before)
        return taken

    def look_at_feeds(self) -> None:
        """Take in a change of the active feeds: drop the waits for feeds that are gone, and their gaps."""
        if self._feeds.active is not self._watched:
            self._watched = self._feeds.active
            self._parking.release_unneeded()
            self._ranges.missing_versions.look_at_feeds()

    def ask(self, result: StepResult) -> None:
        """Add the requests for scans, and fail the feeds to which no scan can bring everything."""
        result.requests += self._ranges.due(self._state.position.offset, self._state.read)
        self._fail_feeds(result)

    def _fail_feeds(self, result: StepResult) -> None:
        """Fail the feeds that can never be given all their rows, once rows of earlier records are emitted."""
        if not (self._parking.has_unreachable or self._mutations.has_news or self._catch_ups.has_overtaken):
            return
        for lost in self._parking.take_unreachable():
            self._deliveries.emit(result)
            fail_unreachable(self._feeds, lost)
        for mutation in self._mutations.take_noted():
            self._deliveries.emit(result)
            fail_mutated(self._state, mutation)
            if mutation.last < MAX:
                self._state.raise_high(mutation.last)  # feeds that begin later start above the change
        for hidden in self._mutations.take_hidden():
            self._deliveries.emit(result)
            fail_hidden(self._state, hidden)
        for untold in self._mutations.take_untold():
            self._warn_of(untold, result)
        for overtaken in self._catch_ups.take_overtaken():
            self._deliveries.emit(result)
            fail_overtaken(self._feeds, *overtaken)

    def _warn_of(self, untold: Untold, result: StepResult) -> None:
        """Report, once in this run, that a source does not tell of mutations.

        It fails no feed: nobody can know whether there was a mutation. It reports only if a feed may miss
        rows there.
        """
        if not self._has_warned and self._feeds.missing(untold.span, untold.high):
            self._has_warned = True
            cause = untold_mutations(untold)
            result.incidents.append(
                Incident(self._state.partition, untold.offset, untold.range_id, None, cause)
            )

    def _learn(
        self,
        updates: Iterable[DescriptorUpdate],
        record: LogRecord,
        result: StepResult,
        lowest: Timestamp | None,
    ) -> None:
        """Take descriptor versions. Rows before a new version are read first, by the older one.

        ``lowest`` is the time of the lowest row of the range whose Snapshot has them; ``None``: a broadcast.
        """
        offset = Offset(record.offset)
        place = f"offset {offset} of log partition {self._state.partition}"
        for update in updates:
            is_new = self._rows.is_new(update)
            if is_new:
                self._deliveries.emit(result)
            try:
                self._rows.learn(update, place, lowest)
            except (DescriptorConflict, EncodingError) as error:
                self._deliveries.emit(result)
                if (told := unforeseen_in(error)) is not None:
                    result.keep_aside([refused_record(Input.LOG, record, told)])
                cause = f"version {update.version} of table {update.table_id}: {error}"
                fail_table(self._feeds, update.table_id, FeedError(f"{cause} (it stands at {place})"))
                result.incidents.append(Incident(self._state.partition, offset, None, None, cause))
            else:
                if is_new and (head := self._rows.catalog.head(update.table_id, update.version)):
                    fail_dropped(self._feeds, head)


def _lowest_row(chunk: Snapshot) -> Timestamp:
    """Return a time below which the range of a Snapshot has no row to give.

    The range's open intents may be below the GC threshold. If the Snapshot has several chunks, any of them
    may have such intents, so nothing is known.
    """
    if chunk.chunks > 1:
        return ZERO
    return min([chunk.gc_threshold, *(intent.timestamp for intent in chunk.intents)])
