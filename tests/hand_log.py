"""Logs written by hand: one call for each entry, with raft indexes, record times and partitions kept right.

Times are whole seconds after ``BASE_S``, so that record times and timestamps mean the same time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from sim.workload_tables import declare_table, table_span
from tests.logs import Record
from tidegate.hlc import NANOS_PER_SECOND, ZERO, ClosedTimestamp, Timestamp
from tidegate.raftlog.encode import encode_entry, encode_key, partition_of, range_of
from tidegate.raftlog.entry import (
    BROADCAST,
    NEVER_MUTATED,
    AbortIntent,
    Command,
    CommitIntent,
    DescriptorUpdate,
    Entry,
    Generation,
    Heartbeat,
    KeyValue,
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
    TxnId,
    UpdateIntent,
    WriteIntent,
    WriteValue,
)
from tidegate.raftlog.request import Scan
from tidegate.rows import (
    Column,
    Datum,
    Family,
    TableCodec,
    TableDescriptor,
    encode_descriptor,
    parse_sql_type,
)
from tidegate.rows.table_key import tenant_prefix
from tidegate.rows.value_frame import CHECKSUM_SIZE, seal
from tidegate.spans import Span

BASE_S: Final = 1_700_000_000
FIRST_INDEX: Final = 10


def at(seconds: float, logical: int = 0) -> Timestamp:
    """The timestamp so many seconds after the base."""
    return Timestamp(BASE_S * NANOS_PER_SECOND + round(seconds * NANOS_PER_SECOND), logical)


def seconds_of(timestamp: Timestamp) -> float:
    """The seconds after the base for which ``at`` returns this timestamp."""
    return timestamp.wall / NANOS_PER_SECOND - BASE_S


def closed(seconds: float) -> ClosedTimestamp:
    """The closed timestamp so many seconds after the base."""
    return ClosedTimestamp(at(seconds))


def txn(number: int) -> TxnId:
    """The id of a transaction."""
    return TxnId(number.to_bytes(16, "big"))


def intent(number: int, seconds: float) -> WriteIntent:
    """Transaction ``number`` writes an intent."""
    return WriteIntent(txn(number), b"anchor", at(seconds), at(seconds))


def moved(number: int, seconds: float) -> UpdateIntent:
    """An intent of transaction ``number`` is rewritten at, or pushed to, ``seconds``."""
    return UpdateIntent(txn(number), at(seconds))


def aborted(number: int) -> AbortIntent:
    """An intent of transaction ``number`` is removed."""
    return AbortIntent(txn(number))


def update_of(descriptor: TableDescriptor) -> DescriptorUpdate:
    """The log's form of a table descriptor."""
    return DescriptorUpdate(
        descriptor.id, descriptor.version, descriptor.modified, encode_descriptor(descriptor)
    )


