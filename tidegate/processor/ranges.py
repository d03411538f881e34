"""The ranges of one log partition: entries in, committed versions out (docs/ranges.md).

One bad range never stops another: an entry that cannot be followed quarantines its range, named in an
incident, and the rest of the batch goes on. A range that has to wait is parked, and only it: its entries
stay in its backlog until what it waits for has come.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from tidegate.changefeed.feed import FeedId
from tidegate.errors import MalformedEntry, RangeError
from tidegate.hlc import ZERO_RESOLVED, ResolvedTimestamp
from tidegate.processor.batch import Incident, LogRecord, RangeCheckpoint, StateChange
from tidegate.processor.catch_ups import CatchUpLimits, CatchUps
from tidegate.processor.committed import CommittedVersions, Delivery, scanned_version
from tidegate.processor.exchange import Exchanges
from tidegate.processor.feeds import PartitionFeeds
from tidegate.processor.journal import Certainty, Journal
from tidegate.processor.lags import Lags
from tidegate.processor.partition_feed import PartitionFeed
from tidegate.processor.state_codec import chunk_rows, intent_rows, range_row
from tidegate.processor.waiting import (
    Mutation,
    Unreachable,
    Waiting,
    claims_of,
    complete_before,
    mutations_of,
)
from tidegate.raftlog.decode import decode_entry, decode_key
from tidegate.raftlog.encode import partition_of
from tidegate.raftlog.entry import (
    BROADCAST,
    Command,
    DescriptorUpdate,
    Heartbeat,
    Offset,
    RangeEnd,
    RangeId,
    ScanChunk,
    Snapshot,
)
from tidegate.raftlog.request import Scan
from tidegate.rangefeed.backlog import Backlog, MemoryQueue, QueueFactory, RawEntry
from tidegate.rangefeed.handoff import Exchange, HandOff
from tidegate.rangefeed.intent_budget import PartitionSpill
from tidegate.rangefeed.range_log import apply_entry
from tidegate.rangefeed.range_snapshot import passes_over, require_replaceable
from tidegate.rangefeed.range_state import RangeState, RangeStatus
from tidegate.rangefeed.scan import SCAN_REPEAT_MS, RangeScan
from tidegate.rangefeed.version import Version
from tidegate.rows.table_key import without_tenant
from tidegate.spans import Span

RangeEntry: TypeAlias = Command | Heartbeat | Snapshot | RangeEnd | ScanChunk

#: A hand-off that has not come after so much log time is not waited for any more.
HAND_OFF_LIMIT_MS: Final = 600_000
#: A range that waits, and whose log has been silent for so much log time, is gone.
SILENT_MS: Final = 900_000


class PartitionRanges:
    """All ranges of log partition ``partition`` of ``partitions``, for its ``feeds``.

    ``committed`` are the versions that came since they were last taken out.
    """

    def __init__(
        self,
        partition: int,
        partitions: int,
        feeds: PartitionFeeds,
        queue: QueueFactory | None = None,
        spill: PartitionSpill | None = None,
        catch_up: CatchUpLimits | None = None,
        journal: Journal | None = None,
    ) -> None:
        self.partition = partition
        self.partitions = partitions
        #: What changes within steps that are not committed, for feeds that may be detached.
        self.journal = journal
        self._new_queue: QueueFactory = queue or (lambda _: MemoryQueue())
        #: Where open transactions go that are more than memory is to hold.
        self.spill = spill
        #: Per range the sum over the stored rows of its transactions, as of the last freeze.
        self._intents_hashes: dict[RangeId, int] = {}
        #: The same over all ranges; the caller takes it modulo 2^64.
        self.intents_hash = 0
        self._ranges: dict[RangeId, RangeState] = {}
        self._touched: dict[RangeId, RangeState] = {}
        self._waiting = Waiting(feeds)
        self._exchanges = Exchanges(self._ranges, self._touch, self._is_here, self._receive)
        self._backlogs: dict[RangeId, Backlog] = {}
        #: The backlogs that wait for nothing, in the order in which they are applied.
        self._ready: dict[RangeId, None] = {}
        #: Per range the span that its keys were last seen to have, and the same without tenant prefix.
        self._table_spans: dict[RangeId, tuple[Span, Span]] = {}
        self._incidents: list[Incident] = []
        self._mutations: list[Mutation] = []
        self.committed = CommittedVersions()
        is_behind = self._backlogs.__contains__
        self.lags = Lags(feeds, self._ranges, self._touch, is_behind, self.committed)
        self.catch_ups = CatchUps(
            self.lags, self._ranges, self._touch, is_behind, self.committed, catch_up or CatchUpLimits()
        )

    def __iter__(self) -> Iterator[RangeState]:
        return iter(self._ranges.values())

    def __len__(self) -> int:
        return len(self._ranges)

    def restore(self, state: RangeState) -> None:
        """Put back a range as it was stored."""
        self._ranges[state.range_id] = state
        self._exchanges.restore(state)
        self._note_intents(state)

    @property
    def touched(self) -> Iterable[RangeState]:
        """The ranges that changed since the last freeze and have applied all their entries."""
        return (state for state in self._touched.values() if state.range_id not in self._backlogs)

    @property
    def backlogs(self) -> Iterable[tuple[RangeState, Backlog]]:
        """The ranges with entries that they have not applied."""
        return ((self._ranges[range_id], backlog) for range_id, backlog in self._backlogs.items())

    def settle_lags(self) -> bool:
        """Note what the changes of this step mean for feeds that lag; whether any does not lag any more."""
        return self.lags.settle(self._touched.values())

    @property
    def ready(self) -> bool:
        """Whether there are entries that `drain` would apply."""
        return bool(self._ready)

    @property
    def lowest_behind(self) -> Offset | None:
        """The lowest offset whose entry a range has not applied, as the state knows it."""
        return min((state.behind for state in self if state.behind is not None), default=None)

    def is_behind(self, key: bytes | None, offset: int) -> bool:
        """Whether a record that the partition has passed counts for any of its ranges."""
        range_id = decode_key(key)
        if range_id is None:
            return True
        state = self._ranges.get(range_id)
        return state is not None and state.behind is not None and offset >= state.behind

    # ---- entries of the log ----

    def take(self, record: LogRecord, entry: RangeEntry) -> None:
        """Take the next entry of the partition.

        A command whose op is forbidden commits nothing: its range is complete up to the resolved
        timestamp from before it, and quarantined there.
        """
        range_id = entry.range_id
        if not self._is_here(range_id):
            self._report_stray(range_id, record)
            return
        state, backlog = self._touch(range_id), self._backlogs.get(range_id)
        if isinstance(entry, ScanChunk):
            self._take_chunk(state, entry, record)
        elif backlog is None:
            self._apply(state, entry, record)
        else:
            backlog.append(_raw(record), entry)
            if backlog.scan is not None:
                self._leave_scan_behind(state, backlog)

    def _commit(self, state: RangeState, versions: list[Version]) -> None:
        """Give versions to the feeds."""
        if versions:
            self.committed.shared += versions
            if self.committed.parted:
                self.catch_ups.take(state, versions)

    def refuse(self, record: LogRecord, error: MalformedEntry, *, passed: bool) -> None:
        """A record that could not be read: a hole in its range, or in all when it names none.

        ``passed``: the partition was told before, and only ranges that are behind were not.
        """
        range_id = decode_key(record.key)
        if range_id is None or range_id == BROADCAST:
            cause = f"an unreadable record that names no range: {error}"
            for state in self._not_past(Offset(record.offset + 1), passed=passed):
                self._hole(state, record, cause)
        elif self._is_here(range_id):
            self._hole(self._touch(range_id), record, str(error))
        else:
            self._report_stray(range_id, record)

    def cut(self, log_start: Offset, cause: str, *, passed: bool) -> None:
        """Entries below ``log_start`` are gone that were to be read: a hole in every range.

        ``passed``: the partition had passed them, and only ranges that are behind had not.
        """
        gap = RawEntry(log_start, None, None, 0)
        for state in self._not_past(log_start, passed=passed):
            self._hole(state, gap, cause)

    def _not_past(self, offset: Offset, *, passed: bool) -> list[RangeState]:
        """The ranges that have not applied everything below ``offset``."""
        if not passed:
            return list(self)
        return [state for state in self if state.behind is not None and state.behind < offset]

    def _hole(self, state: RangeState, record: LogRecord, cause: str) -> None:
        """A hole here, or where the range comes to it when it applies its backlog."""
        backlog = self._backlogs.get(state.range_id)
        if backlog is None:
            self._quarantine(state, record, cause, state.resolved)
        else:
            backlog.append(_raw(record), None)

    def _apply(self, state: RangeState, entry: RangeEntry, record: LogRecord) -> None:
        if isinstance(entry, ScanChunk):
            return
        if isinstance(entry, Snapshot):
            self._apply_snapshot(state, entry, record)
            return
        resolved, applied = state.resolved, state.applied
        try:
            self._commit(state, apply_entry(state, entry))
        except RangeError as error:
            self._quarantine(state, record, str(error), resolved)
            if isinstance(entry, RangeEnd):
                apply_entry(state, entry)  # there will be nothing to heal it
            return
        if isinstance(entry, Command) and state.applied > applied:
            self._mutations.extend(mutations_of(state, entry))

    def _apply_snapshot(self, state: RangeState, chunk: Snapshot, record: LogRecord) -> None:
        if chunk.chunk == 0 and self._parks(state, chunk, record):
            return
        resolved, span, hand_offs = state.resolved, state.span, state.hand_offs
        taken = state.snapshots_taken
        try:
            apply_entry(state, chunk)
        except RangeError as error:
            self._quarantine(state, record, str(error), resolved)
            return
        if state.snapshots_taken > taken:
            self.lags.inherit(state, span, hand_offs.values())

    # ---- waiting ----

    def _parks(self, state: RangeState, head: Snapshot, record: LogRecord) -> bool:
        """Park the range before the snapshot that begins here, if it has to wait for anything."""
        if passes_over(state, head) or state.status is RangeStatus.ENDED:
            return False
        self._quarantine_before(state, head, record)
        offset, backlog = Offset(record.offset), self._backlogs.get(state.range_id)
        if backlog is not None and backlog.cleared == offset:
            return False
        missing = claims_of(state, head).difference(state.hand_offs)
        if missing and self._waiting.is_needed(head):
            self._backlog_from(state, record).wait_for(head, offset, record.timestamp, missing)
            self._exchanges.claim(missing)
            return True
        scan = None if missing else self._waiting.scan_for(state, head, offset)
        if scan is None:
            return False
        backlog = self._backlog_from(state, record)
        backlog.wait_for(head, offset, record.timestamp, frozenset())
        self._begin_scan(state, backlog, scan)
        return True

    def _quarantine_before(self, state: RangeState, head: Snapshot, record: LogRecord) -> None:
        """A snapshot that the range cannot go on with ends a hole that nobody saw until now."""
        try:
            require_replaceable(state, head)
            if state.chunks and state.status is RangeStatus.LIVE:
                raise MalformedEntry(f"a snapshot at index {head.raft_index} began within another one")
        except RangeError as error:
            self._quarantine(state, record, str(error), state.resolved)

    def _backlog_from(self, state: RangeState, record: LogRecord) -> Backlog:
        """The range's backlog, which begins with ``record`` if there was none."""
        backlog = self._backlogs.get(state.range_id)
        if backlog is None:
            backlog = self._backlogs[state.range_id] = Backlog(self._new_queue(state.range_id))
            backlog.queue.append(_raw(record))
        self._ready.pop(state.range_id, None)
        return backlog

    def _drop_backlog(self, range_id: RangeId) -> None:
        self._backlogs.pop(range_id).queue.close()
        self._ready.pop(range_id, None)

    def _clear(self, range_id: RangeId) -> None:
        """The range waits for nothing more."""
        self._backlogs[range_id].clear()
        self._ready[range_id] = None

    def _begin_scan(self, state: RangeState, backlog: Backlog, scan: RangeScan) -> None:
        state.scan = backlog.scan = scan
        self.lags.foresee(state, scan)
        self._leave_scan_behind(state, backlog)

    def _leave_scan_behind(self, state: RangeState, backlog: Backlog) -> None:
        """A scan of keys that the range has no more is never answered: go on where its span changed.

        What lies between becomes part of the hole. The scan stays in the state, for what it has brought.
        """
        complete = complete_before(state, backlog.head)
        if backlog.skip_to_move():
            if state.status is not RangeStatus.QUARANTINED:
                cause = "its span changed while rows were scanned for"
                state.quarantine_at(backlog.start, cause, complete or ZERO_RESOLVED)
            self._ready[state.range_id] = None

    def _receive(self, hand_off: HandOff) -> None:
        claim = hand_off.claim
        state, backlog = self._touch(claim.child), self._backlogs.get(claim.child)
        if backlog is None and state.status is not RangeStatus.UNINITIALISED and not state.awaits_snapshot:
            return  # it has gone on without it
        state.hand_offs[claim] = hand_off
        if backlog is not None and claim in backlog.missing:
            backlog.missing -= {claim}
            if not backlog.missing:
                self._come_to_scan(state, backlog)

    def _come_to_scan(self, state: RangeState, backlog: Backlog) -> None:
        """Every parent has answered: scan what they could not give, or go on."""
        scan = self._waiting.scan_for(state, backlog.head, backlog.start)
        if scan is None:
            self._clear(state.range_id)
        else:
            self._begin_scan(state, backlog, scan)

    def _take_chunk(self, state: RangeState, chunk: ScanChunk, record: LogRecord) -> None:
        """A chunk is for the scan that the range is parked for, or for a feed that catches up."""
        backlog = self._backlogs.get(state.range_id)
        if backlog is None:
            self.catch_ups.take_chunk(chunk, record.timestamp)
            return
        scan = backlog.scan
        if scan is None or chunk.generation != backlog.head.generation:
            return
        rows = scan.take(chunk, record.timestamp)
        if scan.done:
            self._clear(chunk.range_id)
        self._commit(state, [scanned_version(chunk.range_id, row) for row in rows])

    def release_unneeded(self) -> None:
        """Let ranges go on that wait for the sake of feeds that are gone."""
        for state, backlog in list(self.backlogs):
            if backlog.parked and not self._waiting.is_needed(backlog.head):
                self._touch(state.range_id).scan = None
                self._clear(state.range_id)

    def due(self, offset: Offset, log_time_ms: int) -> list[Scan]:
        """The scans to ask for now. Hand-offs that did not come are waited for no more."""
        requests = []
        for state, backlog in list(self.backlogs):
            if backlog.parked and log_time_ms - backlog.heard_ms >= SILENT_MS:
                self._leave(state, offset)
                continue
            if backlog.missing and log_time_ms - backlog.since_ms >= HAND_OFF_LIMIT_MS:
                self._touch(state.range_id)
                for claim in backlog.missing:
                    self._receive(HandOff(claim, ZERO_RESOLVED, complete=False))
            if backlog.scan is not None and backlog.scan.is_due(log_time_ms - SCAN_REPEAT_MS):
                self._touch(state.range_id)
                requests.append(backlog.scan.request(offset, log_time_ms))
        return requests + self.catch_ups.due(self._touched.values(), offset, log_time_ms)

    def _leave(self, state: RangeState, offset: Offset) -> None:
        """A range that waits has ended: another has taken over its keys, or it has been silent for too long.

        Its next snapshot, should there be one, heals it.
        """
        if state.status not in (RangeStatus.QUARANTINED, RangeStatus.ENDED):
            state.quarantine_at(offset, "it fell silent while it waited", state.resolved)
        self._touch(state.range_id).scan = None
        state.behind = None
        self._drop_backlog(state.range_id)

    # ---- claims and hand-offs, backlogs that are applied ----

    def take_exchange(self, message: Exchange) -> None:
        """Take a claim or a hand-off of another partition."""
        self._exchanges.take(message)

    def settle(self) -> bool:
        """Answer the claims that can be answered; returns whether any was."""
        answered = self._exchanges.settle()
        if answered:
            for state, backlog in list(self.backlogs):
                if state.status is RangeStatus.ENDED and backlog.parked:
                    self._leave(state, self._backlogs[state.range_id].start)
        return answered

    def begin(self, feed: PartitionFeed) -> None:
        """The feed was activated."""
        if self.journal is not None:
            self.journal.begin(feed.id)
        self.lags.begin(feed)

    def detach(self, feed: PartitionFeed) -> Certainty:
        """Take the rows of the feed from all steps that are not committed for lost."""
        assert self.journal is not None
        begun = feed.can_lag and self.journal.has_begun(feed.id)
        certain = Certainty(feed, self.journal.earlier(self), begun=begun)
        self.lags.detach(feed, certain)
        return certain

    def take_committed(self) -> tuple[list[Version], Mapping[FeedId, Sequence[Delivery]]]:
        """The versions since the last call: of all feeds, and of those that are given them alone."""
        return self.committed.take_out(self.lags.feeds)

    def take_exchanges(self) -> list[Exchange]:
        """Claims and hand-offs for other partitions since the last call."""
        return self._exchanges.take_out()

    def drain(self, limit: int) -> int:
        """Apply up to ``limit`` entries of backlogs; returns how many it was."""
        taken = 0
        while self._ready and taken < limit:
            taken += self._drain_one(next(iter(self._ready)), limit - taken)
        return taken

    def _drain_one(self, range_id: RangeId, limit: int) -> int:
        state, backlog = self._touch(range_id), self._backlogs[range_id]
        taken = 0
        while backlog.queue and taken < limit:
            raw = backlog.queue.first()
            self._apply_raw(state, raw)
            taken += 1
            if backlog.parked:
                return taken  # again, before that entry
            if backlog.queue.first().offset == raw.offset:
                backlog.queue.popleft()
        if not backlog.queue:
            self._drop_backlog(range_id)
        return taken

    def _apply_raw(self, state: RangeState, raw: RawEntry) -> None:
        try:
            entry = decode_entry(raw.key, raw.value)
        except MalformedEntry as error:
            self._quarantine(state, raw, str(error), state.resolved)
            return
        assert not isinstance(entry, DescriptorUpdate)
        self._apply(state, entry, raw)

    # ---- checkpoints and state ----

    def checkpoints(self, spans: Iterable[Span], *, everything: bool = False) -> list[RangeCheckpoint]:
        """The checkpoints that touched ranges (or all) can give over keys that ``spans`` watch.

        Spans here and in the checkpoints have no tenant prefix, as the rows that come out have none.
        The latest of each range; one that did not move since its last checkpoint gives none. A range that
        was quarantined gives a last one: how far a feed comes must not depend on how the log was batched. One
        that has ended gives none: feeds that were activated since had nothing from it. So does one that broke
        where feeds lack rows.
        """
        watched = tuple(spans)
        found = []
        for state in self._ranges.values() if everything else self._touched.values():
            span = None if state.status is RangeStatus.ENDED else self._table_span(state)
            if span is None or not any(span.overlaps(w) for w in watched):
                continue
            resolved = state.resolver.resolved if state.checkpointable else state.last_checkpoint
            if state.lags and not state.checkpointable:
                continue
            if resolved > state.published or (everything and resolved.wall > 0):
                state.published = resolved
                found.append(RangeCheckpoint(state.range_id, state.generation, span, resolved))
        return found

    def _table_span(self, state: RangeState) -> Span | None:
        """The range's span without tenant prefix, worked out once for each span that it has."""
        span = state.span
        if span is None:
            return None
        known = self._table_spans.get(state.range_id)
        if known is None or known[0] is not span:
            known = self._table_spans[state.range_id] = (span, without_tenant(span))
        return known[1]

    def catch_up(self) -> None:
        """The partition has read again all that it had passed: only backlogs are behind from here on."""
        for state in self:
            if state.behind is not None and state.range_id not in self._backlogs:
                self._touch(state.range_id).behind = None

    def freeze(self, offset: Offset, read: Offset) -> list[StateChange]:
        """The rows of everything that changed since the last freeze, as bytes of this moment.

        ``offset`` is the partition's position, ``read`` how far it has read, which is lower after a restart
        with ranges that were behind.
        """
        changes: list[StateChange] = []
        for state in self._touched.values():
            backlog = self._backlogs.get(state.range_id)
            if backlog is not None:
                state.behind = backlog.start
            elif state.behind is not None:
                state.behind = max(state.behind, Offset(read + 1)) if read < offset else None
            changes.append(range_row(state, offset))
            changes.extend(chunk_rows(state))
            changes.extend(intent_rows(state, offset))
            self._note_intents(state)
        if self.spill is not None:
            self.spill.settle((state.range_id, state.resolver.queue) for state in self._touched.values())
        self._touched = {}
        return changes

    def _note_intents(self, state: RangeState) -> None:
        now = state.resolver.queue.rows_hash
        self.intents_hash += now - self._intents_hashes.get(state.range_id, 0)
        self._intents_hashes[state.range_id] = now

    def take_incidents(self) -> list[Incident]:
        """What was reported since the last call."""
        incidents, self._incidents = self._incidents, []
        return incidents

    def take_mutations(self) -> list[Mutation]:
        """What was changed outside the op log since the last call."""
        mutations, self._mutations = self._mutations, []
        return mutations

    def take_unreachable(self) -> list[Unreachable]:
        """The scans since the last call that cannot bring everything."""
        unreachable, self._waiting.unreachable = self._waiting.unreachable, []
        return unreachable

    # ----

    def _is_here(self, range_id: RangeId) -> bool:
        return partition_of(range_id, self.partitions) == self.partition

    def _touch(self, range_id: RangeId) -> RangeState:
        state = self._ranges.get(range_id)
        if state is None:
            state = self._ranges[range_id] = RangeState(range_id)
        if self.journal is not None and range_id not in self._touched:
            self.journal.note(state)
        state.serves = self.lags.serves
        self._touched[range_id] = state
        return state

    def _quarantine(
        self, state: RangeState, record: LogRecord, cause: str, resolved: ResolvedTimestamp
    ) -> None:
        if state.status in (RangeStatus.QUARANTINED, RangeStatus.ENDED):
            return
        state.quarantine_at(Offset(record.offset), cause, resolved)
        self._touch(state.range_id)
        self._report(state.range_id, record, f"range {state.range_id} is quarantined at {resolved}: {cause}")

    def _report_stray(self, range_id: RangeId, record: LogRecord) -> None:
        self._report(
            range_id,
            record,
            f"a record of range {range_id} was skipped: it belongs to partition "
            f"{partition_of(range_id, self.partitions)} of {self.partitions}",
        )

    def _report(self, range_id: RangeId, record: LogRecord, cause: str) -> None:
        self._incidents.append(Incident(self.partition, Offset(record.offset), range_id, None, cause))


def _raw(record: LogRecord) -> RawEntry:
    return RawEntry(record.offset, record.key, record.value, record.timestamp)
