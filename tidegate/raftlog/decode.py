"""Decodes records of the log into entries, with every check that a single record allows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from google.protobuf.message import DecodeError

from tidegate.errors import MalformedEntry
from tidegate.hlc import ZERO, ClosedTimestamp, Timestamp
from tidegate.raftlog import raftlog_pb2 as pb
from tidegate.raftlog.entry import (
    BROADCAST,
    AbortIntent,
    AbortTxn,
    Command,
    CommitIntent,
    DeleteRange,
    DescriptorUpdate,
    Entry,
    Generation,
    Heartbeat,
    HistoryMutation,
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
from tidegate.raftlog.write_batch import with_values
from tidegate.spans import Span

_KEY_BYTES: Final = 8
_TXN_ID_BYTES: Final = 16
_SHOWN_BYTES: Final = 40
#: The most chunks of one Snapshot. All of them are held in memory until the last one comes.
SNAPSHOT_CHUNKS_MAX: Final = 1_024
_new: Final = tuple.__new__


def decode_key(key: bytes | None) -> RangeId | None:
    """Return the range id of a record key (8 bytes, big-endian); ``None`` for any other key."""
    if key is None or len(key) != _KEY_BYTES or key[0] & 0x80:
        return None
    return RangeId(int.from_bytes(key, "big"))


def decode_batch(records: Iterable[tuple[bytes | None, bytes | None]]) -> list[Entry | MalformedEntry]:
    """Decode (key, value) pairs. A record that cannot be decoded gives its error in place of an entry."""
    return [_decode_or_error(key, value) for key, value in records]


def decode_entry(key: bytes | None, value: bytes | None, *, is_stored: bool = False) -> Entry:
    """Decode one record. Raises ``MalformedEntry`` for anything that the contract does not allow.

    ``is_stored`` says that the record comes from a stored state. An earlier version of tidegate may have read
    it from the log. That version allowed a Snapshot of any number of chunks, and intents without a timestamp
    in it. So both are allowed here.
    """
    if value is None:
        raise MalformedEntry("the record has no value")
    try:
        message = pb.LogEntry.FromString(value)
    except DecodeError as error:
        raise MalformedEntry(f"the value is not a log entry: {error}") from None
    if decode_key(key) != message.range_id:
        raise MalformedEntry(
            f"the record's key is {'absent' if key is None else _shown(key)}, but its entry names "
            f"range {message.range_id}"
        )
    kind = message.WhichOneof("entry")
    if kind is None:
        raise MalformedEntry("the entry is of no kind that this version knows")
    if (message.range_id == BROADCAST) != (kind == "descriptor"):
        raise MalformedEntry(f"an entry of kind {kind} cannot stand under range {message.range_id}")
    if is_stored and kind == "snapshot":
        return _stored_snapshot(message)
    return _DECODERS[kind](message)


def _decode_or_error(key: bytes | None, value: bytes | None) -> Entry | MalformedEntry:
    try:
        return decode_entry(key, value)
    except MalformedEntry as error:
        return error


def _shown(data: bytes) -> str:
    """Return the first ``_SHOWN_BYTES`` bytes in hexadecimal, for a sentence."""
    return data.hex() if len(data) <= _SHOWN_BYTES else f"{data[:_SHOWN_BYTES].hex()}..."


def _timestamp(message: pb.Timestamp) -> Timestamp:
    wall, logical = message.wall_time, message.logical
    if wall < 0 or logical < 0:
        raise MalformedEntry(f"negative timestamp ({wall}, {logical})")
    return _new(Timestamp, (wall, logical))  # half the cost of Timestamp(...): it runs often


def _txn_id(raw: bytes) -> TxnId:
    if len(raw) != _TXN_ID_BYTES:
        raise MalformedEntry(f"a transaction id has 16 bytes, not {len(raw)}: {_shown(raw)}")
    return TxnId(raw)


def _span(message: pb.Span) -> Span:
    span = Span(message.start, message.end)
    try:
        span.validate()
    except ValueError as error:
        raise MalformedEntry(str(error)) from None
    return span


# ---- logical ops ----


def _write_value(op: pb.MVCCWriteValueOp) -> Op:
    return WriteValue(
        op.key,
        _timestamp(op.timestamp),
        op.value or (b"" if op.HasField("value") else None),
        op.prev_value if op.HasField("prev_value") else None,
        op.omit_in_rangefeeds,
        op.origin_id,
    )


def _write_intent(op: pb.MVCCWriteIntentOp) -> Op:
    return WriteIntent(
        _txn_id(op.txn_id), op.txn_key, _timestamp(op.timestamp), _timestamp(op.txn_min_timestamp)
    )


def _update_intent(op: pb.MVCCUpdateIntentOp) -> Op:
    return UpdateIntent(_txn_id(op.txn_id), _timestamp(op.timestamp))


def _commit_intent(op: pb.MVCCCommitIntentOp) -> Op:
    return CommitIntent(
        _txn_id(op.txn_id),
        op.key,
        _timestamp(op.timestamp),
        op.value or (b"" if op.HasField("value") else None),
        op.prev_value if op.HasField("prev_value") else None,
        op.omit_in_rangefeeds,
        op.origin_id,
    )


def _abort_intent(op: pb.MVCCAbortIntentOp) -> Op:
    return AbortIntent(_txn_id(op.txn_id))


def _abort_txn(op: pb.MVCCAbortTxnOp) -> Op:
    return AbortTxn(_txn_id(op.txn_id))


def _delete_range(op: pb.MVCCDeleteRangeOp) -> Op:
    span = Span(op.start_key, op.end_key)
    if not span.start < span.end:
        raise MalformedEntry(f"a range tombstone needs start < end: {_shown(span.start)}, {_shown(span.end)}")
    return DeleteRange(span.start, span.end, _timestamp(op.timestamp))


_OPS: Final[dict[str, Callable[..., Op]]] = {
    "write_value": _write_value,
    "write_intent": _write_intent,
    "update_intent": _update_intent,
    "commit_intent": _commit_intent,
    "abort_intent": _abort_intent,
    "abort_txn": _abort_txn,
    "delete_range": _delete_range,
}


def _op(message: pb.MVCCLogicalOp) -> Op:
    kind = message.WhichOneof("op")
    if kind is None:
        raise MalformedEntry("a logical op is of no kind that this version knows")
    return _OPS[kind](getattr(message, kind))


# ---- entries ----


def _command(message: pb.LogEntry) -> Entry:
    command = message.command
    batch = command.write_batch.data if command.HasField("write_batch") else None
    ops: tuple[Op, ...] | None = ()
    if command.HasField("logical_op_log"):
        ops = tuple(map(_op, command.logical_op_log.ops))
        if batch:
            ops = with_values(ops, batch)
    elif batch is not None:
        ops = None
    closed = None
    if command.HasField("closed_timestamp"):
        closed = ClosedTimestamp(_timestamp(command.closed_timestamp))
    decoded = Command(
        RangeId(message.range_id),
        Generation(message.generation),
        RaftIndex(message.raft_index),
        ops,
        closed,
        Trigger.NONE,
        batch or b"",
    )
    if not command.HasField("replicated_eval_result"):
        return decoded
    return _with_result(decoded, command.replicated_eval_result)


def _with_result(command: Command, result: pb.ReplicatedEvalResult) -> Command:
    """Return the command with its trigger: the effect that it has on the range besides its ops."""
    changed = _with_change(command, result)
    for name, trigger in _MOVES:
        if result.HasField(name):
            return changed._replace(trigger=trigger, also=changed.trigger)
    return changed


_MOVES: Final = (("split", Trigger.SPLIT), ("merge", Trigger.MERGE))


def _with_change(command: Command, result: pb.ReplicatedEvalResult) -> Command:
    """Return the command with the trigger by which it changed data outside the op log, if there is one."""
    if any(map(result.HasField, _HISTORY_MUTATIONS)):
        return command._replace(
            trigger=Trigger.HISTORY_MUTATION,
            mutated=_mutated_spans(result),
            write_timestamp=_write_timestamp(result),
        )
    if not result.HasField("add_sstable"):
        return command
    added = result.add_sstable
    return command._replace(
        trigger=Trigger.ADD_SSTABLE,
        mutated=(_mutated_span(added.span),) if added.HasField("span") else (),
        at_write_timestamp=added.at_write_timestamp,
        write_timestamp=_write_timestamp(result),
    )


def _write_timestamp(result: pb.ReplicatedEvalResult) -> Timestamp | None:
    """Return the command's write timestamp; ``None`` if it is absent or zero.

    Some commands of CockroachDB have no write timestamp.
    """
    told = result.write_timestamp
    return _timestamp(told) if told.wall_time > 0 else None


_HISTORY_MUTATIONS: Final = ("mvcc_history_mutation", "link_external_sstable", "excise")


def _mutated_spans(result: pb.ReplicatedEvalResult) -> tuple[Span, ...]:
    """Return the spans of all changes of a command; no span if any of the changes does not tell its own."""
    changes: list[Sequence[pb.Span]] = []
    if result.HasField("mvcc_history_mutation"):
        changes.append(result.mvcc_history_mutation.spans)
    for name in ("link_external_sstable", "excise", "add_sstable"):
        if result.HasField(name):
            change = getattr(result, name)
            changes.append([change.span] if change.HasField("span") else [])
    if not all(changes):
        return ()
    return tuple(dict.fromkeys(_mutated_span(span) for spans in changes for span in spans))


def _mutated_span(message: pb.Span) -> Span:
    """Return a span in the store's own form, in which a span without an end is a single key."""
    if message.start and not message.end:
        return Span(message.start, message.start + b"\0")
    return _span(message)


