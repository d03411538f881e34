"""The two variable-length integers of values, and signs by zigzag.

``uvarint`` is LEB128, *least* significant group first, as in Go's encoding/binary and protobuf. It is used in
datums. ``length`` is base 128, *most* significant group first. It is used in tags and lengths. For example,
300 is ``ac 02`` as a uvarint and ``82 2c`` as a length. Below 128 both are the same, so a mix-up shows only
for numbers from 128 on. Source: CockroachDB pkg/util/encoding/encoding.go (non-sorting varints).
"""

from __future__ import annotations

from typing import Final

from tidegate.errors import EncodingError

_LONG: Final = 0x80  # after a byte of this value or above, another one follows
#: The shifts of the second to the ninth group of an integer. The tenth group is the last one, and has only
#: the 64th bit.
_SHIFTS: Final = tuple(range(7, 63, 7))
_LAST_SHIFT: Final = 63
_FURTHER_GROUPS: Final = (*_SHIFTS, _LAST_SHIFT)
_MIN_INT64: Final = -(2**63)
_MAX_INT64: Final = 2**63 - 1


def encode_uvarint(value: int) -> bytes:
    """Encode an unsigned 64-bit integer as LEB128."""
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
    """Undo `encode_uvarint`. Raises `EncodingError` when truncated, or beyond 64 bits or ten bytes."""
    try:
        value = buffer[position]
        position += 1
        if value < _LONG:
            return value, position
        value &= 0x7F
        for shift in _SHIFTS:
            byte = buffer[position]
            position += 1
            if byte < 0x80:
                return value | byte << shift, position
            value |= (byte & 0x7F) << shift
        byte = buffer[position]
    except IndexError:
        raise EncodingError("the bytes end inside an integer") from None
    if byte > 1:
        raise EncodingError("an integer does not fit in 64 bits")
    return value | byte << _LAST_SHIFT, position + 1


def encode_zigzag(value: int) -> bytes:
    """Encode a signed 64-bit integer as LEB128, with the sign in the lowest bit.

    For example, 1 is ``02``, and -1 is ``01``.
    """
    if not _MIN_INT64 <= value <= _MAX_INT64:
        raise EncodingError(f"{value} does not fit in 64 bits with a sign")
    return encode_uvarint(value << 1 if value >= 0 else ~value << 1 | 1)


def decode_zigzag(buffer: bytes, position: int) -> tuple[int, int]:
    """Undo `encode_zigzag`. Raises as `decode_uvarint`."""
    if position < len(buffer) and (byte := buffer[position]) < _LONG:
        return (byte >> 1) ^ -(byte & 1), position + 1
    value, end = decode_uvarint(buffer, position)
    return (value >> 1) ^ -(value & 1), end


def encode_length(value: int) -> bytes:
    """Encode an unsigned 64-bit integer in base 128, most significant group first."""
    if value <= 0x7F:
        return bytes((value,))
    groups = [value & 0x7F]
    while value := value >> 7:
        groups.append(value & 0x7F | 0x80)
    return bytes(reversed(groups))


def decode_length(buffer: bytes, position: int) -> tuple[int, int]:
    """Undo `encode_length`. Raises `EncodingError` when truncated, or beyond 64 bits or ten bytes."""
    try:
        value = buffer[position]
        position += 1
        if value < _LONG:
            return value, position
        value &= 0x7F
        for _ in _FURTHER_GROUPS:
            byte = buffer[position]
            position += 1
            if byte < 0x80:
                value = value << 7 | byte
                break
            value = value << 7 | byte & 0x7F
        else:
            raise EncodingError("a tag or length has more than ten bytes")
    except IndexError:
        raise EncodingError("the bytes end inside a tag or length") from None
    if value >= 2**64:
        raise EncodingError("a tag or length does not fit in 64 bits")
    return value, position
