"""Operators that see NULL, or do not need every operand: SQL's three-valued logic.

| | true | false | NULL |
|---|---|---|---|
| ``NULL AND`` | NULL | false | NULL |
| ``NULL OR`` | true | NULL | NULL |
| ``NOT`` | false | true | NULL |

``IN`` is true where an item is equal, else NULL where one is NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Final, TypeAlias

from tidegate.errors import EvaluationError
from tidegate.subscribe.query.arithmetic import is_number, type_name
from tidegate.subscribe.updates.update import RowValues
from tidegate.subscribe.updates.value_order import value_key

#: A row's values -> the expression's value. Raises ``EvaluationError``.
Evaluate: TypeAlias = Callable[[RowValues], Any]

#: Comparisons of two values that are not NULL.
COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": eq,
    "<>": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
}


def compare(operator: str, left: Any, right: Any) -> bool:
    """Return ``left operator right`` for two values that are not NULL.

    NaN equals itself, and is above all numbers. Raises ``EvaluationError`` for values of unlike types.
    """
    alike = type(left) is type(right) or (is_number(left) and is_number(right))
    if not alike:
        raise EvaluationError(f"operator does not exist: {type_name(left)} {operator} {type_name(right)}")
    return COMPARISONS[operator](value_key(left), value_key(right))


def truth(value: Any) -> bool | None:
    """Return the value as a truth value, ``None`` for unknown. Raises ``EvaluationError`` for any other."""
    if value is None or isinstance(value, bool):
        return value
    raise EvaluationError(f"argument must be boolean, not {type_name(value)}")


def _and(operands: Sequence[Evaluate], row: RowValues) -> bool | None:
    unknown = False
    for operand in operands:
        value = truth(operand(row))
        if value is False:
            return False
        unknown = unknown or value is None
    return None if unknown else True


def _or(operands: Sequence[Evaluate], row: RowValues) -> bool | None:
    unknown = False
    for operand in operands:
        value = truth(operand(row))
        if value is True:
            return True
        unknown = unknown or value is None
    return None if unknown else False


def _in(operands: Sequence[Evaluate], row: RowValues) -> bool | None:
    """Every item is evaluated, whichever is equal, and none is held: their texts may be long."""
    value = operands[0](row)
    found, unknown = False, value is None
    unlike: EvaluationError | None = None
    for operand in operands[1:]:
        item = operand(row)
        if item is None:
            unknown = True
        elif value is not None and not found and unlike is None:
            try:
                found = compare("=", value, item)
            except EvaluationError as error:  # an item behind it that has no value comes first
                unlike = error
    if unlike is not None:
        raise unlike
    return None if unknown and not found else found


def _is_same(operands: Sequence[Evaluate], row: RowValues) -> bool:
    left, right = (operand(row) for operand in operands)
    return left is right if left is None or right is None else compare("=", left, right)


def _coalesce(operands: Sequence[Evaluate], row: RowValues) -> Any:
    return next((value for operand in operands if (value := operand(row)) is not None), None)


def _nullif(operands: Sequence[Evaluate], row: RowValues) -> Any:
    left, right = (operand(row) for operand in operands)
    return None if left is not None and right is not None and compare("=", left, right) else left


def _is(wanted: bool | None) -> Callable[[Sequence[Evaluate], RowValues], bool]:
    return lambda operands, row: truth(operands[0](row)) is wanted


_MANY: Final = range(1, 1_000_000)

#: By operator, what gives its value from the operands and a row, and how many operands it takes.
LAZY_OPERATORS: Final[Mapping[str, tuple[Callable[[Sequence[Evaluate], RowValues], Any], Sequence[int]]]] = {
    "and": (_and, _MANY),
    "or": (_or, _MANY),
    "in": (_in, _MANY),
    "coalesce": (_coalesce, _MANY),
    "nullif": (_nullif, (2,)),
    "is same": (_is_same, (2,)),
    "is null": (lambda operands, row: operands[0](row) is None, (1,)),
    "is true": (_is(True), (1,)),
    "is false": (_is(False), (1,)),
    "is unknown": (_is(None), (1,)),
}