def _heartbeat(message: pb.LogEntry) -> Entry:
    beat = message.heartbeat
    return Heartbeat(
        RangeId(message.range_id),
        Generation(message.generation),
        ClosedTimestamp(_timestamp(beat.closed_timestamp)),
        RaftIndex(beat.covers),
    )


def _snapshot(message: pb.LogEntry) -> Entry:
    snapshot = _stored_snapshot(message)
    if snapshot.chunks > SNAPSHOT_CHUNKS_MAX:
        raise MalformedEntry(
            f"a snapshot of {snapshot.chunks} chunks: at most {SNAPSHOT_CHUNKS_MAX:,} are read. Write larger "
            "chunks"
        )
    for intent in snapshot.intents:
        if intent.timestamp == ZERO:
            raise MalformedEntry(
                f"an open intent of transaction {intent.txn_id.hex()} in a snapshot has no timestamp: the "
                "range could not resolve anything while it is open"
            )
    return snapshot


def _stored_snapshot(message: pb.LogEntry) -> Snapshot:
    snapshot = message.snapshot
    chunks = snapshot.chunks or 1
    if snapshot.chunk >= chunks:
        raise MalformedEntry(f"snapshot chunk {snapshot.chunk} of {chunks}")
    return Snapshot(
        RangeId(message.range_id),
        Generation(message.generation),
        RaftIndex(message.raft_index),
        _span(snapshot.span),
        ClosedTimestamp(_timestamp(snapshot.closed_timestamp)),
        _timestamp(snapshot.high),
        _timestamp(snapshot.gc_threshold),
        tuple(
            OpenIntent(_txn_id(i.txn_id), i.anchor_key, i.key, _timestamp(i.timestamp))
            for i in snapshot.intents
        ),
        tuple(map(_descriptor, snapshot.descriptors)),
        tuple(map(_parent, snapshot.parents)),
        SnapshotReason(snapshot.reason) if int(snapshot.reason) in _REASONS else SnapshotReason.UNKNOWN,
        snapshot.chunk,
        chunks,
        _last_mutation(snapshot.last_mutation) if snapshot.HasField("last_mutation") else None,
    )


