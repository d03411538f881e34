"""Records of the log, byte by byte."""

from __future__ import annotations

from tidegate.hlc import ClosedTimestamp, Timestamp
from tidegate.raftlog.entry import Command, Generation, RaftIndex, RangeId, Trigger, WriteValue

RANGE = RangeId(7)


# ---- RaftCommand as CockroachDB writes it, built from the field numbers ----


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def int_field(field: int, number: int) -> bytes:
    return varint(field << 3) + varint(number)


def expected(closed: Timestamp | None = None, trigger: Trigger = Trigger.NONE) -> Command:
    op = WriteValue(b"key", Timestamp(10, 3), b"value")
    closed_timestamp = None if closed is None else ClosedTimestamp(closed)
    return Command(RANGE, Generation(4), RaftIndex(99), (op,), closed_timestamp, trigger, b"")
