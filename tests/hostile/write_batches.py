"""Write batches made from their description, as a store writes them."""

from __future__ import annotations

from tidegate.hlc import Timestamp
from tidegate.raftlog.write_batch import KeyKind
from tidegate.rows.mvcc_key import MvccKey, encode_mvcc_key
from tidegate.rows.valueside.varints import encode_uvarint


def batch(*records: bytes) -> bytes:
    """A batch of these records."""
    return bytes(8) + len(records).to_bytes(4, "little") + b"".join(records)


def set_version(key: bytes, timestamp: Timestamp, value: bytes) -> bytes:
    """A record that writes a version."""
    return bytes([KeyKind.SET]) + _string(encode_mvcc_key(MvccKey(key, timestamp))) + _string(value)


def delete_range(start: bytes, end: bytes) -> bytes:
    """A record that deletes the versions of the keys from ``start`` up to ``end``, which it leaves out."""
    return bytes([KeyKind.RANGE_DELETE]) + _string(start + b"\0") + _string(end + b"\0")


def _string(content: bytes) -> bytes:
    return encode_uvarint(len(content)) + content