def _parent(message: pb.Parent) -> Parent:
    if message.range_id <= 0:
        raise MalformedEntry(f"a snapshot's parent is range {message.range_id}: range ids are above 0")
    return Parent(RangeId(message.range_id), Generation(message.generation), RaftIndex(message.last_index))


def _last_mutation(message: pb.HistoryMutation) -> HistoryMutation:
    mutation = HistoryMutation(RaftIndex(message.raft_index), _timestamp(message.time))
    if mutation.raft_index and mutation.time == ZERO:
        raise MalformedEntry(f"the history mutation at index {mutation.raft_index} has no time")
    return mutation


_REASONS: Final = frozenset(map(int, SnapshotReason))


def _descriptor(update: pb.DescriptorUpdate) -> DescriptorUpdate:
    return DescriptorUpdate(
        update.table_id, update.version, _timestamp(update.modification_time), update.descriptor
    )


def _range_end(message: pb.LogEntry) -> Entry:
    return RangeEnd(
        RangeId(message.range_id), Generation(message.generation), RaftIndex(message.end.last_index)
    )


def _key_value(row: pb.KeyValue) -> KeyValue:
    prev_value = row.prev_value if row.HasField("prev_value") else None
    return KeyValue(row.key, _timestamp(row.timestamp), row.value, prev_value, row.omit_in_rangefeeds)


def _scan_chunk(message: pb.LogEntry) -> Entry:
    scan = message.scan
    return ScanChunk(
        RangeId(message.range_id),
        Generation(message.generation),
        RaftIndex(message.raft_index),
        scan.request_id,
        _span(scan.span),
        _timestamp(scan.after) if scan.HasField("after") else None,
        _timestamp(scan.upto),
        scan.all_versions,
        tuple(map(_key_value, scan.rows)),
        scan.last,
    )


def _broadcast_descriptor(message: pb.LogEntry) -> Entry:
    return _descriptor(message.descriptor)


_DECODERS: Final[dict[str, Callable[[pb.LogEntry], Entry]]] = {
    "command": _command,
    "heartbeat": _heartbeat,
    "snapshot": _snapshot,
    "scan": _scan_chunk,
    "descriptor": _broadcast_descriptor,
    "end": _range_end,
}
