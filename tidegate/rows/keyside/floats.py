"""Floats in keys: a marker by sign, then the IEEE 754 bits, complemented for negative numbers.

Both zeros share one form; only the row's value keeps the sign of a negative zero. Source: CockroachDB
pkg/util/encoding/float.go.
"""

from __future__ import annotations

import math
import struct
from typing import Final

from tidegate.errors import EncodingError
from tidegate.rows.keyside.byte_strings import COMPLEMENT
from tidegate.rows.take import marker_at, take

NAN_ASC: Final = 0x02
NEGATIVE: Final = 0x03
ZERO: Final = 0x04
POSITIVE: Final = 0x05
NAN_DESC: Final = 0x06

_BITS: Final = struct.Struct(">d")


def encode_float_asc(value: float) -> bytes:
    """Encode a float so that smaller numbers sort first, and NaN before all numbers."""
    return _encode(value, NAN_ASC)


def encode_float_desc(value: float) -> bytes:
    """Encode a float so that larger numbers sort first, and NaN after all numbers."""
    return _encode(-value, NAN_DESC)


def decode_float_asc(buffer: bytes, position: int) -> tuple[float, int]:
    """Undo `encode_float_asc`. Raises `EncodingError` for bytes that are truncated or no float."""
    marker = marker_at(buffer, position)
    if marker == ZERO:
        return 0.0, position + 1
    if marker in (NAN_ASC, NAN_DESC):
        return math.nan, position + 1
    if marker not in (NEGATIVE, POSITIVE):
        raise EncodingError(f"byte 0x{marker:02x} at offset {position} does not begin a float")
    bits, end = take(buffer, position + 1, 8)
    if marker == NEGATIVE:
        bits = bits.translate(COMPLEMENT)
    return _BITS.unpack(bits)[0], end


def decode_float_desc(buffer: bytes, position: int) -> tuple[float, int]:
    """Undo `encode_float_desc`. Raises as `decode_float_asc`."""
    value, end = decode_float_asc(buffer, position)
    return 0.0 - value, end  # subtracted, so that zero stays positive


def _encode(value: float, nan: int) -> bytes:
    if value == 0:
        return bytes((ZERO,))
    if math.isnan(value):
        return bytes((nan,))
    bits = _BITS.pack(value)
    if value > 0:
        return bytes((POSITIVE,)) + bits
    return bytes((NEGATIVE,)) + bits.translate(COMPLEMENT)
