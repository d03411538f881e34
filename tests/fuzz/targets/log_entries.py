"""Entries of the log, one of each kind and more: what the log's targets begin with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
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
from tidegate.rows import Datum, Json


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


#: A column of each kind of encoding.
TABLE: Final = HandTable.of(
    104, "t", "id INT, s STRING, a INT[], j JSONB, d DECIMAL(10,2), ts TIMESTAMPTZ, b BIT, f FLOAT"
)


def row(number: int) -> tuple[Datum, ...]:
    """A row of the table."""
    document = Json({"a": [Decimal("1.5"), None, True, {"x": "y"}]})
    return number, f"row {number}", (1, None, -3), document, Decimal("1.50"), 10**18, "0101", 1.5


def _records() -> Iterator[LogBytes]:
    log = HandLog(partitions=1)
    log.describe(TABLE)
    whole = log.open_range(1, TABLE.span)
    _write_ops(log, whole)
    child = whole.split(TABLE.key(50), 2, close=7)
    child.snapshot(high=7, gc=1, intents=(OpenIntent(txn(9), b"a", TABLE.key(60), at(8)),))
    scan = Scan(child.id, 7, child.span, None, at(5), all_versions=False, with_prev=True)
    child.scanned(scan, StoredVersion(TABLE.key(70), at(3), b"", None, False))
    child.apply(TABLE.put(7.5, *row(70))._replace(prev_value=b""))
    whole.merge(child)
    whole.apply(TABLE.put(8, *row(4))._replace(prev_value=b""), close=7)
    whole.snapshot(close=9)
    return (LogBytes(record.key, record.value) for record in log.partitions[0])


def _write_ops(log: HandLog, range_: HandRange) -> None:
    """Ops of every kind, and one whose value stands in the write batch alone."""
    key = TABLE.key(2)
    range_.apply(TABLE.put(5, *row(1))._replace(prev_value=b""), close=4)
    range_.apply(intent(1, 5), intent(2, 5), moved(1, 6), AbortTxn(txn(2)))
    range_.apply(TABLE.commit(1, 6, *row(2))._replace(prev_value=b""), DeleteRange(key, key + b"\xff", at(6)))
    op = TABLE.put(6.5, *row(3))._replace(prev_value=b"")
    range_.index += 1
    data = batch(set_version(op.key, op.timestamp, op.value or b""), delete_range(b"a", b"b"))
    log.write(range_.command(op._replace(value=None))._replace(write_batch=data))
    range_.apply(TABLE.delete(6.8, 1)._replace(prev_value=b""))
    range_.heartbeat(6.9)


#: Records of every kind, in the order of a log that can be read.
RECORDS: Final = tuple(_records())
