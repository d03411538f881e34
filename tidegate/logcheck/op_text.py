"""Describes ops in sentences about breaches, without their values: these may have megabytes."""

from __future__ import annotations

from typing import Final

from tidegate.raftlog.entry import CommitIntent, DeleteRange, UpdateIntent, WriteIntent, WriteValue

_KEY_BYTES: Final = 40


def op_text(op: WriteValue | WriteIntent | UpdateIntent | CommitIntent | DeleteRange) -> str:
    """Return, for example, ``WriteValue of key f0898d88 at 1700000001000000000.0000000000``."""
    match op:
        case WriteIntent() | UpdateIntent():
            what = f"transaction {op.txn_id.hex()}"
        case DeleteRange():
            what = f"keys from {_key_text(op.start)} on"
        case _:
            what = f"key {_key_text(op.key)}"
    return f"{type(op).__name__} of {what} at {op.timestamp}"


def _key_text(key: bytes) -> str:
    return key.hex() if len(key) <= _KEY_BYTES else f"{key[:_KEY_BYTES].hex()}..."
