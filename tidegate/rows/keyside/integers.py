"""Integers in keys: one marker byte that carries the length (or a small value), then big-endian bytes.

Source: CockroachDB pkg/util/encoding/encoding.go. Small values 0..109 are in the marker itself (0x88..0xf5).
Markers 0xf6..0xfd announce 1..8 bytes, 0x80..0x87 announce 8..1 bytes of a negative or a descending value.
For example, 5 is ``8d``, 300 is ``f7 01 2c``, and -1 is ``87 ff``. A descending signed integer is the
ascending form of its complement.
"""

from __future__ import annotations

from typing import Final

from tidegate.errors import EncodingError
from tidegate.rows.take import marker_at, take

ZERO: Final = 0x88
SMALL_END: Final = 0xF5  # marker of 109, the largest value without further bytes
MAX_SMALL: Final = SMALL_END - ZERO
MARKERS: Final = range(0x80, 0xFE)

_MAX_UINT64: Final = 2**64 - 1
_MIN_INT64: Final = -(2**63)
_MAX_INT64: Final = 2**63 - 1
_MAX_BYTES: Final = 8


def encode_uvarint_asc(value: int) -> bytes:
    """Encode an unsigned 64-bit integer so that smaller values sort first."""
    if 0 <= value <= MAX_SMALL:
        return bytes((ZERO + value,))
    body = _magnitude(value)
    return bytes((SMALL_END + len(body),)) + body


def decode_uvarint_asc(buffer: bytes, position: int) -> tuple[int, int]:
    """Undo `encode_uvarint_asc`. Raises `EncodingError` for a truncated or signed integer."""
    marker = marker_at(buffer, position)
    if ZERO <= marker <= SMALL_END:
        return marker - ZERO, position + 1
    size = marker - SMALL_END
    if not 0 < size <= _MAX_BYTES:
        raise EncodingError(f"byte 0x{marker:02x} at offset {position} does not begin an unsigned integer")
    body, end = take(buffer, position + 1, size)
    return int.from_bytes(body, "big"), end


def encode_uvarint_desc(value: int) -> bytes:
    """Encode an unsigned 64-bit integer so that larger values sort first."""
    if value == 0:
        return bytes((ZERO,))
    size = len(_magnitude(value))
    complement = (1 << 8 * size) - 1 - value
    return bytes((ZERO - size,)) + complement.to_bytes(size, "big")


def decode_uvarint_desc(buffer: bytes, position: int) -> tuple[int, int]:
    """Undo `encode_uvarint_desc`. Raises `EncodingError` for a truncated or ascending integer."""
    marker = marker_at(buffer, position)
    size = ZERO - marker
    if not 0 <= size <= _MAX_BYTES:
        raise EncodingError(
            f"byte 0x{marker:02x} at offset {position} does not begin a descending unsigned integer"
        )
    body, end = take(buffer, position + 1, size)
    return (1 << 8 * size) - 1 - int.from_bytes(body, "big"), end


def encode_varint_asc(value: int) -> bytes:
    """Encode a signed 64-bit integer so that smaller values sort first."""
    if value > _MAX_INT64 or value < _MIN_INT64:
        raise EncodingError(f"{value} does not fit in 64 bits with a sign")
    if value >= 0:
        return encode_uvarint_asc(value)
    size = len(_magnitude(-value))
    return bytes((ZERO - size,)) + (value + (1 << 8 * size)).to_bytes(size, "big")


def decode_varint_asc(buffer: bytes, position: int) -> tuple[int, int]:
    """Undo `encode_varint_asc`. Raises `EncodingError` for bytes that are truncated or no 64-bit integer."""
    marker = marker_at(buffer, position)
    if ZERO <= marker <= SMALL_END:
        return marker - ZERO, position + 1
    if marker > SMALL_END:
        value, end = decode_uvarint_asc(buffer, position)
    else:
        value, end = _decode_negative(buffer, position, marker)
    if value > _MAX_INT64 or value < _MIN_INT64:
        raise EncodingError(f"the integer at offset {position} does not fit in 64 bits with a sign")
    return value, end


def encode_varint_desc(value: int) -> bytes:
    """Encode a signed 64-bit integer so that larger values sort first."""
    return encode_varint_asc(~value)


def decode_varint_desc(buffer: bytes, position: int) -> tuple[int, int]:
    """Undo `encode_varint_desc`. Raises as `decode_varint_asc`."""
    value, end = decode_varint_asc(buffer, position)
    return ~value, end


def encode_uint32_asc(value: int) -> bytes:
    """Return the value as four big-endian bytes."""
    return _fixed(value, 4)


def encode_uint32_desc(value: int) -> bytes:
    """Return the complement of the value as four big-endian bytes."""
    return _fixed(2**32 - 1 - value, 4)


def encode_uint64_asc(value: int) -> bytes:
    """Return the value as eight big-endian bytes."""
    return _fixed(value, 8)


def encode_uint64_desc(value: int) -> bytes:
    """Return the complement of the value as eight big-endian bytes."""
    return _fixed(_MAX_UINT64 - value, 8)


def decode_uint32_asc(buffer: bytes, position: int) -> tuple[int, int]:
    """Undo `encode_uint32_asc`."""
    body, end = take(buffer, position, 4)
    return int.from_bytes(body, "big"), end


def decode_uint32_desc(buffer: bytes, position: int) -> tuple[int, int]:
    """Undo `encode_uint32_desc`."""
    value, end = decode_uint32_asc(buffer, position)
    return 2**32 - 1 - value, end


def decode_uint64_asc(buffer: bytes, position: int) -> tuple[int, int]:
    """Undo `encode_uint64_asc`."""
    body, end = take(buffer, position, 8)
    return int.from_bytes(body, "big"), end


def decode_uint64_desc(buffer: bytes, position: int) -> tuple[int, int]:
    """Undo `encode_uint64_desc`."""
    value, end = decode_uint64_asc(buffer, position)
    return _MAX_UINT64 - value, end


def _decode_negative(buffer: bytes, position: int, marker: int) -> tuple[int, int]:
    size = ZERO - marker
    if size > _MAX_BYTES:
        raise EncodingError(f"byte 0x{marker:02x} at offset {position} does not begin an integer")
    body, end = take(buffer, position + 1, size)
    return int.from_bytes(body, "big") - (1 << 8 * size), end


def _magnitude(value: int) -> bytes:
    if not 0 <= value <= _MAX_UINT64:
        raise EncodingError(f"{value} does not fit in 64 bits without a sign")
    return value.to_bytes((value.bit_length() + 7) // 8 or 1, "big")


def _fixed(value: int, size: int) -> bytes:
    try:
        return value.to_bytes(size, "big")
    except OverflowError:
        raise EncodingError(f"{value} does not fit in {8 * size} bits without a sign") from None
