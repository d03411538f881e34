"""Encodes entries into records, as a range store writes them. It is the inverse of ``decode``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tidegate.hlc import Timestamp
from tidegate.raftlog import raftlog_pb2 as pb
from tidegate.raftlog.entry import (
    BROADCAST,
    NEVER_MUTATED,
    AbortIntent,
    AbortTxn,
    Command,
    CommitIntent,
    DeleteRange,
    DescriptorUpdate,
    Entry,
    Heartbeat,
    RangeEnd,
    RangeId,
    ScanChunk,
    Snapshot,
    Trigger,
    UpdateIntent,
    WriteIntent,
    WriteValue,
)
from tidegate.spans import Span


def encode_key(range_id: RangeId) -> bytes:
    """Return the record key of a range's entries: its id as 8 bytes, big-endian."""
    return range_id.to_bytes(8, "big")


def range_of(entry: Entry) -> RangeId:
    """Return the range that an entry belongs to; 0 for a broadcast."""
    return BROADCAST if isinstance(entry, DescriptorUpdate) else entry.range_id


def partition_of(range_id: RangeId, partitions: int) -> int:
    """Return the log partition, among ``partitions``, that a range belongs to."""
    return range_id % partitions


def encode_entry(entry: Entry) -> bytes:
    """Return the record value of an entry."""
    message: pb.LogEntry = _ENCODERS[type(entry)](entry)
    return message.SerializeToString()


def timestamp_message(timestamp: Timestamp) -> pb.Timestamp:
    """Return the message of a timestamp."""
    return pb.Timestamp(wall_time=timestamp.wall, logical=timestamp.logical)


def span_message(span: Span) -> pb.Span:
    """Return the message of a span."""
    return pb.Span(start=span.start, end=span.end)


# ---- logical ops ----
#
# Most entries of a log are commands. So their messages are filled in place, and no part of them is copied.


def _fill_timestamp(message: pb.Timestamp, timestamp: Timestamp) -> None:
    message.wall_time, message.logical = timestamp


def _fill_write_value(message: pb.MVCCLogicalOp, op: WriteValue) -> None:
    write = message.write_value
    write.key = op.key
    _fill_version(write, op)


def _fill_write_intent(message: pb.MVCCLogicalOp, op: WriteIntent) -> None:
    write = message.write_intent
    write.txn_id = op.txn_id
    write.txn_key = op.anchor_key
    _fill_timestamp(write.timestamp, op.timestamp)
    _fill_timestamp(write.txn_min_timestamp, op.min_timestamp)


def _fill_update_intent(message: pb.MVCCLogicalOp, op: UpdateIntent) -> None:
    message.update_intent.txn_id = op.txn_id
    _fill_timestamp(message.update_intent.timestamp, op.timestamp)


def _fill_commit_intent(message: pb.MVCCLogicalOp, op: CommitIntent) -> None:
    commit = message.commit_intent
    commit.txn_id = op.txn_id
    commit.key = op.key
    _fill_version(commit, op)


def _fill_version(
    message: pb.MVCCWriteValueOp | pb.MVCCCommitIntentOp, op: WriteValue | CommitIntent
) -> None:
    _fill_timestamp(message.timestamp, op.timestamp)
    if op.value is not None:
        message.value = op.value
    if op.prev_value is not None:
        message.prev_value = op.prev_value
    message.omit_in_rangefeeds = op.omit_in_rangefeeds
    message.origin_id = op.origin_id


def _fill_abort_intent(message: pb.MVCCLogicalOp, op: AbortIntent) -> None:
    message.abort_intent.txn_id = op.txn_id


def _fill_abort_txn(message: pb.MVCCLogicalOp, op: AbortTxn) -> None:
    message.abort_txn.txn_id = op.txn_id


def _fill_delete_range(message: pb.MVCCLogicalOp, op: DeleteRange) -> None:
    delete = message.delete_range
    delete.start_key, delete.end_key = op.start, op.end
    _fill_timestamp(delete.timestamp, op.timestamp)


_FILL_OP: Final[dict[type, Callable[[pb.MVCCLogicalOp, Any], None]]] = {
    WriteValue: _fill_write_value,
    WriteIntent: _fill_write_intent,
    UpdateIntent: _fill_update_intent,
    CommitIntent: _fill_commit_intent,
    AbortIntent: _fill_abort_intent,
    AbortTxn: _fill_abort_txn,
    DeleteRange: _fill_delete_range,
}


# ---- entries ----


def _command(entry: Command) -> pb.LogEntry:
    message = pb.LogEntry(range_id=entry.range_id, generation=entry.generation, raft_index=entry.raft_index)
    command = message.command
    command.SetInParent()
    if entry.write_batch or entry.ops is None:
        command.write_batch.data = entry.write_batch
    if entry.ops is not None:
        command.logical_op_log.SetInParent()
        add = command.logical_op_log.ops.add
        for op in entry.ops:
            _FILL_OP[type(op)](add(), op)
    if entry.closed is not None:
        _fill_timestamp(command.closed_timestamp, entry.closed)
    if entry.trigger is not Trigger.NONE:
        _fill_result(command.replicated_eval_result, entry)
    return message


