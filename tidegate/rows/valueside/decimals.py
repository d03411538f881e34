"""Decimals in values: sign, exponent and coefficient. Trailing zeros of the coefficient keep the scale.

The number is 0.digits * 10^e, where e = exponent + digit count. For example, 1.50 is 0.150 * 10^1: marker 34
(positive, e above 0), e as ``89``, the coefficient 150 as ``96``. The coefficient has no length of its own:
it goes to the end of the bytes. Source: CockroachDB pkg/util/encoding/decimal.go (non-sorting decimals).
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from tidegate.errors import EncodingError
from tidegate.rows.keyside.decimals import (
    INFINITY,
    MAX_EXPONENT,
    NAN_ASC,
    NEGATIVE_INFINITY,
    NEGATIVE_LARGE,
    NEGATIVE_SMALL,
    NEGATIVE_UNIT,
    POSITIVE_LARGE,
    POSITIVE_SMALL,
    POSITIVE_UNIT,
    ZERO,
)
from tidegate.rows.keyside.integers import decode_uvarint_asc, encode_uvarint_asc
from tidegate.rows.take import marker_at, take
from tidegate.rows.valueside.varints import decode_uvarint, encode_uvarint

#: The most bytes of a coefficient. Python refuses to turn longer integers into text
#: (sys.set_int_max_str_digits). Real decimals are far shorter. Without the bound, hostile input could take
#: quadratic time.
_MAX_COEFFICIENT_BYTES: Final = 1700

_SPECIAL: Final = {
    NAN_ASC: Decimal("NaN"),
    NEGATIVE_INFINITY: Decimal("-Infinity"),
    INFINITY: Decimal("Infinity"),
    ZERO: Decimal(0),
}
#: Marker -> (sign of the number, sign of e).
_SIGNS: Final = {
    NEGATIVE_LARGE: ("-", 1),
    NEGATIVE_UNIT: ("-", 0),
    NEGATIVE_SMALL: ("-", -1),
    POSITIVE_SMALL: ("", -1),
    POSITIVE_UNIT: ("", 0),
    POSITIVE_LARGE: ("", 1),
}


def encode_decimal_body(value: Decimal) -> bytes:
    """Encode a decimal without a length."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return _encode_special(value)
    if not value and not sign and exponent == 0:
        return bytes((ZERO,))
    point = exponent + len(digits)
    if abs(point) > MAX_EXPONENT:
        raise EncodingError(f"a decimal with exponent {exponent} is beyond the encoding")
    coefficient = int("".join(map(str, digits)))
    return _encode_point(bool(sign), point) + coefficient.to_bytes((coefficient.bit_length() + 7) // 8, "big")


def decode_decimal_body(body: bytes) -> Decimal:
    """Undo `encode_decimal_body`; ``body`` holds nothing else.

    Raises `EncodingError` when malformed.
    """
    marker = marker_at(body, 0)
    signs = _SIGNS.get(marker)
    if signs is None:
        return _decode_special(marker, body)
    sign, direction = signs
    point, start = decode_uvarint_asc(body, 1) if direction else (0, 1)
    if point > MAX_EXPONENT or len(body) - start > _MAX_COEFFICIENT_BYTES:
        raise EncodingError(
            f"a decimal of {len(body)} bytes with exponent {direction * point} is out of range"
        )
    digits = str(int.from_bytes(body[start:], "big"))
    return Decimal(f"{sign}{digits}E{direction * point - len(digits)}")


def encode_decimal(value: Decimal) -> bytes:
    """Encode a decimal after its length, which is the form of a datum."""
    body = encode_decimal_body(value)
    return encode_uvarint(len(body)) + body


def decode_decimal(buffer: bytes, position: int) -> tuple[Decimal, int]:
    """Undo `encode_decimal`. Raises `EncodingError` when truncated or malformed."""
    size, start = decode_uvarint(buffer, position)
    body, end = take(buffer, start, size)
    return decode_decimal_body(body), end


def _encode_point(negative: bool, point: int) -> bytes:
    if point == 0:
        return bytes((NEGATIVE_UNIT if negative else POSITIVE_UNIT,))
    if point > 0:
        marker = NEGATIVE_LARGE if negative else POSITIVE_LARGE
    else:
        marker = NEGATIVE_SMALL if negative else POSITIVE_SMALL
    return bytes((marker,)) + encode_uvarint_asc(abs(point))


def _encode_special(value: Decimal) -> bytes:
    if value.is_nan():
        return bytes((NAN_ASC,))
    return bytes((NEGATIVE_INFINITY if value.is_signed() else INFINITY,))


def _decode_special(marker: int, body: bytes) -> Decimal:
    value = _SPECIAL.get(marker)
    if value is None or len(body) != 1:
        raise EncodingError(f"0x{body.hex()} is not a decimal")
    return value
