"""The simulated range store: transactions over ranges, one request at a time.

A request runs from its first read to its applied command without another one in between. So one lock over the
whole store stands for CockroachDB's latches. Everything depends only on the seed, the options, and the times
and contents of requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Final

from sim.clock import HybridClock, Present
from sim.log.history import HistoryLog, HistoryVersion, Mutated, NoHistory
from sim.log.log_writer import LogWriter
from sim.options import StoreOptions
from sim.plan import Alteration, SimTable, Write
from sim.store.moments import EndedBy, MomentKind, Moments
from sim.store.range import Range, RangeDescriptor
from sim.store.range_log import RangeLog
from sim.store.range_map import RangeMap
from sim.store.transaction import SimTxnStatus, Transaction
from sim.workload_tables import secondary_index
from tidegate.hlc import NANOS_PER_MS, Timestamp
from tidegate.raftlog.entry import Generation, Op, RangeId, SnapshotReason, Trigger, TxnId
from tidegate.rows import decode_descriptor
from tidegate.spans import Span

_FIRST_GENERATION: Final = Generation(1)


class RangeStore:
    """Ranges over the tables' keys, the transactions that are open on them, and the true history.

    ``counts`` has the numbers of committed versions, of transactions by outcome, and of other events.
    ``moments`` has the events that markers show. ``skipped`` takes the versions that are left out of the log
    on purpose.
    """

    def __init__(
        self,
        options: StoreOptions,
        tables: Sequence[SimTable],
        present: Present,
        rng: Random,
        log: LogWriter,
        history: HistoryLog,
        skipped: HistoryLog | None = None,
    ) -> None:
        self.present = present
        self.txns: dict[TxnId, Transaction] = {}
        self.counts: Counter[str] = Counter()
        self.moments = Moments()
        #: Changes outside the op log. The history has none of them.
        self.mutations: list[Mutated] = []
        self.descriptors = [table.descriptor for table in tables]
        self._options = options
        self._rng = rng
        self._log = log
        self._history = history
        self._skipped = NoHistory() if skipped is None else skipped
        skew_ns = options.max_offset_ms * NANOS_PER_MS
        self._clocks = [HybridClock(present, rng.randint(0, skew_ns)) for _ in range(options.nodes)]
        self.ranges = RangeMap(self._place(tables))

    def _place(self, tables: Sequence[SimTable]) -> Iterator[Range]:
        options = self._options
        points = self._choice(options.batch_values_fraction)
        spans = [(table.descriptor, span) for table in tables for span in table.spans]
        for number, (table, span) in enumerate(spans):
            descriptor = RangeDescriptor(
                RangeId(options.first_range_id + number), _FIRST_GENERATION, span, (table,)
            )
            clock = self._clocks[number % options.nodes]
            log = RangeLog(self._log, self._skipped, points)
            yield Range(descriptor, clock, log, options.closed_lag_ms, options.prev_values)

    def _choice(self, fraction: float) -> Callable[[], bool]:
        """Return a function that returns true with this probability.

        For a probability of 0 it draws no random number, so no other random choice changes.
        """
        if not fraction:
            return lambda: False
        rng = Random(self._rng.getrandbits(64))
        return lambda: rng.random() < fraction

    # ---- what the store writes by itself ----

    def write_descriptors(self) -> None:
        """Write every table descriptor to every partition."""
        for descriptor in self.descriptors:
            self._log.broadcast(descriptor, self._clocks[0].now().wall_ms)

    def alter(self, alteration: Alteration) -> None:
        """Write the next version of a table to every partition, valid above everything that was written."""
        wall = max(self.present.ns, self.ranges.high.wall) + 1
        update = alteration(Timestamp(wall))
        self.descriptors.append(update)
        for range_ in self.ranges:
            known = range_.descriptor
            if known.table[0].table_id == update.table_id:
                range_.descriptor = replace(known, table=(*known.table, update))
        self._log.broadcast(update, self._clocks[0].now().wall_ms)

    def write_snapshots(self, reason: SnapshotReason) -> None:
        """Write a snapshot of every range."""
        for range_ in self.ranges:
            self.snapshot(range_, reason)

    def snapshot(self, range_: Range, reason: SnapshotReason) -> None:
        """Write a snapshot of one range."""
        range_.snapshot(reason, self._options.snapshot_chunk_intents)

    def build_index(self, table_id: int) -> None:
        """Build the table's secondary index. Each range that has keys of the index ingests a file with the
        entries for these keys.

        The simulated store keeps no entries of the index. Its rows are only those of the primary index.
        """
        for range_ in self.ranges:
            part = range_.span.intersect(secondary_index(table_id))
            if part is not None:
                range_.add_sstable(part)
        self.counts["index builds"] += 1

    # ---- splits, merges, leases ----

    def split(self, range_id: RangeId, key: bytes) -> Range:
        """Split a range at ``key``; return the new range, which begins there.

        Raises ``KeyError`` for an unknown range, ``ValueError`` for the start of the range or a key outside.
        """
        left = self.ranges[range_id]
        if not left.span.contains(key) or key == left.span.start:
            raise ValueError(
                f"range {range_id} cannot be split at {key.hex()}: it holds the keys from "
                f"{left.span.start.hex()} to {left.span.end.hex()}"
            )
        left.apply((), Trigger.SPLIT)
        right = left.split_off(key, self.ranges.next_id())
        self.ranges.add(right)
        for side in (left, right):
            self.snapshot(side, SnapshotReason.SPLIT)
        self.counts["splits"] += 1
        self.moments.note_ranges(self.present.ns, MomentKind.SPLIT, _tables(left), left.id, right.id)
        return right

    def merge(self, left_id: RangeId) -> Range:
        """Merge a range with the one to its right, and return the merged range.

        Raises ``KeyError`` for an unknown range, ``ValueError`` when no range of its table is to the right.
        """
        left = self.ranges[left_id]
        right = self.ranges.right_of(left)
        if right is None:
            raise ValueError(f"range {left_id} cannot be merged: it is the last one of its table")
        if right.log.silent:
            self.end_silence(right)
        right.end()
        left.clock.observe(right.clock.now())
        left.apply((), Trigger.MERGE)
        left.absorb(right)
        self.ranges.remove(right)
        self.snapshot(left, SnapshotReason.MERGE)
        self.counts["merges"] += 1
        self.moments.note_ranges(self.present.ns, MomentKind.MERGED, _tables(left), left.id, right.id)
        return left

    def end_silence(self, range_: Range) -> None:
        """Let a range write again. Its log goes on with a snapshot. What was left out stays missing."""
        range_.log.silent = False
        self.snapshot(range_, SnapshotReason.RAFT_SNAPSHOT)
        self.counts["raft snapshots"] += 1

    def move_lease(self, range_id: RangeId, node: int) -> None:
        """Make a node the leaseholder of a range."""
        self.ranges[range_id].move_lease(self._clocks[node % len(self._clocks)])
        self.counts["lease moves"] += 1

    def mutate(self, range_: Range, key: bytes, trigger: Trigger, mutated: tuple[Span, ...]) -> None:
        """Change the past of a key, if it has any, in a way that the log does not show."""
        added = range_.mutate(key, trigger, mutated)
        if added is not None:
            version = HistoryVersion(range_.descriptor.table[0].table_id, key, *added)
            # The version has the same value as the one that it replaces: see ``RowHistory.bring_in``.
            self.mutations.append(Mutated(range_.last_mutation.time, range_.span, version, added[1]))
            self.counts["mutations"] += 1

    # ---- requests of coordinators ----

    def begin(self) -> Transaction:
        """Start a transaction at a random node, at the time of the node's clock."""
        now = self._rng.choice(self._clocks).now()
        txn = Transaction(TxnId(self._rng.randbytes(16)), min_timestamp=now, write_timestamp=now)
        self.txns[txn.id] = txn
        return txn

    def restart(self, txn: Transaction) -> None:
        """Begin a new epoch: earlier writes only count if they are written again."""
        txn.epoch += 1
        txn.forward(self._rng.choice(self._clocks).now())

    def put(self, txn: Transaction, range_: Range, writes: Sequence[Write]) -> bool:
        """Write intents in one range.

        Returns false when a transaction is in the way that cannot be aborted yet: ask again later.
        """
        keys = [write.key for write in writes]
        if not self._make_way(txn, range_, keys):
            return False
        txn.anchor_key = txn.anchor_key or keys[0]
        self._raise_above_floor(txn, range_, keys)
        ops: list[Op] = []
        for write in writes:
            op = range_.put_intent(txn, write.key, _value(write, self._visible(txn, range_, write.key)))
            if op is not None:
                ops.append(op)
        self.propose(range_, ops)
        return True

    def commit_one_phase(self, txn: Transaction, range_: Range, writes: Sequence[Write]) -> bool:
        """Write and commit in one command, without intents, in one range. Returns false as ``put`` does."""
        keys = [write.key for write in writes]
        if not self._make_way(txn, range_, keys):
            return False
        self._raise_above_floor(txn, range_, keys)
        ops = []
        for write in writes:
            value = _value(write, range_.read(write.key))
            ops.append(range_.write(write.key, txn.write_timestamp, value))
            self._record(range_, txn, write.key, value)
        self._finish(txn, SimTxnStatus.COMMITTED)
        self.propose(range_, ops)
        return True

    def commit(self, txn: Transaction) -> None:
        """Commit at the write timestamp. The intents stay until they are resolved."""
        self._finish(txn, SimTxnStatus.COMMITTED)
        for range_id, keys in txn.intents.items():
            range_ = self.ranges[range_id]
            for key in keys:
                intent = range_.intents[key]
                if intent.commits:
                    self._record(range_, txn, key, intent.value)

    def abort(self, txn: Transaction, by: EndedBy = EndedBy.STOP) -> None:
        """Abort. The intents stay until they are resolved. ``by`` is noted for an abandoned one."""
        self._finish(txn, SimTxnStatus.ABORTED)
        if txn.expires_ns is not None:
            open_ms = self._abandoned_ms(txn.expires_ns)
            self.moments.note_ended(
                self.present.ns, txn.id, self._tables_of(txn), by, open_ms, moved=txn.moved
            )

    def push(self, txn: Transaction, above: Timestamp) -> None:
        """Raise a pending transaction's write timestamp to ``above``; a lower one does not change it."""
        txn.forward(above)
        if txn.expires_ns is not None and not txn.moved:
            txn.moved = True
            open_ms = self._abandoned_ms(txn.expires_ns)
            self.moments.note_pushed(self.present.ns, txn.id, self._tables_of(txn), open_ms)

    def abandon(self, txn: Transaction) -> None:
        """Note that the coordinator died just now."""
        txn.expires_ns = self.present.ns + self._options.txn_expiry_ms * NANOS_PER_MS
        self.counts["abandoned"] += 1
        self.moments.note_abandoned(self.present.ns, txn.id, self._tables_of(txn))

    def resolve(self, txn: Transaction, range_id: RangeId, keys: Iterable[bytes]) -> None:
        """Resolve those of ``keys`` that still hold an intent of the ended transaction."""
        left = txn.intents.get(range_id, ())
        found = [key for key in dict.fromkeys(keys) if key in left]
        if found:
            range_ = self.ranges[range_id]
            range_.clock.observe(txn.write_timestamp)
            self.propose(range_, [range_.end_intent(key) for key in found])
            self.forget(txn)

    def resolve_anywhere(self, txn: Transaction, keys: Sequence[bytes]) -> None:
        """Resolve as ``resolve`` does, in whichever ranges hold ``keys`` by now."""
        for range_id in list(txn.intents):
            self.resolve(txn, range_id, keys)

    def settle(self, range_: Range, span: Span, upto: Timestamp) -> bool:
        """Return whether no version at or below ``upto`` can be committed any more in a part of a range.

        Intents in the way are resolved if their transactions have ended, or have expired.
        """
        if range_.closed < upto:
            return False
        in_the_way: dict[Transaction, list[bytes]] = {}
        for key, intent in range_.intents.items():
            if span.contains(key) and intent.txn.write_timestamp <= upto:
                in_the_way.setdefault(intent.txn, []).append(key)
        for txn, keys in in_the_way.items():
            if txn.pending and self.expired(txn):
                self.abort(txn, EndedBy.SCAN)
            if not txn.pending:
                self.resolve(txn, range_.id, keys)
        return not any(txn.pending for txn in in_the_way)

    def release(self, txn: Transaction) -> None:
        """Note that no coordinator will use the transaction again.

        Its record is dropped with its last intent.
        """
        txn.released = True
        self.forget(txn)

    def forget(self, txn: Transaction) -> None:
        """Drop the record of a transaction that has ended, and has neither intents nor a coordinator."""
        if txn.released and not txn.pending and not txn.intents:
            self.txns.pop(txn.id, None)

    # ---- the end ----

    def coordinated(self) -> bool:
        """Return whether any transaction still has a coordinator."""
        return any(not txn.released for txn in self.txns.values())

    def end_all(self) -> None:
        """Abort every transaction that is still open, and resolve every intent."""
        for txn in list(self.txns.values()):
            if txn.pending:
                self.abort(txn)
            for range_id, keys in list(txn.intents.items()):
                self.resolve(txn, range_id, list(keys))

    # ---- how requests are carried out ----

    def expired(self, txn: Transaction) -> bool:
        """Return whether a transaction's coordinator has been silent for too long."""
        return txn.expires_ns is not None and self.present.ns >= txn.expires_ns

    def propose(self, range_: Range, ops: Sequence[Op]) -> None:
        """Apply a command, perhaps only at the second attempt."""
        rejected = self._options.rejected_fraction
        if rejected and self._rng.random() < rejected:
            range_.reject()
        range_.apply(tuple(ops))

    def _make_way(self, txn: Transaction, range_: Range, keys: Sequence[bytes]) -> bool:
        """Clear other transactions' intents off ``keys``: abort younger transactions, and expired ones.

        Returns false, and changes nothing, if another pending transaction has to be waited for.
        """
        intents = [range_.intents[key] for key in keys if key in range_.intents]
        owners = list(dict.fromkeys(intent.txn for intent in intents if intent.txn is not txn))
        if any(owner.pending and not self._may_abort(owner, txn) for owner in owners):
            return False
        for owner in owners:
            if owner.pending:
                self.abort(owner, EndedBy.WRITE)
            self.resolve(owner, range_.id, keys)
        return True

    def _may_abort(self, owner: Transaction, contender: Transaction) -> bool:
        if owner.expires_ns is None:
            return contender.older_than(owner)
        return self.expired(owner)

    def _raise_above_floor(self, txn: Transaction, range_: Range, keys: Sequence[bytes]) -> None:
        floor = range_.floor(keys)
        if txn.write_timestamp <= floor:
            txn.write_timestamp = floor.next()
        range_.clock.observe(txn.write_timestamp)

    def _visible(self, txn: Transaction, range_: Range, key: bytes) -> bytes | None:
        own = range_.intents.get(key)
        if own is not None and own.epoch == txn.epoch:
            return own.value or None
        return range_.read(key)

    def _abandoned_ms(self, expires_ns: int) -> int:
        """Return for how many ms a coordinator has been dead whose transaction expires at ``expires_ns``."""
        return (self.present.ns - expires_ns) // NANOS_PER_MS + self._options.txn_expiry_ms

    def _tables_of(self, txn: Transaction) -> tuple[str, ...]:
        """Return the names of the tables that hold intents of the transaction."""
        return tuple(sorted({name for range_id in txn.intents for name in _tables(self.ranges[range_id])}))

    def _finish(self, txn: Transaction, status: SimTxnStatus) -> None:
        txn.status = status
        self.counts[status.value] += 1

    def _record(self, range_: Range, txn: Transaction, key: bytes, value: bytes) -> None:
        table_id = range_.descriptor.table[0].table_id
        self._history.record(HistoryVersion(table_id, key, txn.write_timestamp, value))
        self.counts["versions"] += 1


def _tables(range_: Range) -> tuple[str, ...]:
    return (decode_descriptor(range_.descriptor.table[-1].descriptor).name,)


def _value(write: Write, standing: bytes | None) -> bytes:
    return write.value if isinstance(write.value, bytes) else write.value(standing)