def _fill_result(result: pb.ReplicatedEvalResult, entry: Command) -> None:
    """Fill in the triggers of a command. Raises ``ValueError`` for an AddSSTable over more than one span."""
    for trigger in (entry.trigger, entry.also):
        if trigger is not Trigger.NONE:
            getattr(result, _TRIGGER_FIELDS[trigger]).SetInParent()
    if entry.write_timestamp is not None:
        _fill_timestamp(result.write_timestamp, entry.write_timestamp)
    if entry.change is Trigger.HISTORY_MUTATION:
        result.mvcc_history_mutation.spans.extend(map(span_message, entry.mutated))
    elif entry.change is Trigger.ADD_SSTABLE:
        result.add_sstable.at_write_timestamp = entry.at_write_timestamp
        if entry.mutated:
            (span,) = entry.mutated
            result.add_sstable.span.CopyFrom(span_message(span))


_TRIGGER_FIELDS: Final = {
    Trigger.SPLIT: "split",
    Trigger.MERGE: "merge",
    Trigger.ADD_SSTABLE: "add_sstable",
    Trigger.HISTORY_MUTATION: "mvcc_history_mutation",
}


def _heartbeat(entry: Heartbeat) -> pb.LogEntry:
    return pb.LogEntry(
        range_id=entry.range_id,
        generation=entry.generation,
        raft_index=entry.covers,
        heartbeat=pb.Heartbeat(closed_timestamp=timestamp_message(entry.closed), covers=entry.covers),
    )


def _descriptor(update: DescriptorUpdate) -> pb.DescriptorUpdate:
    return pb.DescriptorUpdate(
        table_id=update.table_id,
        version=update.version,
        modification_time=timestamp_message(update.modified),
        descriptor=update.descriptor,
    )


def _broadcast_descriptor(entry: DescriptorUpdate) -> pb.LogEntry:
    return pb.LogEntry(range_id=BROADCAST, descriptor=_descriptor(entry))


def _snapshot(entry: Snapshot) -> pb.LogEntry:
    snapshot = pb.Snapshot(
        span=span_message(entry.span),
        closed_timestamp=timestamp_message(entry.closed),
        high=timestamp_message(entry.high),
        gc_threshold=timestamp_message(entry.gc_threshold),
        descriptors=map(_descriptor, entry.descriptors),
        reason=int(entry.reason),  # type: ignore[arg-type]  # the generated enum is an int at run time
        chunk=entry.chunk,
        chunks=entry.chunks,
    )
    for intent in entry.intents:
        snapshot.intents.add(
            txn_id=intent.txn_id,
            anchor_key=intent.anchor_key,
            key=intent.key,
            timestamp=timestamp_message(intent.timestamp),
        )
    if entry.last_mutation is not None:
        snapshot.last_mutation.SetInParent()
        if entry.last_mutation != NEVER_MUTATED:
            snapshot.last_mutation.raft_index = entry.last_mutation.raft_index
            _fill_timestamp(snapshot.last_mutation.time, entry.last_mutation.time)
    for parent in entry.parents:
        snapshot.parents.add(
            range_id=parent.range_id, generation=parent.generation, last_index=parent.last_index
        )
    return pb.LogEntry(
        range_id=entry.range_id, generation=entry.generation, raft_index=entry.raft_index, snapshot=snapshot
    )


def _range_end(entry: RangeEnd) -> pb.LogEntry:
    return pb.LogEntry(
        range_id=entry.range_id,
        generation=entry.generation,
        raft_index=entry.last_index,
        end=pb.RangeEnd(last_index=entry.last_index),
    )


def _scan_chunk(entry: ScanChunk) -> pb.LogEntry:
    scan = pb.ScanChunk(
        request_id=entry.request_id,
        span=span_message(entry.span),
        after=None if entry.after is None else timestamp_message(entry.after),
        upto=timestamp_message(entry.upto),
        all_versions=entry.all_versions,
        last=entry.last,
    )
    for row in entry.rows:
        scan.rows.add(
            key=row.key,
            timestamp=timestamp_message(row.timestamp),
            value=row.value,
            prev_value=row.prev_value,
            omit_in_rangefeeds=row.omit_in_rangefeeds,
        )
    return pb.LogEntry(
        range_id=entry.range_id, generation=entry.generation, raft_index=entry.raft_index, scan=scan
    )


_ENCODERS: Final[dict[type, Callable[[Any], pb.LogEntry]]] = {
    Command: _command,
    Heartbeat: _heartbeat,
    Snapshot: _snapshot,
    RangeEnd: _range_end,
    DescriptorUpdate: _broadcast_descriptor,
    ScanChunk: _scan_chunk,
}
