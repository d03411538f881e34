"""The timestamps of AS OF and UP TO.

| form | example |
|---|---|
| HLC decimal, as a number or a text | ``1536242855577149065.0000000002`` |
| nanoseconds since 1970 | ``1536242855577149065`` |
| timestamp, of SQL or RFC 3339 | ``'2018-09-06 14:07:35.577149+00:00'`` |
| time before now | ``'-1h'`` |
| now | ``now()``, ``mz_now()`` |
| whole numbers with ``+``, ``-`` and ``*`` | ``1536242855577149065 - 1000`` |

A cast around one of these forms changes nothing. The text forms are those of a feed's ``cursor``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from operator import add, mul, neg, sub
from typing import Final

from tidegate.changefeed.statement.cursor import read_cursor
from tidegate.errors import StatementError
from tidegate.hlc import MAX, MAX_LOGICAL, Timestamp
from tidegate.subscribe.statement.expression import Constant, Expression, Operation
from tidegate.subscribe.statement.faults import StatementFault
from tidegate.subscribe.statement.statement import BoundClause

_LOGICAL_DIGITS: Final = 10
_DECIMAL: Final = re.compile(r"(?P<wall>\d{1,19})(?:\.(?P<logical>\d{1,10}))?", re.ASCII)
_ARITHMETIC: Final[Mapping[str, Callable[..., int]]] = {"+": add, "-": sub, "*": mul, "neg": neg}
_NOW: Final = frozenset({"now", "mz_now"})


def bound_time(clause: BoundClause, now_ns: int) -> Timestamp:
    """Return the timestamp of a bound; ``now_ns`` is the wall clock in Unix nanoseconds.

    Raises ``SubscribeStatementError`` (``invalid_bound``) for NULL and for a value that is not a timestamp.
    """
    time = _time(clause.expression, now_ns)
    if time is None or time.wall > MAX.wall or time.logical > MAX_LOGICAL:
        raise StatementFault.INVALID_BOUND.error(
            "AS OF or UP TO should be castable to a (non-null) mz_timestamp value",
            clause.position,
            "write an HLC decimal (1536242855577149065.0000000000), nanoseconds since 1970, a timestamp in "
            "quotes, or a time before now ('-1h')",
        )
    return time


def _time(expression: Expression, now_ns: int) -> Timestamp | None:
    match expression:
        case Constant(value=bool()):
            return None
        case Constant(value=int() as number):
            return _decimal(str(number))
        case Constant(value=Decimal() as number):
            return _decimal(format(number, "f"))
        case Constant(value=str() as text):
            return _decimal(text.strip()) or _moment(text.strip(), now_ns)
        case Operation(operator=name) if name in _ARITHMETIC:
            computed = _whole(expression)
            return None if computed is None else _decimal(str(computed))
        case Operation(operator=name, operands=()) if name in _NOW:
            return Timestamp(now_ns)
        case Operation(operator=name, operands=(operand,)) if name.startswith("cast "):
            return _time(operand, now_ns)
    return None


def _whole(expression: Expression) -> int | None:
    """Compute an expression of whole numbers; ``None`` for others, and for numbers beyond all timestamps."""
    match expression:
        case Constant(value=int() as number) if not isinstance(number, bool):
            return number if abs(number) <= MAX.wall else None
        case Operation(operator=name, operands=operands) if name in _ARITHMETIC:
            numbers = [whole for operand in operands if (whole := _whole(operand)) is not None]
            if len(numbers) == len(operands):
                computed = _ARITHMETIC[name](*numbers)
                return computed if abs(computed) <= MAX.wall else None
    return None


def _decimal(text: str) -> Timestamp | None:
    match = _DECIMAL.fullmatch(text)
    if match is None:
        return None
    return Timestamp(int(match["wall"]), int((match["logical"] or "").ljust(_LOGICAL_DIGITS, "0")))


def _moment(text: str, now_ns: int) -> Timestamp | None:
    """Read a time; ``None`` if the text is no time.

    A text that begins with ``-`` counts back from now. Any other time may lie in the future.
    """
    try:
        return read_cursor(text, now_ns if text.startswith("-") else MAX.wall)
    except StatementError:
        return None
