"""Casts: a value in another type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal, InvalidOperation
from math import isinf
from typing import Any, Final

from tidegate.errors import EvaluationError
from tidegate.subscribe.query.arithmetic import MOST_BITS, as_float, type_name
from tidegate.subscribe.query.shown_bytes import bounded_text
from tidegate.subscribe.text.number_text import number_text
from tidegate.subscribe.text.row_text import plain_text

_TRUTHS: Final = {
    **dict.fromkeys(("true", "t", "yes", "y", "on", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "off", "0"), False),
}


#: The types of texts. A cast of a text to one of them gives the same text.
TEXT_TYPES: Final = ("string", "text", "varchar")

#: No integer of ``MOST_BITS`` has so many digits.
_MOST_INTEGER_DIGITS: Final = MOST_BITS // 3
#: Digits that PostgreSQL's numeric has at most on either side of the point.
_MOST_DIGITS: Final = 131_072
_NAN: Final = Decimal("NaN")


def _written_out(value: Decimal) -> Decimal:
    """Return a number if all its digits can be written.

    Raises ``OverflowError`` for other numbers: 1E+999999999 has a gigabyte of digits.
    """
    if value.is_finite() and value and max(value.adjusted(), -int(value.as_tuple().exponent)) > _MOST_DIGITS:
        raise OverflowError
    return value


def _integer(value: Any) -> int:
    if isinstance(value, str):
        number = int(_plain_digits(value))
    elif isinstance(value, float):
        number = int(Decimal(value).to_integral_value(ROUND_HALF_EVEN))
    elif isinstance(value, Decimal):
        if value.is_finite() and value.adjusted() > _MOST_INTEGER_DIGITS:
            raise _out_of_range()
        number = int(_written_out(value).to_integral_value(ROUND_HALF_UP))
    else:
        number = int(value)
    if number.bit_length() > MOST_BITS:
        raise _out_of_range()
    return number


def _plain_digits(text: str) -> str:
    """Return a text that may be a number. Raises ``ValueError`` if only Python would read it as a number.

    Examples of such texts: ``1_000``, and digits of other scripts.
    """
    if "_" in text or not text.isascii():
        raise ValueError
    return text


def _out_of_range() -> EvaluationError:
    """Return the error, without the integer: Python prints integers of up to 4,300 digits only."""
    return EvaluationError(f"integer out of range: an integer has up to {MOST_BITS:,} bits")


def _boolean(value: Any) -> bool:
    return _TRUTHS[value.strip().lower()] if isinstance(value, str) else bool(value)


def numeric(value: Any) -> Decimal:
    """Return a decimal. A NaN has no sign and no digits, as in PostgreSQL; a float has its shortest digits.

    Raises ``ValueError`` for a signaling NaN: decimals cannot be compared with it.
    """
    if isinstance(value, str):
        value = _plain_digits(value)
    number = Decimal(repr(value) if isinstance(value, float) else value)
    if number.is_snan():
        raise ValueError
    return _NAN if number.is_nan() else number


def _float(value: Any) -> float:
    if not isinstance(value, str):
        return as_float(value)
    number = float(_plain_digits(value))
    if isinf(number) and "inf" not in value.lower():
        raise OverflowError
    return number


def _text(value: Any) -> str:
    """Return a value's text: that of a JSON feed, except that a decimal never has an exponent."""
    match value:
        case str():
            return value
        case Decimal():
            return format(_written_out(value), "f")
        case float():
            return number_text(value).removesuffix(".0")
    return bounded_text(plain_text(value))


_CASTS: Final[Mapping[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(("bigint", "int", "int2", "int4", "int8", "integer", "smallint"), _integer),
    **dict.fromkeys(TEXT_TYPES, _text),
    **dict.fromkeys(("dec", "decimal", "numeric"), numeric),
    **dict.fromkeys(("double", "float", "float4", "float8", "real"), _float),
    **dict.fromkeys(("bool", "boolean"), _boolean),
}
CAST_TYPES: Final = frozenset(_CASTS)


def cast(value: Any, sql_type: str) -> Any:
    """Return the value in that type; NULL stays NULL.

    Raises ``EvaluationError`` for a value that has no form in that type.
    """
    if value is None:
        return None
    try:
        return _CASTS[sql_type](value)
    except (ValueError, KeyError, TypeError, InvalidOperation, OverflowError):
        raise EvaluationError(
            f"invalid input syntax for type {sql_type}: a {type_name(value)}, {value!r:.60}"
        ) from None
