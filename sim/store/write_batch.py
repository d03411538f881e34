"""Moves values from the ops of a command into its write batch, as CockroachDB's Raft log has them.

``tidegate/raftlog/write_batch.py``, which reads the batch, describes its form.
"""

from __future__ import annotations

import struct
from typing import Final

from tidegate.hlc import Timestamp
from tidegate.raftlog.entry import Command, CommitIntent, Op, WriteValue

_HEADER: Final = struct.Struct("<QI")
_WALL: Final = struct.Struct(">QB")
_WALL_AND_LOGICAL: Final = struct.Struct(">QIB")
_SET: Final = b"\x01"


def pointing_to_batch(command: Command) -> Command:
    """Return the same command with its values in the write batch. Its ops only name key and timestamp."""
    ops = command.ops or ()
    versions = [op for op in ops if isinstance(op, WriteValue | CommitIntent)]
    if not versions:
        return command
    records = b"".join(
        _SET + _varstring(_engine_key(op.key, op.timestamp)) + _varstring(op.value or b"") for op in versions
    )
    batch = _HEADER.pack(0, len(versions)) + records
    return command._replace(ops=tuple(map(_without_value, ops)), write_batch=batch)


def _without_value(op: Op) -> Op:
    return op._replace(value=None) if isinstance(op, WriteValue | CommitIntent) else op


def _engine_key(key: bytes, timestamp: Timestamp) -> bytes:
    if timestamp.logical:
        return key + b"\x00" + _WALL_AND_LOGICAL.pack(*timestamp, _WALL_AND_LOGICAL.size)
    return key + b"\x00" + _WALL.pack(timestamp.wall, _WALL.size)


def _varstring(data: bytes) -> bytes:
    size, length = len(data), bytearray()
    while size >= 0x80:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*length, size]) + data
