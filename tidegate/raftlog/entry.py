"""What a log record says, decoded: the kinds of entry and of logical operation.

All are named tuples: they are immutable, and they are made for every record of the log.
Source of the operations: CockroachDB ``enginepb/mvcc.proto`` and ``rangefeed`` (docs/log-contract.md).
"""

from __future__ import annotations

import enum
from typing import NamedTuple, NewType, TypeAlias

from tidegate.hlc import ZERO, ClosedTimestamp, Timestamp
from tidegate.spans import Span

RangeId = NewType("RangeId", int)
#: Counts a range's splits, merges and replacements; rises only.
Generation = NewType("Generation", int)
#: Position in a range's Raft log; dense, and goes on over the generations of one range.
RaftIndex = NewType("RaftIndex", int)
#: Position in a Kafka partition.
Offset = NewType("Offset", int)
#: 16 bytes that name a transaction.
TxnId = NewType("TxnId", bytes)

BROADCAST = RangeId(0)


class WriteValue(NamedTuple):
    """A version written without an intent: by no transaction, or by a one-phase one.

    ``value`` empty is a tombstone; ``None`` means that the log does not hold it: neither the op nor, once
    decoded, the write batch of its command.
    """

    key: bytes
    timestamp: Timestamp
    value: bytes | None
    prev_value: bytes | None = None
    omit_in_rangefeeds: bool = False
    origin_id: int = 0


class WriteIntent(NamedTuple):
    """A transaction wrote a provisional version; the op does not say where."""

    txn_id: TxnId
    anchor_key: bytes
    timestamp: Timestamp
    min_timestamp: Timestamp


class UpdateIntent(NamedTuple):
    """An intent was rewritten or pushed to a higher timestamp."""

    txn_id: TxnId
    timestamp: Timestamp


class CommitIntent(NamedTuple):
    """An intent became a version; ``value`` as in ``WriteValue``."""

    txn_id: TxnId
    key: bytes
    timestamp: Timestamp
    value: bytes | None
    prev_value: bytes | None = None
    omit_in_rangefeeds: bool = False
    origin_id: int = 0


class AbortIntent(NamedTuple):
    """An intent was removed; its transaction may have committed all the same, in a later epoch."""

    txn_id: TxnId


class AbortTxn(NamedTuple):
    """The transaction ended aborted: none of its intents in this range will commit."""

    txn_id: TxnId


class DeleteRange(NamedTuple):
    """An MVCC range tombstone over [start, end)."""

    start: bytes
    end: bytes
    timestamp: Timestamp


Op: TypeAlias = WriteValue | WriteIntent | UpdateIntent | CommitIntent | AbortIntent | AbortTxn | DeleteRange


class Trigger(enum.Enum):
    """What else a command did to its range, beyond its logical ops."""

    NONE = "none"
    SPLIT = "split"
    MERGE = "merge"
    ADD_SSTABLE = "AddSSTable"
    HISTORY_MUTATION = "MVCC history mutation"


class Command(NamedTuple):
    """An applied Raft command. ``ops`` is ``None`` when it has a write batch but no op log: a hole.

    ``mutated`` are the spans whose data a trigger ``ADD_SSTABLE`` or ``HISTORY_MUTATION`` changed outside
    the op log; none means that the command does not say where. ``at_write_timestamp`` tells of an AddSSTable
    that all its versions have the command's write timestamp, above what was closed. ``write_timestamp`` is
    read of such commands only; ``None`` where the command does not tell it.
    """

    range_id: RangeId
    generation: Generation
    raft_index: RaftIndex
    ops: tuple[Op, ...] | None
    closed: ClosedTimestamp | None
    trigger: Trigger = Trigger.NONE
    write_batch: bytes = b""
    mutated: tuple[Span, ...] = ()
    at_write_timestamp: bool = False
    write_timestamp: Timestamp | None = None


class Heartbeat(NamedTuple):
    """A closed timestamp that holds once the range has applied index ``covers``."""

    range_id: RangeId
    generation: Generation
    closed: ClosedTimestamp
    covers: RaftIndex


class OpenIntent(NamedTuple):
    """An intent that a snapshot found."""

    txn_id: TxnId
    anchor_key: bytes
    key: bytes
    timestamp: Timestamp


class DescriptorUpdate(NamedTuple):
    """A table descriptor version; ``descriptor`` is its stored form, opaque here."""

    table_id: int
    version: int
    modified: Timestamp
    descriptor: bytes


class Parent(NamedTuple):
    """A range that a new one came from, and the last index of it that counts."""

    range_id: RangeId
    generation: Generation
    last_index: RaftIndex


class SnapshotReason(enum.IntEnum):
    """Why the source wrote a snapshot."""

    UNKNOWN = 0
    INITIAL = 1
    SPLIT = 2
    MERGE = 3
    RAFT_SNAPSHOT = 4
    PERIODIC = 5


class HistoryMutation(NamedTuple):
    """The last change of a range's data outside the op log.

    ``raft_index`` is that of its command, 0 when it came with keys from another range. ``time`` is at or
    above every version that it changed, above what was closed before it, and above earlier mutations of the
    keys.
    """

    raft_index: RaftIndex
    time: Timestamp


#: The data of the range was never changed outside the op log.
NEVER_MUTATED = HistoryMutation(RaftIndex(0), ZERO)


class Snapshot(NamedTuple):
    """One chunk of what a range looked like at applied index ``raft_index``; carries no row versions.

    ``last_mutation`` is ``None`` where the source does not tell of any.
    """

    range_id: RangeId
    generation: Generation
    raft_index: RaftIndex
    span: Span
    closed: ClosedTimestamp
    high: Timestamp
    gc_threshold: Timestamp
    intents: tuple[OpenIntent, ...] = ()
    descriptors: tuple[DescriptorUpdate, ...] = ()
    parents: tuple[Parent, ...] = ()
    reason: SnapshotReason = SnapshotReason.INITIAL
    chunk: int = 0
    chunks: int = 1
    last_mutation: HistoryMutation | None = None


class RangeEnd(NamedTuple):
    """The range was merged away or removed after ``last_index``."""

    range_id: RangeId
    generation: Generation
    last_index: RaftIndex


class KeyValue(NamedTuple):
    """One version that a scan found; values as in ``WriteValue``."""

    key: bytes
    timestamp: Timestamp
    value: bytes
    prev_value: bytes | None = None
    omit_in_rangefeeds: bool = False


class ScanChunk(NamedTuple):
    """A piece of the answer to a scan request."""

    range_id: RangeId
    generation: Generation
    raft_index: RaftIndex
    request_id: int
    span: Span
    after: Timestamp | None
    upto: Timestamp
    all_versions: bool
    rows: tuple[KeyValue, ...]
    last: bool


Entry: TypeAlias = Command | Heartbeat | Snapshot | RangeEnd | DescriptorUpdate | ScanChunk