class HandTable:
    """A table and the ops that write its rows; its keys may carry the prefix of a ``tenant``."""

    def __init__(self, descriptor: TableDescriptor, tenant: int | None = None) -> None:
        self.descriptor = descriptor
        self.codec = TableCodec(descriptor)
        self.prefix = b"" if tenant is None else tenant_prefix(tenant)
        self.span = Span(*(self.prefix + key for key in table_span(descriptor.id)))

    @classmethod
    def of(
        cls,
        table_id: int,
        name: str,
        columns: str = "id INT, v STRING",
        key: str = "id",
        tenant: int | None = None,
    ) -> HandTable:
        """A table of ``columns``, valid from the first second on."""
        pairs = [(column.split()[0], column.split(maxsplit=1)[1]) for column in columns.split(", ")]
        return cls(declare_table(table_id, name, pairs, key.split(", "), at(0)), tenant)

    def widened(self, seconds: float) -> HandTable:
        """Version 2 of the table, from the time ``seconds`` on: with a column ``w INT`` after the others."""
        columns = (
            *self.descriptor.columns,
            Column(1 + len(self.descriptor.columns), "w", parse_sql_type("INT")),
        )
        families = (Family(0, "primary", tuple(column.id for column in columns)),)
        return HandTable(
            replace(self.descriptor, version=2, modified=at(seconds), columns=columns, families=families)
        )

    def pair(self, *values: Datum) -> tuple[bytes, bytes]:
        """Key and value of a row."""
        key, value = self.codec.encode(values)
        return self.prefix + key, seal(self.prefix + key, value[CHECKSUM_SIZE:])

    def put(self, seconds: float, *values: Datum) -> WriteValue:
        """Write a row without an intent."""
        key, value = self.pair(*values)
        return WriteValue(key, at(seconds), value)

    def key(self, *datums: Datum) -> bytes:
        """The key of the row with these datums in its primary key."""
        names = {column.id: column.name for column in self.descriptor.columns}
        parts = self.descriptor.primary_key
        return self.prefix + self.codec.encode_key(
            {names[part.column_id]: datum for part, datum in zip(parts, datums, strict=True)}
        )

    def delete(self, seconds: float, *key: Datum) -> WriteValue:
        """Delete the row with this primary key."""
        return WriteValue(self.key(*key), at(seconds), b"")

    def commit(self, number: int, seconds: float, *values: Datum) -> CommitIntent:
        """Transaction ``number``'s intent becomes this row."""
        key, value = self.pair(*values)
        return CommitIntent(txn(number), key, at(seconds), value)

    def split(self, *key: Datum) -> tuple[Span, Span]:
        """The table's keys below that of a row, and from it on."""
        at_key = self.key(*key)
        return Span(self.span.start, at_key), Span(at_key, self.span.end)


class HandLog:
    """A log of ``partitions`` partitions under construction."""

    def __init__(self, partitions: int = 3) -> None:
        self._logs: list[list[Record]] = [[] for _ in range(partitions)]
        self._now_ms = BASE_S * 1000

    @property
    def partitions(self) -> tuple[tuple[Record, ...], ...]:
        """The records that were written so far, by partition."""
        return tuple(map(tuple, self._logs))

    def wait_for(self, timestamp: Timestamp) -> None:
        """Let time pass: later records have at least this time."""
        self._now_ms = max(self._now_ms, timestamp.wall_ms)

    def write(self, entry: Entry, partition: int | None = None) -> None:
        """Write an entry into the partition of its range, or into ``partition``."""
        range_id = range_of(entry)
        if partition is None:
            partitions: Iterable[int] = (
                range(len(self._logs)) if range_id == BROADCAST else [self.partition_of(range_id)]
            )
        else:
            partitions = [partition]
        for number in partitions:
            self.write_bytes(number, encode_key(range_id), encode_entry(entry))

    def partition_of(self, range_id: RangeId) -> int:
        """Return the partition of the range's entries."""
        return partition_of(range_id, len(self._logs))

    def write_bytes(
        self, partition: int, key: bytes | None, value: bytes | None, time_ms: int | None = None
    ) -> None:
        """Write any record, by default at the present time."""
        log = self._logs[partition]
        log.append(Record(len(log), key, value, self._now_ms if time_ms is None else time_ms))

    def describe(self, *tables: HandTable) -> None:
        """Write the tables' descriptors to every partition."""
        for table in tables:
            self.write(update_of(table.descriptor))

    def open_range(self, range_id: int, span: Span, **fields: Any) -> HandRange:
        """Begin a range with its first snapshot."""
        opened = HandRange(self, RangeId(range_id), span)
        opened.snapshot(reason=SnapshotReason.INITIAL, **fields)
        return opened


