"""Arithmetic of expressions: integers stay integers, decimals are exact, and a float gives a float.

Division of integers drops the fraction, and a remainder has the sign of the dividend, as in PostgreSQL.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_EVEN, Context, Decimal, DecimalException
from functools import cache
from typing import Any, Final, TypeAlias

from tidegate.errors import EvaluationError, brief

Number: TypeAlias = int | float | Decimal

#: More digits than sums and products of columns have.
_MOST_DIGITS: Final = 2_000
_EXACT: Final = Context(prec=_MOST_DIGITS, rounding=ROUND_HALF_EVEN)
#: The digits of a quotient after those of its whole part.
_QUOTIENT_DIGITS: Final = 38
#: The most bits of an integer; products of products would grow without end.
MOST_BITS: Final = 4_096
#: Characters of a number that an error shows.
_SHOWN_CHARACTERS: Final = 60
_NAN: Final = Decimal("NaN")


def _quotient(left: Any, right: Any) -> Any:
    if isinstance(left, int):
        cut = abs(left) // abs(right)
        return cut if (left < 0) == (right < 0) else -cut
    return _decimal_quotient(left, right) if isinstance(left, Decimal) else left / right


def _decimal_quotient(left: Decimal, right: Decimal) -> Decimal:
    whole_digits = min(max(left.adjusted() - right.adjusted(), 0), _MOST_DIGITS - _QUOTIENT_DIGITS)
    return _quotients(_QUOTIENT_DIGITS + whole_digits).divide(left, right)


@cache
def _quotients(digits: int) -> Context:
    return Context(prec=digits, rounding=ROUND_HALF_EVEN)


def _remainder(left: Any, right: Any) -> Any:
    if isinstance(left, int):
        return left - right * _quotient(left, right)
    return _EXACT.remainder(left, right) if isinstance(left, Decimal) else math.fmod(left, right)


_DECIMAL: Final[Mapping[str, Callable[[Decimal, Decimal], Decimal]]] = {
    "+": _EXACT.add,
    "-": _EXACT.subtract,
    "*": _EXACT.multiply,
}
_PLAIN: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": _quotient,
    "%": _remainder,
}
ARITHMETIC: Final = frozenset(_PLAIN)


def calculate(operator: str, left: Any, right: Any) -> Number:
    """Return ``left operator right``.

    Raises ``EvaluationError`` for values that are no numbers, for division by zero, and for a result that is
    out of range.
    """
    if not is_number(left) or not is_number(right):
        raise EvaluationError(f"operator does not exist: {type_name(left)} {operator} {type_name(right)}")
    if operator in "/%" and right == 0 and left == left:
        raise EvaluationError("division by zero")
    try:
        left, right = _alike(left, right)
        if not _has_value(operator, left, right):
            return _NAN if isinstance(left, Decimal) else math.nan
        by_decimal = _DECIMAL.get(operator) if isinstance(left, Decimal) else None
        result: Number = (by_decimal or _PLAIN[operator])(left, right)
    except (DecimalException, OverflowError, ValueError) as error:
        shown = f"{_shown(left)} {operator} {_shown(right)}"
        raise EvaluationError(f"{shown} has no value: {type(error).__name__}") from None
    if isinstance(result, int) and result.bit_length() > MOST_BITS:
        raise EvaluationError(f"the result of {operator} is out of range")
    if isinstance(result, float) and math.isinf(result) and _is_finite(left) and _is_finite(right):
        raise EvaluationError(f"the result of {operator} is out of range")
    return result


def _has_value(operator: str, left: Any, right: Any) -> bool:
    """Whether the result is not NaN. It is NaN if an operand is, and for some infinities, as in oo - oo."""
    if type(left) is int or (_is_finite(left) and _is_finite(right)):
        return True
    if left != left or right != right:
        return False
    one, other = _is_finite(left), _is_finite(right)
    match operator:
        case "+":
            return one or other or bool(left == right)
        case "-":
            return one or other or bool(left != right)
        case "*":
            return bool(left) and bool(right)
        case "/":
            return one or other
    return one


def _is_finite(number: Any) -> bool:
    return number.is_finite() if isinstance(number, Decimal) else math.isfinite(number)


def _shown(value: Any) -> str:
    """Return a number as text for an error. Python prints no integer of more than 4,300 digits."""
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        return f"a number of {value.bit_length()} bits"
    return brief(str(value), _SHOWN_CHARACTERS)


def is_number(value: Any) -> bool:
    """Whether a value is a number. Truth values are not numbers."""
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _alike(left: Any, right: Any) -> tuple[Any, Any]:
    if isinstance(left, float) or isinstance(right, float):
        return as_float(left), as_float(right)
    if isinstance(left, Decimal) or isinstance(right, Decimal):
        return Decimal(left), Decimal(right)
    return left, right


def as_float(number: int | float | Decimal) -> float:
    """Return a number as a float. Raises ``OverflowError`` for a finite number that is beyond all floats."""
    result = float(number)
    if math.isinf(result) and _is_finite(number):
        raise OverflowError
    return result


def type_name(value: Any) -> str:
    """Return the SQL name of a value's type, for errors."""
    match value:
        case bool():
            return "boolean"
        case int():
            return "bigint"
        case float():
            return "double precision"
        case Decimal():
            return "numeric"
        case str():
            return "text"
    return type(value).__name__
