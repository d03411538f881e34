"""Writes floats as the shortest text that reads back as the same number, in the layouts of Go's strconv.

Source: Go's ``strconv.FormatFloat`` with precision -1.
"""

from __future__ import annotations

import math
import struct
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import lru_cache
from typing import Final

_FLOAT32: Final = struct.Struct("<f")
_FLOAT32_DIGITS: Final = 9  # enough to distinguish any two 32-bit numbers
_SURE_DIGITS: Final = 6  # any two decimals with so many digits are distinct 32-bit numbers
_LEAST_NORMAL32: Final = 2.0**-126
_SHORT_FROM: Final = 2.0**-14  # a number below it has more than ten digits if written exactly: at least 5**15
_POWERS_OF_TWO: Final = 554  # all 32-bit numbers that are powers of two, of both signs
_POWER_OF_TWO: Final = 0.5  # mantissa of a power of two: the numbers below it are closer than those above


def general_text(value: float) -> str:
    """Return layout ``g``: with an exponent below 1e-4 and from 1e6 on (``1e+06``)."""
    return _general(Decimal(repr(value)), value) if math.isfinite(value) else _not_finite(value)


def general_text32(value: float) -> str:
    """Return layout ``g`` of a 32-bit number, with as few digits as set it apart from other such numbers."""
    return _general(_shortest32(value), value) if math.isfinite(value) else _not_finite(value)


def plain_text(value: float) -> str:
    """Return layout ``f``: without an exponent, and without a point if there is no fraction."""
    if not math.isfinite(value):
        return _not_finite(value)
    text = repr(value)
    return f"{Decimal(text):f}" if "e" in text else text.removesuffix(".0")


def _not_finite(value: float) -> str:
    return {"inf": "+Inf", "-inf": "-Inf"}.get(str(value), "NaN")


def _general(shortest: Decimal, value: float) -> str:
    sign, digits, exponent = shortest.normalize().as_tuple()
    assert isinstance(exponent, int), value
    point = len(digits) + exponent - 1
    if -4 <= point < 6:
        return format(Decimal((sign, digits, exponent)), "f")
    text = "".join(map(str, digits))
    mantissa = text[0] + ("." + text[1:] if len(text) > 1 else "")
    return f"{'-' if sign else ''}{mantissa}e{'-' if point < 0 else '+'}{abs(point):02d}"


def _shortest32(value: float) -> Decimal:
    """Return the shortest decimal that reads back as ``value``. If there are several, return the nearest one.

    Any two decimals of up to six digits are distinct numbers. So the search begins with six digits: a shorter
    decimal is found there too, with zeros at its end. Below the least normal number this does not hold, and
    the search begins with one digit. If the numbers around ``value`` are evenly spaced, only the nearest
    decimal of each length has to be tried.
    """
    if value == 0:
        return _shortest_of_two(value)
    if abs(math.frexp(value)[0]) == _POWER_OF_TWO:
        return _of_power_of_two(value)
    first = 1 if abs(value) < _LEAST_NORMAL32 else _SURE_DIGITS
    for digits in range(first, _FLOAT32_DIGITS):
        text = f"{value:.{digits - 1}e}"
        if _as_float32(float(text)) == value:
            near = Decimal(text)
            is_short = abs(value) >= _SHORT_FROM  # another decimal may be as near
            is_between = is_short and Decimal(f"{value:.{digits}e}") == value != near
            return _shortest_of_two(value) if is_between else near
    return Decimal(f"{value:.{_FLOAT32_DIGITS - 1}e}")


@lru_cache(_POWERS_OF_TWO)
def _of_power_of_two(value: float) -> Decimal:
    return _shortest_of_two(value)


def _shortest_of_two(value: float) -> Decimal:
    exact = Decimal(value)
    for digits in range(1, _FLOAT32_DIGITS):
        # The decimals below and above are both tried: the nearer one may not read back, while the other does.
        near = [Context(prec=digits, rounding=way).plus(exact) for way in (ROUND_FLOOR, ROUND_CEILING)]
        good = [decimal for decimal in near if _as_float32(float(decimal)) == value]
        if good:
            return min(good, key=lambda decimal: abs(decimal - exact))
    return Context(prec=_FLOAT32_DIGITS).plus(exact)


def _as_float32(number: float) -> float:
    try:
        nearest: float = _FLOAT32.unpack(_FLOAT32.pack(number))[0]
    except OverflowError:
        return math.inf
    return nearest
