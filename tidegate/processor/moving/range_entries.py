"""Takes the entries of a log partition to their ranges: at once, or by way of a backlog
(docs/protocols/ranges.md).

One bad range never stops another. An entry that cannot be applied quarantines its range, and the rest of the
batch goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from tidegate.errors import MalformedEntry, RangeError, brief
from tidegate.hlc import ClosedTimestamp
from tidegate.processor.batch import LogRecord
from tidegate.processor.bounds import RecordBounds
from tidegate.processor.breaking import broke
from tidegate.processor.catchup.committed import CommittedVersions
from tidegate.processor.catchup.gap_scans import GapScans
from tidegate.processor.catchup.missing_versions import MissingVersions
from tidegate.processor.containment import Input
from tidegate.processor.feeds.changes_outside_log import MutationPlace, Mutations
from tidegate.processor.feeds.range_waits import claims_told_by
from tidegate.processor.feeds.row_reckoning import RowReckoning
from tidegate.processor.moving.entry_reader import EntryReader
from tidegate.processor.moving.healing import Healing
from tidegate.processor.moving.horizon import Horizon
from tidegate.processor.moving.parking import Parking
from tidegate.processor.table.partition_backlogs import Backlogs, raw_entry
from tidegate.processor.table.quarantine import Quarantines
from tidegate.processor.table.range_keys import keys_known
from tidegate.processor.table.range_table import RangeTable
from tidegate.raftlog.decode import decode_key
from tidegate.raftlog.entry import (
    BROADCAST,
    Command,
    DescriptorUpdate,
    Entry,
    Heartbeat,
    Offset,
    RangeEnd,
    RangeId,
    ScanChunk,
    Snapshot,
    Trigger,
)
from tidegate.ranges.backlog import Backlog, RawEntry
from tidegate.ranges.range_log import apply_entry
from tidegate.ranges.range_snapshot import passes_over
from tidegate.ranges.range_state import RangeState
from tidegate.ranges.version import Version
from tidegate.rows.table_key import shortened
from tidegate.spans import Span

#: The kinds of entries that say something of the range in whose log they stand.
OwnEntry: TypeAlias = Command | Heartbeat | Snapshot | RangeEnd
RangeEntry: TypeAlias = OwnEntry | ScanChunk

#: The key of a hole in a backlog that a record without a range has made. Its value is the cause, since the
#: record itself may be long, and would stand in many backlogs. No record of a range has this key.
_NAMELESS: Final = b""
#: The most entries of a backlog that are applied before it is another range's turn.
_TURN: Final = 256


class Drained(NamedTuple):
    """The number of backlog entries that were applied, and of the bytes of their values."""

    entries: int
    log_bytes: int


class RangeEntries:
    """Applies entries to the ranges of ``table``.

    The versions that they commit go to ``committed``. ``catch_ups`` gives them to the feeds that miss
    versions.
    """

    def __init__(
        self,
        table: RangeTable,
        backlogs: Backlogs,
        parking: Parking,
        healing: Healing,
        quarantines: Quarantines,
        missing_versions: MissingVersions,
        catch_ups: GapScans,
        committed: CommittedVersions,
        mutations: Mutations,
        bounds: RecordBounds,
        reckoning: RowReckoning,
    ) -> None:
        self._table = table
        self._touch = table.touch
        self._backlogs = backlogs
        self._parking = parking
        self._healing = healing
        self._quarantines = quarantines
        self._missing_versions = missing_versions
        self._catch_ups = catch_ups
        self._committed = committed
        self._mutations = mutations
        self._key_bytes = bounds.key_bytes
        self.reader = EntryReader()
        self._reckoning = reckoning
        #: The bytes of a chunk's rows for which there is room; ``None`` for all of them.
        self.row_bytes: int | None = None
        #: Whether the next chunk was taken in part before.
        self.is_amid_chunk = False
        #: Whether the last chunk has rows for which there was no room: it has to be given again.
        self.has_more = False
        self.horizon = Horizon(table.clock)

    def apply_or_queue(self, record: LogRecord, entry: RangeEntry, *, passed: bool) -> None:
        """Apply an entry to its range, or put it into the range's backlog.

        ``passed``: the partition has passed the entry before, and its range, which is behind, has not. A
        command with a forbidden op commits nothing: its range is quarantined, complete up to the resolved
        timestamp from before it.
        """
        range_id = entry.range_id
        if not self._table.is_here(range_id):
            self._quarantines.report_stray(range_id, record)
            return
        if isinstance(entry, Heartbeat) and not passed and self._closes(entry):
            return
        state, backlog = self._touch(range_id), self._backlogs.get(range_id)
        if not (passed or self.is_amid_chunk):
            self._hear_of(state, backlog)
        if isinstance(entry, Snapshot) and entry.chunk == 0:
            self._mutations.pass_snapshot(state, entry, _closed(state, backlog), is_new=not passed)
        if isinstance(entry, ScanChunk):
            self._take_chunk(state, entry, record)
        elif backlog is None:
            self._follow(state, entry, record)
        else:
            self._put_off(state, backlog, entry, record)

    def _closes(self, beat: Heartbeat) -> bool:
        """Take a heartbeat of a range at rest, if it can be applied directly. Returns whether it was taken.

        Most heartbeats can. The result is the same as on the longer way, which has to look at all that the
        range may wait for.
        """
        state = self._table.states.get(beat.range_id)
        if state is None or not self._table.rests(state):
            return False
        resolver = state.resolver
        if beat.generation != state.generation or beat.covers != state.applied or resolver.queue:
            return False
        if beat.closed < resolver.closed:
            return False
        self._table.close(state)
        resolver.forward_closed(beat.closed)
        return True

    def _follow(self, state: RangeState, entry: OwnEntry, record: LogRecord) -> None:
        """Apply an entry to a range without a backlog: it has applied all entries before, or is in a hole."""
        if isinstance(entry, Command) and entry.trigger is not Trigger.NONE:
            place = MutationPlace(Offset(record.offset), state.span, state.resolver.closed, is_behind=False)
            self._mutations.note(state, entry, place)
        self._apply(state, entry, record)
        if state.quarantine is not None and isinstance(entry, Command):
            self._mutations.account(state, entry, state.generation)

    def _put_off(self, state: RangeState, backlog: Backlog, entry: OwnEntry, record: LogRecord) -> None:
        """Put an entry into the backlog, and note what counts already when the partition passes it.

        That is a change outside the op log, the index of a command, and the claims that a Snapshot tells.
        """
        offset = Offset(record.offset)
        raw = raw_entry(record)
        backlog.append(raw, entry)
        self._backlogs.note_put_off(state.range_id, raw.held_bytes)
        if isinstance(entry, Command):
            if entry.trigger is not Trigger.NONE:
                place = MutationPlace(offset, backlog.span, _closed(state, backlog), is_behind=True)
                self._mutations.note(state, entry, place)
            self._mutations.account(state, entry, backlog.generation)
        if isinstance(entry, Snapshot) and entry.chunk == 0:
            backlog.note_claims(offset, claims_told_by(state, entry))
        if backlog.scan is not None:
            self._healing.leave_behind(state, backlog)

    def _hear_of(self, state: RangeState, backlog: Backlog | None) -> None:
        """Note that the range's log goes on: it is not silent, and what others claim may still come."""
        state.claimed_since_ms = None
        if backlog is not None:
            backlog.heard_ms = self._table.clock.elapsed_ms
        elif state.gaps:
            state.heard_ms = self._table.clock.elapsed_ms

    def commit(self, state: RangeState, versions: Sequence[Version]) -> None:
        """Give committed versions to the feeds."""
        if versions:
            self._committed.shared += versions
            if self._committed.parted:
                self._catch_ups.give_or_hold(state, versions)

    def refuse(self, record: LogRecord, error: MalformedEntry, *, passed: bool) -> None:
        """Make a hole in the range of a record that could not be read; in all ranges, if it names none.

        ``passed``: the partition has passed the record before, so only ranges that are behind get a hole.
        """
        range_id = decode_key(record.key)
        if range_id is None or range_id == BROADCAST:
            self._refuse_nameless(record, error, passed=passed)
        elif self._table.is_here(range_id):
            self._hole(self._touch(range_id), record, str(error))
        else:
            self._quarantines.report_stray(range_id, record)

    def _refuse_nameless(self, record: LogRecord, error: MalformedEntry, *, passed: bool) -> None:
        """Make a hole in all ranges, or in those that are behind. Only exposed ranges change."""
        exposed = self._table.exposed
        states = exposed.take_out_behind(Offset(record.offset)) if passed else exposed.take_out()
        cause = f"an unreadable record that names no range: {error}"
        told = brief(str(error)).encode(errors="replace")
        hole = RawEntry(record.offset, _NAMELESS, told, record.timestamp)
        for state in states:
            self._hole(state, hole, cause)
        exposed.forget(states)

    def cut(self, log_start: Offset, cause: str, *, passed: bool) -> None:
        """Make a hole in every range: the log was cut, and entries below ``log_start`` are lost.

        ``passed``: the partition had passed these entries, so only ranges that are behind get a hole.
        """
        lost = RawEntry(log_start, None, None, 0)
        for state in self._not_past(log_start, passed=passed):
            if state.behind is not None and state.behind < log_start:
                self._mutations.forget_keys(state)
            self._hole(state, lost, cause)

    def _not_past(self, offset: Offset, *, passed: bool) -> list[RangeState]:
        """Return the ranges that have yet to apply entries below ``offset``: all, or those behind it."""
        if not passed:
            return list(self._table)
        return [state for state in self._table if state.behind is not None and state.behind < offset]

    def _hole(self, state: RangeState, record: LogRecord, cause: str) -> None:
        """Begin a hole at ``record``: at once, or when the range comes to it in its backlog."""
        backlog = self._backlogs.get(state.range_id)
        if backlog is None:
            self._quarantines.begin(state, record, cause, state.resolved)
        else:
            backlog.append(raw_entry(record), None)

    def _apply(self, state: RangeState, entry: RangeEntry, record: LogRecord) -> None:
        if isinstance(entry, ScanChunk):
            return
        if isinstance(entry, Snapshot):
            self._apply_snapshot(state, entry, record)
            return
        resolved = state.resolved
        try:
            self.commit(state, apply_entry(state, entry, self.horizon, record.timestamp))
        except RangeError as error:
            self._quarantines.begin(state, record, str(error), resolved)
            if isinstance(entry, RangeEnd):
                apply_entry(state, entry)  # no Snapshot follows that could heal the range

    def _apply_snapshot(self, state: RangeState, chunk: Snapshot, record: LogRecord) -> None:
        if chunk.chunk == 0 and not passes_over(state, chunk):
            self._mutations.leave_out(state, (chunk.span,))  # the snapshot may break before it is taken
        if max(map(len, chunk.span)) > self._key_bytes:
            self._quarantines.begin(state, record, self._too_long(chunk.span), state.resolved)
            return
        if chunk.chunk == 0 and self._parking.parks(state, chunk, record):
            return
        resolved, before, hand_offs = state.resolved, keys_known(state), state.hand_offs
        taken = state.snapshots_taken
        try:
            apply_entry(state, chunk)
        except RangeError as error:
            self._quarantines.begin(state, record, str(error), resolved)
        if state.snapshots_taken > taken:
            self._missing_versions.inherit(state, before, hand_offs.values())

    def _too_long(self, span: Span) -> str:
        start, end = map(shortened, span)
        return (
            f"its keys from {start} to {end} are too long to store: one has {max(map(len, span))} bytes, and "
            f"{self._key_bytes} can be stored. Split it at shorter keys, or raise TIDEGATE_MAX_RECORD_BYTES"
        )

    def _take_chunk(self, state: RangeState, chunk: ScanChunk, record: LogRecord) -> None:
        """Take a chunk to the scan that the range is parked for, or to the catch-up scan of a feed."""
        backlog = self._backlogs.get(state.range_id)
        try:
            self.horizon.require_chunk(chunk, record)
            if backlog is None:
                self.has_more = self._catch_ups.take_chunk(chunk, self.row_bytes)
            else:
                fitting = None
                if self.row_bytes is not None:
                    fitting = partial(self._reckoning.fitting, self.row_bytes, None)
                versions, self.has_more = self._healing.take_chunk(backlog, chunk, fitting)
                self.commit(state, versions)
        except MalformedEntry as error:
            state.refused_chunks += 1
            self._quarantines.report_chunk(chunk, record, error)

    # ---- backlogs that are applied ----

    def drain(self, limit: int, log_bytes: int) -> Drained:
        """Apply at most ``limit`` entries of ready backlogs, whose ranges take turns.

        No further entry is applied once the values of the applied ones have ``log_bytes`` bytes; the last
        entry may exceed that. At least one entry is applied if any backlog is ready.
        """
        entries = size = 0
        while self._backlogs.ready and entries < limit and (size < log_bytes or not entries):
            turn = min(_TURN, limit - entries)
            more = self._drain_one(self._backlogs.next_ready(), turn, log_bytes - size)
            entries, size = entries + more.entries, size + more.log_bytes
        return Drained(entries, size)

    def _drain_one(self, range_id: RangeId, limit: int, log_bytes: int) -> Drained:
        state, backlog = self._touch(range_id), self._backlogs[range_id]
        taken = size = 0
        while backlog.queue and taken < limit and (size < log_bytes or not taken):
            raw = backlog.queue.first()
            size += len(raw.value or b"")
            try:
                self._apply_raw(state, raw)
            except Exception as error:
                raise broke(error, Input.LOG, (raw,)) from error
            taken += 1
            if backlog.parked:
                return Drained(taken, size)  # the range waits again; the entry stays in its backlog
            if backlog.queue.first().offset == raw.offset:
                self._backlogs.note_applied(backlog.take_applied().held_bytes)
        if not backlog.queue:
            if state.gaps:
                state.heard_ms = backlog.heard_ms
            self._backlogs.drop(range_id)
        return Drained(taken, size)

    def _apply_raw(self, state: RangeState, raw: RawEntry) -> None:
        try:
            entry = self._read_again(raw)
            self.horizon.require_entry(entry, raw)
        except MalformedEntry as error:
            self._quarantines.begin(state, raw, str(error), state.resolved)
            return
        assert not isinstance(entry, DescriptorUpdate)
        self._apply(state, entry, raw)

    def _read_again(self, raw: RawEntry) -> Entry:
        """Return the entry of a record in a backlog. Raises ``MalformedEntry`` where it is a hole."""
        if raw.key == _NAMELESS and raw.value is not None:
            raise MalformedEntry(raw.value.decode())
        return self.reader.read_again(raw)


def _closed(state: RangeState, backlog: Backlog | None) -> ClosedTimestamp:
    """Return the highest closed timestamp in all entries of the range that the partition has read."""
    return state.resolver.closed if backlog is None else max(state.resolver.closed, backlog.closed)
