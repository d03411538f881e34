"""The values that columns have in expressions: those of their SQL types, however a feed writes them.

A feed in JSON writes the FLOAT 5.0 as ``5``, which is read as an integer, and NaN as a text. Other types have
in expressions the values that the feed gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final, TypeAlias

from tidegate.errors import EvaluationError
from tidegate.rows.types import Kind, SqlType
from tidegate.subscribe.query.casts import numeric

#: A value as a feed gives it, which is not NULL -> the value in expressions. Raises ``EvaluationError``.
Read: TypeAlias = Callable[[Any], Any]


def unreadable(value: Any, kind: Kind) -> EvaluationError:
    """Return the error for a value that is none of its column's type."""
    return EvaluationError(f"a column of type {kind.value} has the value {value!r:.60}, which is none")


def _float(value: Any) -> float:
    if type(value) is float:
        return value
    try:
        return float(value)
    except (ValueError, TypeError, OverflowError):
        raise unreadable(value, Kind.FLOAT) from None


def _decimal(value: Any) -> Decimal:
    if type(value) is Decimal:
        return value
    try:
        return numeric(value)
    except (ValueError, TypeError, InvalidOperation):
        raise unreadable(value, Kind.DECIMAL) from None


_NUMBERS: Final[Mapping[Kind, Read]] = {Kind.FLOAT: _float, Kind.DECIMAL: _decimal}


def number_reader(sql_type: SqlType | None) -> Read | None:
    """Return the function that reads a column's values; ``None`` where they are as the feed gives them."""
    return None if sql_type is None else _NUMBERS.get(sql_type.kind)


def order_reader(sql_type: SqlType | None) -> Read | None:
    """Return the function that makes of a column's value what it is sorted by; ``None`` for the value."""
    return number_reader(sql_type)
