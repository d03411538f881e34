"""Raw storage keys: a roachpb key, a zero byte, the timestamp, and the timestamp's length.

    key | 00 | wall (8 bytes) | [logical (4 bytes)] | [01 if synthetic] | length of all after the 00, 9..14
    key | 00                                           without a timestamp

All integers are big endian. Source: CockroachDB pkg/storage/mvcc_key.go. Only write batches, SSTables and
dumps have this form; logical ops have key and timestamp apart.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tidegate.errors import EncodingError
from tidegate.hlc import MAX, ZERO, Timestamp

_SENTINEL: Final = 0x00
_WALL: Final = 9  # sizes of suffixes; the length byte is counted
_WITH_LOGICAL: Final = 13
_WITH_SYNTHETIC: Final = 14
_SYNTHETIC: Final = 0x01


class MvccKey(NamedTuple):
    """One version of a key.

    A zero timestamp means that there is none. Only old stores write ``synthetic``.
    """

    key: bytes
    timestamp: Timestamp = ZERO
    synthetic: bool = False


def encode_mvcc_key(version: MvccKey) -> bytes:
    """Return the shortest form that holds the version."""
    wall, logical = version.timestamp
    stored = version.key + bytes((_SENTINEL,))
    if version.timestamp == ZERO and not version.synthetic:
        return stored
    stored += wall.to_bytes(8, "big")
    if not logical and not version.synthetic:
        return stored + bytes((_WALL,))
    stored += logical.to_bytes(4, "big")
    if not version.synthetic:
        return stored + bytes((_WITH_LOGICAL,))
    return stored + bytes((_SYNTHETIC, _WITH_SYNTHETIC))


def decode_mvcc_key(stored: bytes) -> MvccKey:
    """Undo `encode_mvcc_key`. Longer forms are read too. Raises `EncodingError` for a malformed suffix."""
    if not stored:
        raise EncodingError("an empty key has no MVCC suffix")
    size = stored[-1]
    start = len(stored) - size  # start of the timestamp, after the zero byte
    if size == 0:
        return MvccKey(stored[:-1])
    if size not in (_WALL, _WITH_LOGICAL, _WITH_SYNTHETIC) or start < 1 or stored[start - 1] != _SENTINEL:
        raise EncodingError(f"0x{stored.hex()} does not end in an MVCC timestamp")
    synthetic = size == _WITH_SYNTHETIC
    if synthetic and stored[-2] != _SYNTHETIC:
        raise EncodingError(f"the synthetic mark of an MVCC timestamp is 0x{stored[-2]:02x}")
    wall = int.from_bytes(stored[start : start + 8], "big")
    logical = 0 if size == _WALL else int.from_bytes(stored[start + 8 : start + 12], "big")
    if wall > MAX.wall or logical > MAX.logical:
        raise EncodingError(f"0x{stored.hex()} has an MVCC timestamp beyond the clock's range")
    return MvccKey(stored[: start - 1], Timestamp(wall, logical), synthetic)
