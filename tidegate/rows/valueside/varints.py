"""The two variable-length integers of values, and signs by zigzag.

``uvarint`` is LEB128, least significant group first, as in Go's encoding/binary and protobuf: datums.
``length`` is base 128, *most* significant group first: tags and lengths. Mixing them up passes on
numbers below 128. Source: CockroachDB pkg/util/encoding/encoding.go (non-sorting varints).
"""

from __future__ import annotations

from typing import Final

from tidegate.errors import EncodingError

_LONG: Final = 0x80  # a byte from here on has others behind it
_MAX_SHIFT: Final = 63
_MIN_INT64: Final = -(2**63)
_MAX_INT64: Final = 2**63 - 1


def encode_uvarint(value: int) -> bytes:
    """LEB128 of an unsigned 64-bit integer."""
    if 0 <= value <= 0x7F:
        return bytes((value,))
    if not 0 <= value < 2**64:
        raise EncodingError(f"{value} does not fit in 64 bits without a sign")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def decode_uvarint(buffer: bytes, position: int) -> tuple[int, int]:
    """Inverse of `encode_uvarint`; `EncodingError` when truncated or beyond 64 bits."""
    value = shift = 0
    try:
        while (byte := buffer[position]) > 0x7F:
            value |= (byte & 0x7F) << shift
            shift += 7
            position += 1
    except IndexError:
        raise EncodingError("the bytes end inside an integer") from None
    value |= byte << shift
    if shift >= _MAX_SHIFT and value >= 2**64:
        raise EncodingError("an integer does not fit in 64 bits")
    return value, position + 1


def encode_zigzag(value: int) -> bytes:
    """LEB128 of a signed 64-bit integer, the sign in the lowest bit."""
    if not _MIN_INT64 <= value <= _MAX_INT64:
        raise EncodingError(f"{value} does not fit in 64 bits with a sign")
    return encode_uvarint(value << 1 if value >= 0 else ~value << 1 | 1)


def decode_zigzag(buffer: bytes, position: int) -> tuple[int, int]:
    """Inverse of `encode_zigzag`; errors as `decode_uvarint`."""
    if position < len(buffer) and (byte := buffer[position]) < _LONG:
        return (byte >> 1) ^ -(byte & 1), position + 1
    value, end = decode_uvarint(buffer, position)
    return (value >> 1) ^ -(value & 1), end


def encode_length(value: int) -> bytes:
    """Base 128 of an unsigned 64-bit integer, most significant group first."""
    if value <= 0x7F:
        return bytes((value,))
    groups = [value & 0x7F]
    while value := value >> 7:
        groups.append(value & 0x7F | 0x80)
    return bytes(reversed(groups))


def decode_length(buffer: bytes, position: int) -> tuple[int, int]:
    """Inverse of `encode_length`; `EncodingError` when truncated or beyond 64 bits."""
    value = 0
    try:
        while (byte := buffer[position]) > 0x7F:
            value = value << 7 | byte & 0x7F
            position += 1
    except IndexError:
        raise EncodingError("the bytes end inside a tag or length") from None
    value = value << 7 | byte
    if value >= 2**64:
        raise EncodingError("a tag or length does not fit in 64 bits")
    return value, position + 1
