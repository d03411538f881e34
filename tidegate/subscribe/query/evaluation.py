"""Expressions with values, in SQL's three-valued logic: NULL is *unknown*.

| | true | false | NULL |
|---|---|---|---|
| ``NULL AND`` | NULL | false | NULL |
| ``NULL OR`` | true | NULL | NULL |
| ``NOT`` | false | true | NULL |

Every other operator gives NULL when an operand is NULL, but ``IS``, ``IN`` (true where an item is equal,
else NULL where one is NULL) and ``COALESCE``. An expression is compiled once, into a function of a row's
values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from operator import eq, ge, gt, itemgetter, le, lt, ne
from typing import Any, Final, TypeAlias

from tidegate.errors import EvaluationError
from tidegate.subscribe.query.arithmetic import ARITHMETIC, calculate, is_number, type_name
from tidegate.subscribe.query.casts import CAST_TYPES, cast
from tidegate.subscribe.query.patterns import is_like
from tidegate.subscribe.query.scope import Scope
from tidegate.subscribe.statement.expression import ColumnReference, Constant, Expression, Operation
from tidegate.subscribe.statement.faults import StatementFault
from tidegate.subscribe.updates.update import RowValues
from tidegate.subscribe.updates.value_order import value_key

#: A row's values -> the expression's value. Raises ``EvaluationError``.
Evaluate: TypeAlias = Callable[[RowValues], Any]

_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": eq,
    "<>": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
}
_CAST: Final = "cast "


def compile_expression(expression: Expression, scope: Scope) -> Evaluate:
    """The function of a row that an expression is.

    Raises ``SubscribeStatementError`` for columns and functions that do not exist.
    """
    match expression:
        case Constant():
            value = expression.value
            return lambda _: value
        case ColumnReference():
            return itemgetter(scope.position(expression))
        case Operation():
            return _operation(expression, [compile_expression(each, scope) for each in expression.operands])


def is_true(value: Any) -> bool:
    """Whether a row passes a WHERE: false and NULL do not. Raises ``EvaluationError`` for no truth value."""
    return _truth(value) is True


def _operation(operation: Operation, operands: list[Evaluate]) -> Evaluate:
    name = operation.operator
    if name in _LAZY:
        lazy = _LAZY[name]
        return lambda row: lazy(operands, row)
    strict = _strict(name)
    if strict is None or len(operands) not in strict[1]:
        raise StatementFault.UNKNOWN_FUNCTION.error(
            f"function {name} with {len(operands)} arguments does not exist", operation.position
        )
    function = strict[0]
    if len(operands) == 1:
        return _of_one(function, operands[0])
    return _of_several(function, operands)


def _of_one(function: Callable[..., Any], operand: Evaluate) -> Evaluate:
    def value(row: RowValues) -> Any:
        only = operand(row)
        return None if only is None else function(only)

    return value


def _of_several(function: Callable[..., Any], operands: list[Evaluate]) -> Evaluate:
    def value(row: RowValues) -> Any:
        values = [operand(row) for operand in operands]
        return None if None in values else function(*values)

    return value


def _strict(name: str) -> tuple[Callable[..., Any], Sequence[int]] | None:
    """A function that is not asked for NULL, and how many operands it takes."""
    if name in _COMPARISONS:
        return (lambda left, right: compare(name, left, right)), (2,)
    if name in ARITHMETIC:
        return (lambda left, right: calculate(name, left, right)), (2,)
    if name.startswith(_CAST) and name.removeprefix(_CAST) in CAST_TYPES:
        return (lambda value: cast(value, name.removeprefix(_CAST))), (1,)
    return _STRICT.get(name)


def compare(operator: str, left: Any, right: Any) -> bool:
    """``left operator right`` of two values that are not NULL. NaN equals itself, above all numbers."""
    alike = type(left) is type(right) or (is_number(left) and is_number(right))
    if not alike:
        raise EvaluationError(f"operator does not exist: {type_name(left)} {operator} {type_name(right)}")
    return _COMPARISONS[operator](value_key(left), value_key(right))


def _truth(value: Any) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    raise EvaluationError(f"argument must be boolean, not {type_name(value)}")


def _and(operands: Sequence[Evaluate], row: RowValues) -> bool | None:
    unknown = False
    for operand in operands:
        value = _truth(operand(row))
        if value is False:
            return False
        unknown = unknown or value is None
    return None if unknown else True


def _or(operands: Sequence[Evaluate], row: RowValues) -> bool | None:
    unknown = False
    for operand in operands:
        value = _truth(operand(row))
        if value is True:
            return True
        unknown = unknown or value is None
    return None if unknown else False


def _in(operands: Sequence[Evaluate], row: RowValues) -> bool | None:
    value, *items = (operand(row) for operand in operands)
    if value is None:
        return None
    if any(item is not None and compare("=", value, item) for item in items):
        return True
    return None if None in items else False


def _is_same(operands: Sequence[Evaluate], row: RowValues) -> bool:
    left, right = (operand(row) for operand in operands)
    return left is right if left is None or right is None else compare("=", left, right)


def _coalesce(operands: Sequence[Evaluate], row: RowValues) -> Any:
    return next((value for operand in operands if (value := operand(row)) is not None), None)


def _nullif(operands: Sequence[Evaluate], row: RowValues) -> Any:
    left, right = (operand(row) for operand in operands)
    return None if left is not None and right is not None and compare("=", left, right) else left


def _is(wanted: bool | None) -> Callable[[Sequence[Evaluate], RowValues], bool]:
    return lambda operands, row: _truth(operands[0](row)) is wanted


#: Those that see NULL, or do not need every operand.
_LAZY: Final[Mapping[str, Callable[[Sequence[Evaluate], RowValues], Any]]] = {
    "and": _and,
    "or": _or,
    "in": _in,
    "coalesce": _coalesce,
    "nullif": _nullif,
    "is same": _is_same,
    "is null": lambda operands, row: operands[0](row) is None,
    "is true": _is(True),
    "is false": _is(False),
    "is unknown": _is(None),
}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise EvaluationError(f"argument must be text, not {type_name(value)}")
    return value


def _negative(value: Any) -> Any:
    return calculate("-", Decimal(0) if isinstance(value, Decimal) else 0, value)


_STRICT: Final[Mapping[str, tuple[Callable[..., Any], Sequence[int]]]] = {
    "not": (lambda value: not _truth(value), (1,)),
    "neg": (_negative, (1,)),
    "abs": (lambda value: _negative(value) if compare("<", value, 0) else value, (1,)),
    "||": (lambda left, right: _text(left) + _text(right), (2,)),
    "like": (lambda text, pattern: is_like(_text(text), _text(pattern)), (2,)),
    "ilike": (lambda text, pattern: is_like(_text(text), _text(pattern), fold=True), (2,)),
    "lower": (lambda text: _text(text).lower(), (1,)),
    "upper": (lambda text: _text(text).upper(), (1,)),
    "length": (lambda text: len(_text(text)), (1,)),
    "char_length": (lambda text: len(_text(text)), (1,)),
}
