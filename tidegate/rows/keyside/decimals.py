"""Decimals in keys: 0.m * 100^E, with the exponent in the marker and m as base-100 digits.

A digit c is written as the byte 2c+1, and the last digit as 2c, so that a shorter mantissa sorts first. The
byte 00 ends the mantissa. For example, 1.5 is 0.0150 * 100^1: marker 2a (E = 1), digits 01 and 50 as 03 and
64, then 00. For negative numbers the digit bytes are complemented, and the order of exponents is reversed.
The scale is not kept: 10, 10.0 and 1E+1 share one key. Source: CockroachDB pkg/util/encoding/decimal.go.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from tidegate.errors import EncodingError
from tidegate.rows.keyside.byte_strings import COMPLEMENT
from tidegate.rows.keyside.integers import (
    decode_uvarint_asc,
    decode_uvarint_desc,
    encode_uvarint_asc,
    encode_uvarint_desc,
)
from tidegate.rows.take import marker_at

NAN_ASC: Final = 0x18
NEGATIVE_INFINITY: Final = 0x19
NEGATIVE_LARGE: Final = 0x1A
NEGATIVE_UNIT: Final = 0x25  # E = 0; E = 10 is 0x1b
NEGATIVE_SMALL: Final = 0x26
ZERO: Final = 0x27
POSITIVE_SMALL: Final = 0x28
POSITIVE_UNIT: Final = 0x29  # E = 0; E = 10 is 0x33
POSITIVE_LARGE: Final = 0x34
INFINITY: Final = 0x35
NAN_DESC: Final = 0x36
MARKERS: Final = range(NAN_ASC, NAN_DESC + 1)

#: Writer and reader refuse larger exponents. CockroachDB's own limit is far lower (apd, 100,000).
MAX_EXPONENT: Final = 2_000_000_000
_MAX_INLINE_EXPONENT: Final = 10
_TERMINATOR: Final = b"\x00"


def encode_decimal_asc(value: Decimal) -> bytes:
    """Encode a decimal so that smaller numbers sort first, and NaN before all numbers."""
    if value.is_nan():
        return bytes((NAN_ASC,))
    return _encode(value)


def encode_decimal_desc(value: Decimal) -> bytes:
    """Encode a decimal so that larger numbers sort first, and NaN after all numbers."""
    if value.is_nan():
        return bytes((NAN_DESC,))
    return _encode(value.copy_negate())


def decode_decimal_asc(buffer: bytes, position: int) -> tuple[Decimal, int]:
    """Undo `encode_decimal_asc`. The number has no trailing zeros. Raises `EncodingError` when malformed."""
    marker = marker_at(buffer, position)
    special = _SPECIAL.get(marker)
    if special is not None:
        return special, position + 1
    exponent, start = _decode_exponent(marker, buffer, position)
    end = buffer.find(_TERMINATOR, start)
    if end < 0:
        raise EncodingError(f"the decimal at offset {position} has no terminator")
    mantissa = buffer[start:end]
    if marker < ZERO:
        return number_of("-", exponent, mantissa.translate(COMPLEMENT)), end + 1
    return number_of("", exponent, mantissa), end + 1


def decode_decimal_desc(buffer: bytes, position: int) -> tuple[Decimal, int]:
    """Undo `encode_decimal_desc`. Raises as `decode_decimal_asc`."""
    value, end = decode_decimal_asc(buffer, position)
    unsigned = not value or value.is_nan()
    return (value if unsigned else value.copy_negate()), end


def mantissa_of(value: Decimal) -> tuple[int, bytes]:
    """Return (E, base-100 digit bytes) of a finite number other than zero, whatever its sign."""
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits))
    point = exponent + len(text)  # the value is 0.text * 10^point
    if abs(point) > MAX_EXPONENT:
        raise EncodingError(f"a decimal with exponent {exponent} is beyond the encoding")
    text = text.rstrip("0")
    if point % 2:
        text = "0" + text
    if len(text) % 2:
        text += "0"
    body = bytearray(2 * int(text[i : i + 2]) + 1 for i in range(0, len(text), 2))
    body[-1] -= 1
    return (point + 1) // 2 if point >= 0 else -(-point // 2), bytes(body)


def number_of(sign: str, exponent: int, mantissa: bytes) -> Decimal:
    """Undo `mantissa_of`; ``sign`` is empty or a minus. Raises `EncodingError` for malformed digits."""
    if not mantissa or not mantissa[-1] or mantissa[-1] % 2 or any(byte % 2 == 0 for byte in mantissa[:-1]):
        raise EncodingError(f"a decimal's digits are malformed ({mantissa.hex()})")
    if max(mantissa) > 2 * 99 + 1 or abs(exponent) > MAX_EXPONENT // 2:
        raise EncodingError(f"a decimal's digit or exponent is out of range ({mantissa.hex()}, {exponent})")
    text = "".join(f"{byte >> 1:02d}" for byte in mantissa)
    significant = text.rstrip("0") or "0"
    return Decimal(f"{sign}{significant}E{2 * exponent - len(significant)}")


_SPECIAL: Final = {
    NAN_ASC: Decimal("NaN"),
    NAN_DESC: Decimal("NaN"),
    NEGATIVE_INFINITY: Decimal("-Infinity"),
    INFINITY: Decimal("Infinity"),
    ZERO: Decimal(0),
}


def _encode(value: Decimal) -> bytes:
    if value.is_infinite():
        return bytes((NEGATIVE_INFINITY if value.is_signed() else INFINITY,))
    if not value:
        return bytes((ZERO,))
    exponent, mantissa = mantissa_of(value)
    if value.is_signed():
        return _negative_exponent(exponent) + mantissa.translate(COMPLEMENT) + _TERMINATOR
    return _positive_exponent(exponent) + mantissa + _TERMINATOR


def _positive_exponent(exponent: int) -> bytes:
    if exponent < 0:
        return bytes((POSITIVE_SMALL,)) + encode_uvarint_desc(-exponent)
    if exponent <= _MAX_INLINE_EXPONENT:
        return bytes((POSITIVE_UNIT + exponent,))
    return bytes((POSITIVE_LARGE,)) + encode_uvarint_asc(exponent)


def _negative_exponent(exponent: int) -> bytes:
    if exponent < 0:
        return bytes((NEGATIVE_SMALL,)) + encode_uvarint_asc(-exponent)
    if exponent <= _MAX_INLINE_EXPONENT:
        return bytes((NEGATIVE_UNIT - exponent,))
    return bytes((NEGATIVE_LARGE,)) + encode_uvarint_desc(exponent)


def _decode_exponent(marker: int, buffer: bytes, position: int) -> tuple[int, int]:
    """Return E, and the position where the mantissa begins."""
    start = position + 1
    if POSITIVE_UNIT <= marker < POSITIVE_LARGE:
        return marker - POSITIVE_UNIT, start
    if NEGATIVE_LARGE < marker <= NEGATIVE_UNIT:
        return NEGATIVE_UNIT - marker, start
    if marker == POSITIVE_LARGE:
        return decode_uvarint_asc(buffer, start)
    if marker == NEGATIVE_LARGE:
        return decode_uvarint_desc(buffer, start)
    if marker == POSITIVE_SMALL:
        magnitude, start = decode_uvarint_desc(buffer, start)
    elif marker == NEGATIVE_SMALL:
        magnitude, start = decode_uvarint_asc(buffer, start)
    else:
        raise EncodingError(f"byte 0x{marker:02x} at offset {position} does not begin a decimal")
    return -magnitude, start
