"""Operators that are given NULL too, or that do not need every operand: SQL's three-valued logic.

| | true | false | NULL |
|---|---|---|---|
| ``NULL AND`` | NULL | false | NULL |
| ``NULL OR`` | true | NULL | NULL |
| ``NOT`` | false | true | NULL |

``IN`` is true if an item is equal. Otherwise it is NULL if the value or an item is NULL, else false.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Final, TypeAlias

from tidegate.errors import EvaluationError, LimitExceeded
from tidegate.subscribe.query.arithmetic import is_number, type_name
from tidegate.subscribe.query.query_work import RowWork
from tidegate.subscribe.updates.update import RowValues
from tidegate.subscribe.updates.value_order import value_key

#: A row's values -> the expression's value. Raises ``EvaluationError``.
Evaluate: TypeAlias = Callable[[RowValues], Any]

#: Operands, a row, and the counter of the steps for the row -> a value.
Lazy: TypeAlias = Callable[[Sequence[Evaluate], RowValues, RowWork], Any]

#: Comparisons of two values that are not NULL.
COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": eq,
    "<>": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
}


#: Values that may be long.
_LONG: Final = frozenset({str, bytes, dict, list, tuple})


def compare(operator: str, left: Any, right: Any, work: RowWork | None = None) -> bool:
    """Return ``left operator right`` for two values that are not NULL. ``work`` counts the steps.

    NaN equals itself, and is above all numbers. A float is compared with any number as a float. Raises
    ``EvaluationError`` for values of unlike types, and where ``work`` does.
    """
    if type(left) is not type(right):
        if not is_number(left) or not is_number(right):
            raise EvaluationError(f"operator does not exist: {type_name(left)} {operator} {type_name(right)}")
        if isinstance(left, float) or isinstance(right, float):
            left, right = _as_float(left), _as_float(right)
    if work is not None and type(left) in _LONG:
        work.compare(left, right)
    return COMPARISONS[operator](value_key(left), value_key(right))


def _as_float(number: Any) -> Any:
    """Return a number as a float, or unchanged if it is beyond all floats."""
    try:
        rounded = float(number)
    except OverflowError:
        return number
    return number if math.isinf(rounded) and isinstance(number, Decimal) and number.is_finite() else rounded


def truth(value: Any) -> bool | None:
    """Return a truth value, or ``None`` for NULL. Raises ``EvaluationError`` for any other value."""
    if value is None or isinstance(value, bool):
        return value
    raise EvaluationError(f"argument must be boolean, not {type_name(value)}")


def _and(operands: Sequence[Evaluate], row: RowValues, _: RowWork) -> bool | None:
    unknown = False
    for operand in operands:
        value = truth(operand(row))
        if value is False:
            return False
        unknown = unknown or value is None
    return None if unknown else True


def _or(operands: Sequence[Evaluate], row: RowValues, _: RowWork) -> bool | None:
    unknown = False
    for operand in operands:
        value = truth(operand(row))
        if value is True:
            return True
        unknown = unknown or value is None
    return None if unknown else False


def _in(operands: Sequence[Evaluate], row: RowValues, work: RowWork) -> bool | None:
    """Evaluate IN with all its items, also those after an equal one.

    The items are not kept, since their texts may be long.
    """
    value = operands[0](row)
    found, unknown = False, value is None
    unlike: EvaluationError | None = None
    for operand in operands[1:]:
        item = operand(row)
        if item is None:
            unknown = True
        elif value is not None and not found and unlike is None:
            try:
                found = compare("=", value, item, work)
            except LimitExceeded:
                raise
            except EvaluationError as error:  # if a later item has no value, that error is raised instead
                unlike = error
    if unlike is not None:
        raise unlike
    return None if unknown and not found else found


def in_constants(value: Evaluate, items: Sequence[Any], work: RowWork) -> Evaluate | None:
    """Return the function for ``value IN (constants)``, which takes as long for many constants as for one.

    ``None`` if the constants are not all texts, all bytes, or all numbers.
    """
    present = [item for item in items if item is not None]
    kind = next((each for each in (str, bytes) if all(isinstance(item, each) for item in present)), None)
    if not present or not (kind or all(is_number(item) and item == item for item in present)):
        return None
    known, unknown = frozenset(present), len(present) < len(items)
    as_floats = known if kind else frozenset(map(_as_float, present))

    def is_in(row: RowValues) -> bool | None:
        sought = value(row)
        if sought is None:
            return None
        if not (isinstance(sought, kind) if kind else is_number(sought)):
            compare("=", sought, present[0], work)  # it says why they cannot be compared
        among = as_floats if type(sought) is float else known
        return True if sought == sought and sought in among else None if unknown else False

    return is_in


def _is_same(operands: Sequence[Evaluate], row: RowValues, work: RowWork) -> bool:
    left, right = (operand(row) for operand in operands)
    if left is None or right is None:
        return left is right
    return compare("=", left, right, work)


def _coalesce(operands: Sequence[Evaluate], row: RowValues, _: RowWork) -> Any:
    return next((value for operand in operands if (value := operand(row)) is not None), None)


def _nullif(operands: Sequence[Evaluate], row: RowValues, work: RowWork) -> Any:
    """Evaluate NULLIF. If the first operand is compared in another form than it is shown in, a third operand
    has the form that is shown."""
    left, right, *shown = (operand(row) for operand in operands)
    if left is not None and right is not None and compare("=", left, right, work):
        return None
    return shown[0] if shown else left


def _is(wanted: bool | None) -> Lazy:
    return lambda operands, row, _: truth(operands[0](row)) is wanted


_MANY: Final = range(1, 1_000_000)

#: The function of each operator that gives its value from the operands and a row, and its number of operands.
LAZY_OPERATORS: Final[Mapping[str, tuple[Lazy, Sequence[int]]]] = {
    "and": (_and, _MANY),
    "or": (_or, _MANY),
    "in": (_in, _MANY),
    "coalesce": (_coalesce, _MANY),
    "nullif": (_nullif, (2,)),
    "is same": (_is_same, (2,)),
    "is null": (lambda operands, row, _: operands[0](row) is None, (1,)),
    "is true": (_is(True), (1,)),
    "is false": (_is(False), (1,)),
    "is unknown": (_is(None), (1,)),
}