class HandRange:
    """A range of the log: its entries follow each other as they should."""

    def __init__(self, log: HandLog, range_id: RangeId, span: Span) -> None:
        self.id = range_id
        self.span = span
        self.index = FIRST_INDEX
        self.generation = 1
        #: The seconds of the highest version so far.
        self.high: float | None = None
        self._log = log

    def apply(self, *ops: Op, close: float | None = None, trigger: Trigger = Trigger.NONE) -> None:
        """Write one command: its ops, then the timestamp that it closes."""
        self.index += 1
        for op in ops:
            self._log.wait_for(getattr(op, "timestamp", ZERO))
            if isinstance(op, WriteValue | CommitIntent):
                self.high = max(self.high or 0, seconds_of(op.timestamp))
        self._log.write(self.command(*ops, close=close, trigger=trigger))

    def command(self, *ops: Op, close: float | None = None, trigger: Trigger = Trigger.NONE) -> Command:
        """Return the command at the present index, without writing it."""
        return Command(
            self.id,
            Generation(self.generation),
            RaftIndex(self.index),
            ops,
            None if close is None else closed(close),
            trigger,
        )

    def unreadable(self) -> None:
        """Write an entry that nobody can read."""
        self.index += 1
        self._log.write_bytes(self._log.partition_of(self.id), encode_key(self.id), b"\xff")

    def heartbeat(self, close: float, covers: int | None = None) -> None:
        """Close up to ``close``, once index ``covers`` (the present one) is applied."""
        index = RaftIndex(self.index if covers is None else covers)
        self._log.write(Heartbeat(self.id, Generation(self.generation), closed(close), index))

    def snapshot(
        self,
        *,
        close: float = 0,
        high: float | None = None,
        gc: float | None = None,
        intents: Iterable[OpenIntent] = (),
        reason: SnapshotReason = SnapshotReason.PERIODIC,
        **fields: Any,
    ) -> None:
        """Write a snapshot at the present index and generation."""
        self._log.write(
            Snapshot(
                self.id,
                Generation(self.generation),
                RaftIndex(self.index),
                self.span,
                closed(close),
                ZERO if high is None else at(high),
                ZERO if gc is None else at(gc),
                tuple(intents),
                reason=reason,
                **{"last_mutation": NEVER_MUTATED} | fields,
            )
        )

    def split(self, key: bytes, child: int, *, close: float | None = None) -> HandRange:
        """Split at ``key``; the new range begins at once, in its own partition."""
        left, right = Span(self.span.start, key), Span(key, self.span.end)
        self.apply(trigger=Trigger.SPLIT, close=close)
        parent = self.as_parent()
        self.span = left
        self.generation += 1
        self.snapshot(reason=SnapshotReason.SPLIT, close=close or 0, high=self.high, parents=(parent,))
        born = HandRange(self._log, RangeId(child), right)
        born.generation, born.high = self.generation, self.high
        born.snapshot(reason=SnapshotReason.SPLIT, close=close or 0, high=self.high, parents=(parent,))
        return born

    def merge(
        self, right: HandRange, *, close: float | None = None, intents: Iterable[OpenIntent] = ()
    ) -> None:
        """Take over the range to the right."""
        right.end()
        self.apply(trigger=Trigger.MERGE, close=close)
        parents = (self.as_parent(), right.as_parent())
        self.span = Span(self.span.start, right.span.end)
        self.generation = max(self.generation, right.generation) + 1
        self.high = max((high for high in (self.high, right.high) if high is not None), default=None)
        self.snapshot(
            reason=SnapshotReason.MERGE, close=close or 0, high=self.high, parents=parents, intents=intents
        )

    def as_parent(self) -> Parent:
        """Return what its children's snapshots say of it."""
        return Parent(self.id, Generation(self.generation), RaftIndex(self.index))

    def scanned(self, scan: Scan, *rows: KeyValue, span: Span | None = None, last: bool = True) -> None:
        """Write an answer to a scan, for all of its span or a part."""
        self._log.write(
            ScanChunk(
                self.id,
                Generation(self.generation),
                RaftIndex(self.index),
                scan.request_id,
                span or scan.span,
                scan.after,
                scan.upto,
                scan.all_versions,
                rows,
                last,
            )
        )

    def end(self) -> None:
        """Write that the range was merged away."""
        self._log.write(RangeEnd(self.id, Generation(self.generation), RaftIndex(self.index)))
