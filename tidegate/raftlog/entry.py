"""The kinds of log entries, and of the logical operations in them, as records are decoded into them.

All are named tuples, since these are immutable and cheap: one or more are made for every record of the log.
Source of the operations: CockroachDB ``enginepb/mvcc.proto`` and ``rangefeed`` (docs/log-contract.md).
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Final, NamedTuple, NewType, TypeAlias

from tidegate.hlc import ZERO, ClosedTimestamp, Timestamp
from tidegate.spans import Span

RangeId = NewType("RangeId", int)
#: A number of a range that grows with each split, merge and replacement.
Generation = NewType("Generation", int)
#: A position in a range's Raft log. It has no gaps, and goes on over the generations of one range.
RaftIndex = NewType("RaftIndex", int)
#: A position in a Kafka partition.
Offset = NewType("Offset", int)
#: The 16 bytes that name a transaction.
TxnId = NewType("TxnId", bytes)

BROADCAST = RangeId(0)


class WriteValue(NamedTuple):
    """A version that was written without an intent: by no transaction, or by a one-phase transaction.

    An empty ``value`` is a tombstone. ``None`` means that the log does not hold the value, neither in the op
    nor in the write batch of its command.
    """

    key: bytes
    timestamp: Timestamp
    value: bytes | None
    prev_value: bytes | None = None
    omit_in_rangefeeds: bool = False
    origin_id: int = 0


class WriteIntent(NamedTuple):
    """An intent of a transaction was written: a provisional version. The op does not say at which key.

    ``anchor_key`` is the key of the transaction's record, not of the intent.
    """

    txn_id: TxnId
    anchor_key: bytes
    timestamp: Timestamp
    min_timestamp: Timestamp


class UpdateIntent(NamedTuple):
    """An intent was rewritten or pushed to a higher timestamp."""

    txn_id: TxnId
    timestamp: Timestamp


class CommitIntent(NamedTuple):
    """An intent became a committed version. ``value`` is as in ``WriteValue``."""

    txn_id: TxnId
    key: bytes
    timestamp: Timestamp
    value: bytes | None
    prev_value: bytes | None = None
    omit_in_rangefeeds: bool = False
    origin_id: int = 0


class AbortIntent(NamedTuple):
    """An intent was removed. Its transaction may still have committed, in a later epoch of itself."""

    txn_id: TxnId


class AbortTxn(NamedTuple):
    """A transaction was aborted: none of its intents in this range will commit."""

    txn_id: TxnId


class DeleteRange(NamedTuple):
    """An MVCC range tombstone over [start, end)."""

    start: bytes
    end: bytes
    timestamp: Timestamp


Op: TypeAlias = WriteValue | WriteIntent | UpdateIntent | CommitIntent | AbortIntent | AbortTxn | DeleteRange


class Trigger(enum.Enum):
    """The effect that a command has on its range besides its logical ops."""

    NONE = "none"
    SPLIT = "split"
    MERGE = "merge"
    ADD_SSTABLE = "AddSSTable"
    HISTORY_MUTATION = "MVCC history mutation"


class Command(NamedTuple):
    """An applied Raft command. ``ops`` is ``None`` when it has a write batch but no op log: a hole.

    ``mutated`` are the spans whose data a trigger ``ADD_SSTABLE`` or ``HISTORY_MUTATION`` changed outside the
    op log. If there are no such spans, the command does not say where it changed data. ``at_write_timestamp``
    says that all versions of an AddSSTable have the command's write timestamp, which is above the timestamps
    that the range had closed. ``write_timestamp`` is read only from commands with one of these two triggers;
    it is ``None`` if the command does not tell it. If a command splits or merges its range and also has one
    of these two triggers, ``also`` is that trigger.
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
    also: Trigger = Trigger.NONE

    @property
    def change(self) -> Trigger:
        """The trigger by which the command changed data outside the op log; ``NONE`` if it did not."""
        return self.trigger if self.trigger in _MUTATING else self.also

    @property
    def mutates(self) -> bool:
        """Whether the command changed data outside the op log."""
        return self.change is not Trigger.NONE

    def mutated_spans(self, whole: Sequence[Span]) -> Sequence[Span]:
        """Return the spans whose data the command may have changed outside the op log; no span if it changed
        none.

        ``whole`` is all that the caller asks about, such as the span of the range. It is returned for a
        command that changed data and does not say where.
        """
        if not self.mutates:
            return ()
        return self.mutated or whole


#: The triggers of commands that changed data outside the op log.
_MUTATING: Final = frozenset({Trigger.ADD_SSTABLE, Trigger.HISTORY_MUTATION})


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
    """A version of a table descriptor. ``descriptor`` is its stored form, which is not decoded here."""

    table_id: int
    version: int
    modified: Timestamp
    descriptor: bytes


class Parent(NamedTuple):
    """A parent of a range, and the last index of the parent that counts for the child."""

    range_id: RangeId
    generation: Generation
    last_index: RaftIndex


class SnapshotReason(enum.IntEnum):
    """The reason for which the source wrote a snapshot."""

    UNKNOWN = 0
    INITIAL = 1
    SPLIT = 2
    MERGE = 3
    RAFT_SNAPSHOT = 4
    PERIODIC = 5


class HistoryMutation(NamedTuple):
    """The last change of a range's data outside the op log.

    ``raft_index`` is the index of its command, or 0 if the mutation came with keys from another range.
    ``time`` is at or above every version that was changed. It is above every timestamp that was closed before
    the change, and above the times of earlier mutations of these keys.
    """

    raft_index: RaftIndex
    time: Timestamp


#: The mutation that a range tells if its data was never changed outside the op log.
NEVER_MUTATED = HistoryMutation(RaftIndex(0), ZERO)


class Snapshot(NamedTuple):
    """A chunk of a snapshot: the state of a range at the applied index ``raft_index``, without row versions.

    ``high`` is the highest timestamp of any version that was written up to that index. ``last_mutation`` is
    ``None`` if the source does not tell mutations.
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
    """The end of a range, which was merged away or removed after ``last_index``."""

    range_id: RangeId
    generation: Generation
    last_index: RaftIndex


class KeyValue(NamedTuple):
    """A version that a scan found. An empty ``value`` is a tombstone, as in ``WriteValue``."""

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
