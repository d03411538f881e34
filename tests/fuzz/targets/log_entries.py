"""Entries of the log, one of each kind and more: what the log's targets begin with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from tests.fuzz.message_mutators import altered
from tests.fuzz.mutators import damaged
from tests.hand_log import HandLog, HandRange, HandTable, at, intent, moved, txn
from tests.hostile.write_batches import batch, delete_range, set_version
from tidegate.raftlog import raftlog_pb2 as pb
from tidegate.raftlog.encode import encode_key
from tidegate.raftlog.entry import (
    AbortTxn,
    DeleteRange,
    OpenIntent,
    RangeId,
)
from tidegate.raftlog.entry import KeyValue as StoredVersion
from tidegate.raftlog.request import Scan


class LogBytes(NamedTuple):
    """Key and value of a record of the log."""

    key: bytes | None
    value: bytes | None


def changed(chance: Random, record: LogBytes) -> LogBytes:
    """The record with other fields, or damaged; its key is mostly that of the range which it names then."""
    key, value = record
    if value is not None:
        value = _changed_value(chance, value)
        with suppress(DecodeError, OverflowError):
            key = encode_key(RangeId(pb.LogEntry.FromString(value).range_id))
    draw = chance.random()
    if draw < 0.05:
        return LogBytes(damaged(chance, key or b""), value)
    return LogBytes(None if draw < 0.06 else key, None if draw > 0.99 else value)


def _changed_value(chance: Random, value: bytes) -> bytes:
    if chance.random() < 0.5:
        return damaged(chance, value)
    try:
        return altered(chance, pb.LogEntry.FromString(value))
    except DecodeError:
        return damaged(chance, value)


def _records() -> Iterator[LogBytes]:
    log, table = HandLog(partitions=1), HandTable.of(104, "t", "id INT, v STRING")
    log.describe(table)
    whole = log.open_range(1, table.span)
    _write_ops(log, whole, table)
    child = whole.split(table.key(50), 2, close=7)
    child.snapshot(high=7, gc=1, intents=(OpenIntent(txn(9), b"a", table.key(60), at(8)),))
    scan = Scan(child.id, 7, child.span, None, at(5), all_versions=False, with_prev=True)
    child.scanned(scan, StoredVersion(table.key(70), at(3), b"", None, False))
    whole.merge(child)
    whole.snapshot(close=9)
    return (LogBytes(record.key, record.value) for record in log.partitions[0])


def _write_ops(log: HandLog, range_: HandRange, table: HandTable) -> None:
    """Ops of every kind, and one whose value stands in the write batch alone."""
    key = table.key(2)
    range_.apply(table.put(5, 1, "one"), close=4)
    range_.apply(intent(1, 5), intent(2, 5), moved(1, 6), AbortTxn(txn(2)))
    range_.apply(table.commit(1, 6, 2, "two"), DeleteRange(key, key + b"\xff", at(6)))
    op = table.put(6.5, 3, "three")
    range_.index += 1
    data = batch(set_version(op.key, op.timestamp, op.value or b""), delete_range(b"a", b"b"))
    log.write(range_.command(op._replace(value=None))._replace(write_batch=data))
    range_.apply(table.delete(6.8, 1))
    range_.heartbeat(6.9)


#: Records of every kind, in the order of a log that can be read.
RECORDS: Final = tuple(_records())
