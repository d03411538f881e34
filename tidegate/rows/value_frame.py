"""The frame of a value: checksum and tag, and the MVCC header that may precede both.

    value    = CRC-32 (4 bytes, big endian; 0 = not set) | tag | payload
    extended = header length (4 bytes, big endian) | 0x65 | header | value
    tombstone = nothing, or an extended value with nothing after its header

Source: CockroachDB pkg/roachpb/data.go, pkg/storage/mvcc_value.go.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple
from zlib import crc32

from tidegate.errors import ChecksumMismatch, EncodingError


class ValueTag(IntEnum):
    """The type of a value's payload."""

    UNKNOWN = 0
    INT = 1
    FLOAT = 2
    BYTES = 3
    TIME = 4
    DECIMAL = 5
    DURATION = 6
    NULL = 7
    DELIMITED_BYTES = 8
    DELIMITED_DECIMAL = 9
    TUPLE = 10
    BIT_ARRAY = 11
    TIME_TZ = 12
    GEO = 13
    BOX2D = 14
    TIME_SERIES = 100


EXTENDED: Final = 0x65  # in the place of an ordinary value's tag
CHECKSUM_SIZE: Final = 4
PAYLOAD_START: Final = CHECKSUM_SIZE + 1
_UNSET: Final = b"\x00\x00\x00\x00"


class ExtendedValue(NamedTuple):
    """A value, and the serialised header before it. An ordinary value has the header ``None``."""

    header: bytes | None
    value: bytes


def split_header(stored: bytes) -> ExtendedValue:
    """Split a stored value. Raises `EncodingError` if its end is cut off, within the header or checksum."""
    if not stored:
        return ExtendedValue(None, b"")
    if len(stored) < PAYLOAD_START:
        raise EncodingError(f"a value of {len(stored)} bytes is too short for a checksum and a tag")
    if stored[CHECKSUM_SIZE] != EXTENDED:
        return ExtendedValue(None, stored)
    end = PAYLOAD_START + int.from_bytes(stored[:CHECKSUM_SIZE], "big")
    if end > len(stored):
        raise EncodingError(f"a value of {len(stored)} bytes announces a header up to byte {end}")
    value = stored[end:]
    if value and len(value) < PAYLOAD_START:
        raise EncodingError(f"a value of {len(value)} bytes is too short for a checksum and a tag")
    return ExtendedValue(stored[PAYLOAD_START:end], value)


def ordinary(stored: bytes) -> bytes:
    """Return a stored value without its MVCC header; empty for a tombstone. Raises as `split_header` does."""
    if len(stored) > CHECKSUM_SIZE and stored[CHECKSUM_SIZE] != EXTENDED:
        return stored
    return split_header(stored).value


def join_header(header: bytes, value: bytes) -> bytes:
    """Undo `split_header` for a value with a header."""
    return len(header).to_bytes(CHECKSUM_SIZE, "big") + bytes((EXTENDED,)) + header + value


def checksum(key: bytes, body: bytes) -> int:
    """Return CRC-32 (IEEE) over the key, with its tenant prefix and family suffix, and over the value from
    its tag on.
    """
    return crc32(body, crc32(key)) or 1  # 0 means "not set"


def seal(key: bytes, body: bytes) -> bytes:
    """Return the value of ``key``: its checksum, and then ``body``, which is tag and payload."""
    return checksum(key, body).to_bytes(CHECKSUM_SIZE, "big") + body


def unseal(key: bytes, value: bytes) -> bytes:
    """Return tag and payload of an ordinary value that is not empty.

    Raises `ChecksumMismatch` if it is damaged.
    """
    stored, body = value[:CHECKSUM_SIZE], value[CHECKSUM_SIZE:]
    if stored != _UNSET and int.from_bytes(stored, "big") != checksum(key, body):
        raise ChecksumMismatch(f"checksum {stored.hex()} is stored, {checksum(key, body):08x} was computed")
    return body
