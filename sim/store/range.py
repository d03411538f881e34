"""A range of the simulated store: its rows, its intents, its Raft log."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from sim.clock import HybridClock
from sim.store.range_log import RangeLog
from sim.store.row_history import RowHistory
from sim.store.transaction import Intent, Transaction
from tidegate.hlc import NANOS_PER_MS, ZERO, ClosedTimestamp, Timestamp
from tidegate.raftlog.entry import (
    NEVER_MUTATED,
    AbortIntent,
    Command,
    CommitIntent,
    DescriptorUpdate,
    Generation,
    Heartbeat,
    HistoryMutation,
    Op,
    OpenIntent,
    Parent,
    RaftIndex,
    RangeEnd,
    RangeId,
    ScanChunk,
    Snapshot,
    SnapshotReason,
    Trigger,
    UpdateIntent,
    WriteIntent,
    WriteValue,
)
from tidegate.spans import Span

#: The index at which Raft logs of CockroachDB start (``pkg/kv/kvserver/stateloader``).
_INITIAL_INDEX: Final = RaftIndex(10)
_RECENT_KEYS: Final = 100
#: Reasons of snapshots that begin a generation. Only these name the range's parents.
_BEGINNINGS: Final = frozenset({SnapshotReason.INITIAL, SnapshotReason.SPLIT, SnapshotReason.MERGE})


@dataclass(frozen=True, slots=True)
class RangeDescriptor:
    """The keys of a table that a range holds, the generation since which it holds them, and its parents.

    ``table`` are all versions of the table, the oldest first.
    """

    range_id: RangeId
    generation: Generation
    span: Span
    table: tuple[DescriptorUpdate, ...]
    parents: tuple[Parent, ...] = ()


class Range:
    """A range and its leaseholder's clock.

    A method that changes rows or intents returns the op for this change. ``apply`` then makes one command,
    and so one record of the log, from such ops. ``closed`` is the highest closed timestamp that was
    published.
    """

    __slots__ = (
        "_lag_ns",
        "_prev_values",
        "_recent",
        "applied",
        "clock",
        "closed",
        "descriptor",
        "ended",
        "gc_threshold",
        "high",
        "id",
        "intents",
        "last_mutation",
        "log",
        "rows",
        "written",
    )

    def __init__(
        self, descriptor: RangeDescriptor, clock: HybridClock, log: RangeLog, lag_ms: int, prev_values: bool
    ) -> None:
        self.id = descriptor.range_id
        self.descriptor = descriptor
        self.clock = clock
        self.applied = _INITIAL_INDEX
        self.high = ZERO
        self.gc_threshold = ZERO
        self.ended = False
        self.last_mutation = NEVER_MUTATED
        self.intents: dict[bytes, Intent] = {}
        self.rows = RowHistory()
        self.log = log
        #: How many versions were written here, and the keys of the last ones.
        self.written = 0
        self._recent: deque[bytes] = deque(maxlen=_RECENT_KEYS)
        self._lag_ns = lag_ms * NANOS_PER_MS
        self._prev_values = prev_values
        self.closed = self._closable(clock.now())

    @property
    def span(self) -> Span:
        """The keys that the range holds."""
        return self.descriptor.span

    def split_keys(self) -> list[bytes]:
        """Return the keys of rows and intents at which the range can be split, in order."""
        keys = sorted({*self.rows.in_order(), *self.intents})
        return [key for key in keys if key > self.span.start]

    def middle_key(self) -> bytes | None:
        """Return the key in the middle of the rows; ``None`` if there are too few."""
        return self._middle(self.rows.in_order())

    def busy_key(self) -> bytes | None:
        """Return the key in the middle of the last writes; ``None`` if there are too few."""
        return self._middle(sorted(filter(self.span.contains, self._recent)))

    def _middle(self, keys: list[bytes]) -> bytes | None:
        key = keys[len(keys) // 2] if keys else self.span.start
        return key if key > self.span.start else None

    # ---- rows and intents ----

    def floor(self, keys: Iterable[bytes]) -> Timestamp:
        """Return the timestamp above which new versions of ``keys`` have to be."""
        floor: Timestamp = self.closed
        for key in keys:
            newest = self.rows.newest(key)
            if newest is not None and newest[0] > floor:
                floor = newest[0]
        return floor

    def read(self, key: bytes) -> bytes | None:
        """Return the newest committed value of a key; ``None`` if there is no row."""
        found = self.rows.newest(key)
        return found[1] or None if found else None

    def write(self, key: bytes, timestamp: Timestamp, value: bytes) -> WriteValue:
        """Write a version without an intent."""
        return WriteValue(key, timestamp, value, self._replace(key, timestamp, value))

    def put_intent(self, txn: Transaction, key: bytes, value: bytes) -> WriteIntent | UpdateIntent | None:
        """Write a provisional version, or rewrite the one that the transaction has at this key.

        Returns ``None`` if a rewritten version keeps its timestamp.
        """
        timestamp = txn.write_timestamp
        own = self.intents.get(key)
        self.intents[key] = Intent(txn, txn.epoch, timestamp, value)
        if own is None:
            txn.intents.setdefault(self.id, {})[key] = None
            return WriteIntent(txn.id, txn.anchor_key, timestamp, txn.min_timestamp)
        return UpdateIntent(txn.id, timestamp) if timestamp > own.timestamp else None

    def push_intents(self, txn: Transaction) -> UpdateIntent:
        """Raise a transaction's intents to its write timestamp, by one op for all of them."""
        for key in txn.intents.get(self.id, ()):
            self.intents[key].timestamp = txn.write_timestamp
        return UpdateIntent(txn.id, txn.write_timestamp)

    def end_intent(self, key: bytes) -> CommitIntent | AbortIntent:
        """Resolve the intent at ``key`` as its ended transaction wants it."""
        intent = self.intents.pop(key)
        txn = intent.txn
        keys = txn.intents[self.id]
        del keys[key]
        if not keys:
            del txn.intents[self.id]
        if not intent.commits:
            return AbortIntent(txn.id)
        prev_value = self._replace(key, txn.write_timestamp, intent.value)
        return CommitIntent(txn.id, key, txn.write_timestamp, intent.value, prev_value)

    def _replace(self, key: bytes, timestamp: Timestamp, value: bytes) -> bytes | None:
        replaced = self.rows.add(key, timestamp, value)
        self.written += 1
        self._recent.append(key)
        if timestamp > self.high:
            self.high = timestamp
        if not self._prev_values:
            return None
        return replaced or b""

    def collect(self, threshold: Timestamp) -> None:
        """Collect garbage, and write a command for it. No read below the threshold is answered any more.

        The threshold stays below everything that may still be written or committed.
        """
        for intent in self.intents.values():
            threshold = min(threshold, intent.txn.min_timestamp.prev())
        self.gc_threshold = max(self.gc_threshold, min(threshold, self.closed))
        self.rows.collect(self.gc_threshold)
        self.apply(())

    def add_sstable(self, span: Span) -> None:
        """Ingest a file of versions in ``span``, whose timestamps are the present.

        There are no ops for these versions, and none of them belongs to a row. Source: CockroachDB's index
        backfill, ``AddSSTable`` with ``SSTTimestampToRequestTimestamp``.
        """
        now = self.clock.now()
        self._close(now)
        self._append_command((), self.closed, now, Trigger.ADD_SSTABLE, (span,), at_write_timestamp=True)

    def mutate(
        self, key: bytes, trigger: Trigger, mutated: tuple[Span, ...]
    ) -> tuple[Timestamp, bytes] | None:
        """Insert a version of a key in the past, by a command that does not name the version.

        The command's time is above everything that was closed or written here. Returns the version's
        timestamp and value; ``None`` if the past of the key has no room for a version.
        """
        added = self.rows.bring_in(key, self.gc_threshold)
        if added is not None:
            self.clock.observe(max(self.closed, self.high, self.last_mutation.time))
            now = self.clock.now()
            self.last_mutation = HistoryMutation(RaftIndex(self.applied + 1), now)
            self._close(now)
            self._append_command((), self.closed, now, trigger, mutated)
        return added

    # ---- other spans ----

    def split_off(self, key: bytes, range_id: RangeId) -> Range:
        """Begin a new generation that ends at ``key``, and a new range that begins there.

        The new range gets the rows and intents from ``key`` on. Both ranges keep the closed timestamp, the
        highest version and the GC threshold from before. The last command before this call is the trigger.
        """
        old = self.descriptor
        parent = Parent(self.id, old.generation, self.applied)
        self.descriptor = replace(
            old,
            generation=Generation(old.generation + 1),
            span=Span(old.span.start, key),
            parents=(parent,),
        )
        right = self._sibling(replace(self.descriptor, range_id=range_id, span=Span(key, old.span.end)))
        right.rows = self.rows.split_off(key)
        for moved in [key for key in self.intents if right.span.contains(key)]:
            intent = right.intents[moved] = self.intents.pop(moved)
            intent.txn.move_intent(moved, self.id, right.id)
        return right

    def _sibling(self, descriptor: RangeDescriptor) -> Range:
        lag_ms = self._lag_ns // NANOS_PER_MS
        right = Range(descriptor, self.clock, self.log.sibling(), lag_ms, self._prev_values)
        right.closed, right.high, right.gc_threshold = self.closed, self.high, self.gc_threshold
        right.last_mutation = self.last_mutation._replace(raft_index=RaftIndex(0))
        return right

    def absorb(self, right: Range) -> None:
        """Begin a new generation that holds the keys of both ranges; ``right`` has ended.

        Nothing will be written at or below a timestamp that either range has closed. The last command before
        this call is the trigger.
        """
        old, other = self.descriptor, right.descriptor
        parents = (
            Parent(self.id, old.generation, self.applied),
            Parent(right.id, other.generation, right.applied),
        )
        generation = Generation(max(old.generation, other.generation) + 1)
        span = Span(old.span.start, other.span.end)
        self.descriptor = replace(old, generation=generation, span=span, parents=parents)
        self.closed = max(self.closed, right.closed)
        self.high = max(self.high, right.high)
        self.gc_threshold = max(self.gc_threshold, right.gc_threshold)
        if right.last_mutation.time > self.last_mutation.time:
            self.last_mutation = right.last_mutation._replace(raft_index=RaftIndex(0))
        self.rows.absorb(right.rows)
        self.intents.update(right.intents)
        for key, intent in right.intents.items():
            intent.txn.move_intent(key, right.id, self.id)

    def move_lease(self, clock: HybridClock) -> None:
        """Give the range the clock of another node, which continues above the last reading of the old one."""
        clock.observe(self.clock.now())
        self.clock = clock
        self.apply(())

    # ---- the log ----

    def apply(self, ops: tuple[Op, ...], trigger: Trigger = Trigger.NONE) -> None:
        """Apply a command. Its ops take effect first, and then the closed timestamp that it carries."""
        now = self.clock.now()
        self._close(now)
        self._append_command(ops, self.closed, now, trigger)

    def reject(self) -> None:
        """Use up an index for a command that was rejected when it applied."""
        self._append_command((), None, self.clock.now())

    def heartbeat(self) -> None:
        """Publish a closed timestamp without a command."""
        now = self.clock.now()
        self._close(now)
        beat = Heartbeat(self.id, self.descriptor.generation, self.closed, self.applied)
        self.log.append(beat, now.wall_ms)

    def end(self) -> None:
        """Write the range's last record."""
        self.ended = True
        entry = RangeEnd(self.id, self.descriptor.generation, self.applied)
        self.log.append(entry, self.clock.now().wall_ms)

    def answer(self, chunk: ScanChunk) -> None:
        """Write a piece of an answer to a scan request."""
        self.log.append(chunk, self.clock.now().wall_ms)

    def snapshot(self, reason: SnapshotReason, chunk_intents: int) -> None:
        """Write the range's state at its applied index, in chunks of at most ``chunk_intents`` intents."""
        intents = self._open_intents()
        chunks = max(1, -(-len(intents) // chunk_intents))
        descriptor, record_time_ms = self.descriptor, self.clock.now().wall_ms
        for chunk in range(chunks):
            entry = Snapshot(
                self.id,
                descriptor.generation,
                self.applied,
                descriptor.span,
                self.closed,
                self.high,
                gc_threshold=self.gc_threshold,
                intents=intents[chunk * chunk_intents : (chunk + 1) * chunk_intents],
                descriptors=() if chunk else descriptor.table,
                parents=descriptor.parents if reason in _BEGINNINGS else (),
                reason=reason,
                chunk=chunk,
                chunks=chunks,
                last_mutation=self.last_mutation,
            )
            self.log.append(entry, record_time_ms)

    def _open_intents(self) -> tuple[OpenIntent, ...]:
        """Return the intents in key order, each at the timestamp below which its transaction cannot
        commit.
        """
        return tuple(
            OpenIntent(intent.txn.id, intent.txn.anchor_key, key, intent.txn.write_timestamp)
            for key, intent in sorted(self.intents.items())
        )

    def _append_command(
        self,
        ops: tuple[Op, ...],
        closed: ClosedTimestamp | None,
        now: Timestamp,
        trigger: Trigger = Trigger.NONE,
        mutated: tuple[Span, ...] = (),
        *,
        at_write_timestamp: bool = False,
    ) -> None:
        self.applied = RaftIndex(self.applied + 1)
        entry = Command(
            self.id,
            self.descriptor.generation,
            self.applied,
            ops,
            closed,
            trigger,
            mutated=mutated,
            at_write_timestamp=at_write_timestamp,
            write_timestamp=now if mutated else None,
        )
        self.log.append(entry, now.wall_ms)

    def _close(self, now: Timestamp) -> None:
        """Raise the closed timestamp.

        It stays as it is if another leaseholder's clock, or a range that was merged in, has closed more.
        """
        self.closed = max(self.closed, self._closable(now))

    def _closable(self, now: Timestamp) -> ClosedTimestamp:
        """Return a reading of the clock minus the lag. It rises as readings do."""
        return ClosedTimestamp(Timestamp(now.wall - self._lag_ns, now.logical))
