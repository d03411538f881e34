"""Expressions with values: each is compiled once, into a function of a row's values.

An operator gives NULL when one of its operands is NULL, but for those of `three_valued`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from operator import itemgetter
from typing import Any, Final

from tidegate.errors import EvaluationError
from tidegate.subscribe.query.arithmetic import ARITHMETIC, calculate, type_name
from tidegate.subscribe.query.casts import CAST_TYPES, cast
from tidegate.subscribe.query.patterns import is_like
from tidegate.subscribe.query.scope import Scope
from tidegate.subscribe.query.shown_bytes import bounded_text
from tidegate.subscribe.query.three_valued import COMPARISONS, LAZY_OPERATORS, Evaluate, compare, truth
from tidegate.subscribe.statement.expression import ColumnReference, Constant, Expression, Operation
from tidegate.subscribe.statement.faults import StatementFault
from tidegate.subscribe.updates.update import RowValues

_CAST: Final = "cast "


def compile_expression(expression: Expression, scope: Scope) -> Evaluate:
    """Return the function that gives an expression's value for a row.

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
    return truth(value) is True


def _operation(operation: Operation, operands: list[Evaluate]) -> Evaluate:
    name = operation.operator
    lazy, strict = LAZY_OPERATORS.get(name), _strict(name)
    known = lazy or strict
    if known is None or len(operands) not in known[1]:
        raise StatementFault.UNKNOWN_FUNCTION.error(
            f"function {name} with {len(operands)} arguments does not exist", operation.position
        )
    function = known[0]
    if lazy is not None:
        return lambda row: function(operands, row)
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
    """Return a function and how many operands it takes; ``None`` for an unknown one.

    It is not called with NULL.
    """
    if name in COMPARISONS:
        return (lambda left, right: compare(name, left, right)), (2,)
    if name in ARITHMETIC:
        return (lambda left, right: calculate(name, left, right)), (2,)
    if name.startswith(_CAST) and name.removeprefix(_CAST) in CAST_TYPES:
        return (lambda value: cast(value, name.removeprefix(_CAST))), (1,)
    return _STRICT.get(name)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise EvaluationError(f"argument must be text, not {type_name(value)}")
    return value


def _negative(value: Any) -> Any:
    return calculate("-", Decimal(0) if isinstance(value, Decimal) else 0, value)


_STRICT: Final[Mapping[str, tuple[Callable[..., Any], Sequence[int]]]] = {
    "not": (lambda value: not truth(value), (1,)),
    "neg": (_negative, (1,)),
    "abs": (lambda value: _negative(value) if compare("<", value, 0) else value, (1,)),
    "||": (lambda left, right: bounded_text(_text(left) + _text(right)), (2,)),
    "like": (lambda text, pattern: is_like(_text(text), _text(pattern)), (2,)),
    "ilike": (lambda text, pattern: is_like(_text(text), _text(pattern), fold=True), (2,)),
    "lower": (lambda text: bounded_text(_text(text).lower()), (1,)),
    "upper": (lambda text: bounded_text(_text(text).upper()), (1,)),
    "length": (lambda text: len(_text(text)), (1,)),
    "char_length": (lambda text: len(_text(text)), (1,)),
}
