"""A range store reduced to what a measurement needs: rows in log records, made by hand and fast.

Commands carry 1 to 8 ops each. Of every two commands that write, one writes its rows in one phase. The other
writes them as intents, which a later command of its range commits. So half of the rows come in each way. Ops
carry the previous version only where that is asked for, and closed timestamps stay a fixed lag behind.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Final, NamedTuple

from bench.orders import order_row, orders_table
from sim.log.sink import WrittenRecord
from sim.workload_tables import place_table
from tidegate.hlc import NANOS_PER_MS, NANOS_PER_SECOND, ZERO, ClosedTimestamp, Timestamp
from tidegate.raftlog.encode import encode_entry, encode_key, partition_of, range_of
from tidegate.raftlog.entry import (
    Command,
    CommitIntent,
    DescriptorUpdate,
    Entry,
    Generation,
    Heartbeat,
    Op,
    Parent,
    RaftIndex,
    RangeId,
    Snapshot,
    SnapshotReason,
    Trigger,
    TxnId,
    WriteIntent,
    WriteValue,
)
from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.table_codec import TableCodec
from tidegate.rows.table_key import index_span
from tidegate.spans import Span

_OPS_MAX: Final = 8  # of one command
_OPEN_MAX: Final = 2  # transactions of a range that wait for their commit
_FIRST_INDEX: Final = RaftIndex(10)
_FIRST_GENERATION: Final = Generation(1)
_TXN_BYTES: Final = 16


class OpenTxn(NamedTuple):
    """A transaction whose intents, all at one timestamp, wait for their commit."""

    txn_id: TxnId
    timestamp: Timestamp
    rows: tuple[tuple[bytes, bytes], ...]


@dataclass(slots=True)
class BenchRange:
    """One range: what the store needs to know for its next command. Its keys are those of ``keys`` orders,
    from the number ``first`` on."""

    id: RangeId
    span: Span
    first: int
    keys: int
    open: deque[OpenTxn] = field(default_factory=deque)
    generation: Generation = _FIRST_GENERATION
    applied: RaftIndex = _FIRST_INDEX
    high: Timestamp = ZERO
    written: int = 0


class BenchStore:
    """``ranges`` ranges of one table in a log of ``partitions`` partitions; a function of ``seed``.

    Every method takes the present as nanoseconds since 1970, which must not fall; each op gets a
    timestamp of its own, by the logical part. A range's keys come again after ``keys_per_range`` rows;
    with ``previous`` its ops carry the version that they replace. With ``single`` every command writes one
    row, in one phase.
    """

    def __init__(
        self,
        *,
        partitions: int,
        ranges: int,
        seed: int,
        closed_lag_ms: int = 3_000,
        keys_per_range: int = 10_000,
        previous: bool = False,
        single: bool = False,
    ) -> None:
        self.partitions = partitions
        self._single = single
        self._rng = Random(seed)
        self._lag_ns = closed_lag_ms * NANOS_PER_MS
        self._now = ZERO
        self._newest: dict[bytes, bytes] | None = {} if previous else None
        self.table: TableDescriptor = orders_table(Timestamp(1))
        self._codec = TableCodec(self.table)
        self._start = index_span(self.table.id, self.table.primary_index_id).start
        splits = [self._codec.encode_key({"id": n * keys_per_range}) for n in range(1, ranges)]
        placed = place_table(self.table, splits)
        self.descriptor: DescriptorUpdate = placed.descriptor
        self.ranges = [
            BenchRange(RangeId(number + 1), span, number * keys_per_range, keys_per_range)
            for number, span in enumerate(placed.spans)
        ]

    def head(self, now_ns: int) -> list[WrittenRecord]:
        """Return the beginning of the log: the table on every partition, then a snapshot of every range."""
        self._advance(now_ns)
        value = encode_entry(self.descriptor)
        key, now_ms = encode_key(RangeId(0)), self._now.wall_ms
        broadcast = [WrittenRecord(partition, key, value, now_ms) for partition in range(self.partitions)]
        return broadcast + [self._record(self._snapshot(range_)) for range_ in self.ranges]

    def rows(self, count: int, now_ns: int) -> Iterator[WrittenRecord]:
        """Yield records that begin ``count`` rows, half of them as intents; ``settle`` commits the intents
        that are still open then.

        Commands of all ranges alternate at random.
        """
        self._advance(now_ns)
        one_phase = True
        left = count
        while left:
            size = 1 if self._single else min(left, self._rng.randint(1, _OPS_MAX))
            range_ = self._rng.choice(self.ranges)
            if one_phase:
                yield self._command(range_, self._writes(range_, size))
            else:
                yield self._command(range_, self._intents(range_, size))
                if len(range_.open) > _OPEN_MAX:
                    yield self._commit(range_)
            one_phase = self._single or not one_phase
            left -= size

    def settle(self, now_ns: int) -> Iterator[WrittenRecord]:
        """Yield commands that commit every open transaction."""
        self._advance(now_ns)
        for range_ in self.ranges:
            while range_.open:
                yield self._commit(range_)

    def split(self, range_: BenchRange, now_ns: int) -> Iterator[WrittenRecord]:
        """Yield records that first commit a range's open transactions, and then split the range in the middle
        of its keys."""
        self._advance(now_ns)
        while range_.open:
            yield self._commit(range_)
        yield self._command(range_, (), Trigger.SPLIT)
        parent = Parent(range_.id, range_.generation, range_.applied)
        child = self._split_off(range_)
        for side in (range_, child):
            yield self._record(self._snapshot(side, (parent,), SnapshotReason.SPLIT))

    def _split_off(self, range_: BenchRange) -> BenchRange:
        """Give the upper half of a range's keys to a new range, and return that. Both ranges have the next
        generation."""
        kept, middle = range_.keys // 2, range_.first + range_.keys // 2
        key = self._codec.encode_key({"id": middle})
        range_.generation = Generation(range_.generation + 1)
        child = BenchRange(
            RangeId(max(other.id for other in self.ranges) + 1),
            Span(key, range_.span.end),
            middle,
            range_.keys - kept,
            generation=range_.generation,
            high=range_.high,
        )
        range_.span, range_.keys = Span(range_.span.start, key), kept
        self.ranges.append(child)
        return child

    def open_intents(self, count: int, now_ns: int) -> Iterator[WrittenRecord]:
        """Yield records of ``count`` transactions with one intent each, eight in a command. The transactions
        stay open."""
        self._advance(now_ns)
        for first in range(0, count, _OPS_MAX):
            range_ = self.ranges[first // _OPS_MAX % len(self.ranges)]
            size = min(_OPS_MAX, count - first)
            yield self._command(range_, [self._intent(self._txn_id(), self._tick()) for _ in range(size)])

    def heartbeats(self, now_ns: int) -> list[WrittenRecord]:
        """Return a heartbeat of every range, all with the same closed timestamp (``closed``)."""
        self._advance(now_ns)
        return [self._record(self._heartbeat(range_)) for range_ in self.ranges]

    def heartbeat(self, range_: BenchRange, now_ns: int) -> WrittenRecord:
        """Return a heartbeat of one range."""
        self._advance(now_ns)
        return self._record(self._heartbeat(range_))

    @property
    def closed(self) -> ClosedTimestamp:
        """The timestamp that is closed at present."""
        return ClosedTimestamp(Timestamp(self._now.wall - self._lag_ns))

    # ---- ops ----

    def _writes(self, range_: BenchRange, size: int) -> list[Op]:
        writes: list[Op] = [
            WriteValue(key, self._tick(), value, self._replace(key, value))
            for key, value in self._fresh(range_, size)
        ]
        range_.high = self._now
        return writes

    def _intents(self, range_: BenchRange, size: int) -> list[Op]:
        txn = OpenTxn(self._txn_id(), self._tick(), tuple(self._fresh(range_, size)))
        range_.open.append(txn)
        return [self._intent(txn.txn_id, txn.timestamp)] * size

    def _intent(self, txn_id: TxnId, timestamp: Timestamp) -> Op:
        return WriteIntent(txn_id, self._start, timestamp, timestamp)

    def _commit(self, range_: BenchRange) -> WrittenRecord:
        txn = range_.open.popleft()
        range_.high = max(range_.high, txn.timestamp)
        ops = [
            CommitIntent(txn.txn_id, key, txn.timestamp, value, self._replace(key, value))
            for key, value in txn.rows
        ]
        return self._command(range_, ops)

    def _replace(self, key: bytes, value: bytes) -> bytes | None:
        """Note the version, and return the one that it replaces: empty if there is none, ``None`` if the log
        does not carry previous versions."""
        if self._newest is None:
            return None
        previous = self._newest.get(key, b"")
        self._newest[key] = value
        return previous

    def _fresh(self, range_: BenchRange, size: int) -> Iterator[tuple[bytes, bytes]]:
        """Yield keys of a range in turn, so that none is written while an intent stands on it."""
        for _ in range(size):
            order = range_.first + range_.written % range_.keys
            range_.written += 1
            yield self._codec.encode(order_row(self._rng, order))

    # ---- entries ----

    def _command(
        self, range_: BenchRange, ops: Iterable[Op], trigger: Trigger = Trigger.NONE
    ) -> WrittenRecord:
        range_.applied = RaftIndex(range_.applied + 1)
        return self._record(
            Command(range_.id, range_.generation, range_.applied, tuple(ops), self.closed, trigger)
        )

    def _heartbeat(self, range_: BenchRange) -> Heartbeat:
        return Heartbeat(range_.id, range_.generation, self.closed, range_.applied)

    def _snapshot(
        self,
        range_: BenchRange,
        parents: tuple[Parent, ...] = (),
        reason: SnapshotReason = SnapshotReason.INITIAL,
    ) -> Snapshot:
        return Snapshot(
            range_.id,
            range_.generation,
            range_.applied,
            range_.span,
            self.closed,
            high=range_.high,
            gc_threshold=ZERO,
            descriptors=(self.descriptor,),
            parents=parents,
            reason=reason,
        )

    def _record(self, entry: Entry) -> WrittenRecord:
        range_id = range_of(entry)
        partition = partition_of(range_id, self.partitions)
        return WrittenRecord(partition, encode_key(range_id), encode_entry(entry), self._now.wall_ms)

    # ---- time and names ----

    def _advance(self, now_ns: int) -> None:
        self._now = max(self._now, Timestamp(now_ns))

    def _tick(self) -> Timestamp:
        self._now = self._now.next()
        return self._now

    def _txn_id(self) -> TxnId:
        return TxnId(self._rng.randbytes(_TXN_BYTES))


def whole_log(store: BenchStore, rows: int, base_ns: int, rows_per_s: int = 2_000) -> Iterator[WrittenRecord]:
    """Yield a finished log of exactly ``rows`` rows, as if written at ``rows_per_s``. Everything is committed
    and closed."""
    now_ns = base_ns
    yield from store.head(now_ns)
    yield from rows_over_time(store, rows, base_ns, rows_per_s)
    now_ns += (rows // rows_per_s + 1) * NANOS_PER_SECOND
    yield from store.settle(now_ns)
    yield from store.heartbeats(now_ns + 3_600 * NANOS_PER_SECOND)


def rows_over_time(store: BenchStore, rows: int, base_ns: int, rows_per_s: int) -> Iterator[WrittenRecord]:
    """Yield the rows of a log. Time moves on between them."""
    step = rows_per_s // 20
    for done in range(0, rows, step):
        yield from store.rows(min(step, rows - done), base_ns + done * NANOS_PER_SECOND // rows_per_s)
