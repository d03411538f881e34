"""Converts datums to the values that Connect's schemas describe.

A datum that has no such value raises ``RowError``, and the feed fails. Apart from rounding (FLOAT4 to 32
bits, timestamps to microseconds) no datum becomes another value.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import Any, Final

from tidegate.changefeed.text.datum_text import timestamptz_text, timetz_text
from tidegate.changefeed.text.json_text import decimal_text, json_value
from tidegate.changefeed.text.row_bytes import ROW_BYTES_MAX, too_large
from tidegate.changefeed.text.unscaled import DIGITS_MAX, Unscaler
from tidegate.errors import RowError
from tidegate.rows.types import Json, TimeTz

_NANOS_PER_MICRO: Final = 1000
_FLOAT32: Final = struct.Struct("<f")  # the native form would make an infinity of a large number
_INT32: Final = range(-(2**31), 2**31)
_INT64: Final = range(-(2**63), 2**63)
_EXACT: Final = Context(prec=MAX_PREC, Emin=MIN_EMIN, Emax=MAX_EMAX)
_MOST_PADDING: Final = 100
#: 4714-11-24 BC and 294276-12-31, the bounds of CockroachDB and PostgreSQL. The bounds themselves mean
#: infinity.
_FIRST_NANOS: Final = -210_866_803_200_000_000_000
_LAST_NANOS: Final = 9_224_318_015_999_999_000_000
_FIRST_FIVE_DIGIT_YEAR_NANOS: Final = 253_402_300_800_000_000_000


class BoundedInt:
    """Checks integers of a declared width in bits."""

    __slots__ = ("_bits", "_range")

    def __init__(self, bits: int) -> None:
        self._bits = bits
        self._range = range(-(2 ** (bits - 1)), 2 ** (bits - 1))

    def __call__(self, value: int) -> int:
        if value not in self._range:
            raise RowError(f"{value} does not fit the column's {self._bits} bits")
        return value


def float32(value: float) -> float:
    """Return the nearest 32-bit number."""
    try:
        nearest: float = _FLOAT32.unpack(_FLOAT32.pack(value))[0]
    except OverflowError:
        raise RowError(f"{value} does not fit the column's 32 bits") from None
    return nearest


class UnscaledDecimal:
    """Converts decimals of a declared precision and scale: the digits as a whole number in big-endian bytes.

    For example, with a scale of 2 the decimal 1.5 is 150, which is ``0096``. Source:
    ``org.apache.kafka.connect.data.Decimal``, which keeps ``BigInteger.toByteArray()``: as few bytes as hold
    the number and its sign.
    """

    __slots__ = ("_precision", "_scale", "_unscaled")

    def __init__(self, precision: int, scale: int) -> None:
        self._precision, self._scale = precision, scale
        self._unscaled = Unscaler(precision, scale, cuts_zeros=True)

    def __call__(self, value: Decimal) -> bytes:
        if not value.is_finite():
            raise RowError(f"{value} has no place in a DECIMAL of Kafka Connect")
        unscaled = self._unscaled(value)
        if unscaled is None:
            raise RowError(
                f"{value} does not fit DECIMAL({self._precision},{self._scale}), or needs more than "
                f"{DIGITS_MAX} digits"
            )
        bits = (unscaled if unscaled >= 0 else ~unscaled).bit_length()
        return unscaled.to_bytes(bits // 8 + 1, "big", signed=True)


def decimal_string(value: Decimal) -> str:
    """Return a decimal without a declared scale as SQL prints it; also ``NaN``, ``Infinity`` and
    ``-Infinity``.
    """
    return decimal_text(value).strip('"')


def key_decimal_string(value: Decimal) -> str:
    """Return a decimal in a key: equal numbers have the same text, ``1.5`` for 1.50 too, ``100`` for 1E+2.

    A deletion's key does not have the trailing zeros that the row was written with.
    """
    if not value.is_finite():
        return str(value)
    if not value:
        return "0"
    reduced = _EXACT.normalize(value)
    exponent = reduced.as_tuple().exponent
    assert isinstance(exponent, int)
    return f"{reduced:f}" if abs(exponent) <= _MOST_PADDING else str(reduced)


def key_float(value: float) -> float:
    """Return a number in a key without a negative zero, which a deletion's key does not have."""
    return value + 0.0


def days(value: int) -> int:
    """Return days since 1970-01-01. Raises ``RowError`` for the infinite dates."""
    if value not in _INT32:
        raise RowError("an infinite date has no place in a date of Kafka Connect")
    return value


def micros(nanos: int) -> int:
    """Return microseconds since 1970-01-01, rounded down.

    Raises ``RowError`` for infinity, and for microseconds that do not fit 64 bits.
    """
    value = _require_finite(nanos) // _NANOS_PER_MICRO
    if value not in _INT64:
        raise RowError("a timestamp after the year 294247 has no place in 64 bits of microseconds")
    return value


def zoned_timestamp(nanos: int) -> str:
    """Return a time in UTC: ``2025-05-09T21:20:29Z``.

    ISO 8601 has a plus sign before years of five digits.
    """
    text = timestamptz_text(_require_finite(nanos))
    return f"+{text}" if nanos >= _FIRST_FIVE_DIGIT_YEAR_NANOS else text


def _require_finite(nanos: int) -> int:
    if not _FIRST_NANOS < nanos < _LAST_NANOS:
        raise RowError(
            "a timestamp outside of the years -4713 to 294276, or infinity, has no place in a sink"
        )
    return nanos


def zoned_time(value: TimeTz) -> str:
    """Return a time of day with its offset: ``03:04:05.5+02:00``, and ``Z`` for an offset of zero."""
    if not value.offset_seconds:
        return timetz_text(value).replace("+00:00:00", "Z")
    return timetz_text(value).removesuffix(":00")


def json_string_of(datum: Json) -> str:
    """Return a JSONB value as text."""
    return json_value(datum.value)


def hex_string(value: bytes) -> str:
    r"""Return bytes as SQL writes them in hexadecimal: ``\x666f6f``."""
    return f"\\x{value.hex()}"


class Items:
    """Converts arrays, item by item; NULL items stay."""

    __slots__ = ("_convert",)

    def __init__(self, convert: Callable[[Any], Any]) -> None:
        self._convert = convert

    def __call__(self, value: tuple[Any, ...]) -> list[Any]:
        """Return the items. Raises ``RowError`` as soon as they have too many bytes (`row_bytes`)."""
        convert, room = self._convert, ROW_BYTES_MAX
        items: list[Any] = []
        for each in value:
            item = None if each is None else convert(each)
            if isinstance(item, str | bytes):
                room -= len(item)
                if room < 0:
                    raise too_large("an array of it")
            items.append(item)
        return items
