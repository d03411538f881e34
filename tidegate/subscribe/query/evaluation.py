"""Expressions with values: each is compiled once, into a function of a row's values.

An operator gives NULL when one of its operands is NULL, except the operators of `three_valued`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from operator import itemgetter
from typing import Any, Final

from tidegate.errors import EvaluationError
from tidegate.rows.types import Kind, SqlType
from tidegate.subscribe.query.arithmetic import ARITHMETIC, calculate, type_name
from tidegate.subscribe.query.casts import CAST_TYPES, TEXT_TYPES, cast
from tidegate.subscribe.query.column_values import number_reader, reading, text_reader
from tidegate.subscribe.query.expression_types import Compiled, constant_type, result_type
from tidegate.subscribe.query.patterns import is_like
from tidegate.subscribe.query.query_work import CHARACTERS, LETTERS, RowWork
from tidegate.subscribe.query.scope import Scope
from tidegate.subscribe.query.shown_bytes import bounded_text
from tidegate.subscribe.query.three_valued import (
    COMPARISONS,
    LAZY_OPERATORS,
    Evaluate,
    Lazy,
    compare,
    in_constants,
    truth,
)
from tidegate.subscribe.query.typed_operands import alike, constants_read, fixed, require_one_type
from tidegate.subscribe.statement.expression import ColumnReference, Constant, Expression, Operation
from tidegate.subscribe.statement.faults import StatementFault
from tidegate.subscribe.updates.update import RowValues

_CAST: Final = "cast "
_NULLIF: Final = "nullif"
#: Operators that compare their operands, beside ``nullif``.
_COMPARING: Final = frozenset({*COMPARISONS, "in", "is same"})
#: Operators that look at the letters of texts.
_READS_LETTERS: Final = frozenset({"||", "char_length", "ilike", "length", "like", "lower", "upper"})
_TO_TEXT: Final = frozenset(f"{_CAST}{name}" for name in TEXT_TYPES)


def compile_expression(expression: Expression, scope: Scope, work: RowWork | None = None) -> Evaluate:
    """Return the function that gives an expression's value for a row. The function counts in ``work`` the
    steps that operations on texts take.

    Raises ``SubscribeStatementError`` for columns and functions that do not exist.
    """
    return compiled(expression, scope, work or RowWork()).evaluate


def compiled(expression: Expression, scope: Scope, work: RowWork) -> Compiled:
    """Do what ``compile_expression`` does; the result knows its SQL type too."""
    match expression:
        case Constant():
            return fixed(expression.value, constant_type(expression.value))
        case ColumnReference():
            at = scope.position(expression)
            return Compiled(_column(at, scope.type_at(at)), scope.type_at(at))
        case Operation():
            operands = [compiled(each, scope, work) for each in expression.operands]
            return _compiled_operation(expression, operands, work)


def _compiled_operation(operation: Operation, operands: list[Compiled], work: RowWork) -> Compiled:
    name = operation.operator
    sql_type = result_type(name, operands)
    if name in _READS_LETTERS:
        _require_letters(operation, operands)
    if name == "coalesce":
        require_one_type(operation, operands)
        operands = constants_read(operation, operands)
        read = number_reader(sql_type)
        evaluate = _operation(operation, operands, work)
        return Compiled(evaluate if read is None else reading(read, evaluate), sql_type)
    if name == _NULLIF and len(operands) == 2:
        compared = alike(operation, operands, work)
        operands = compared if compared[0] is operands[0] else [*compared, operands[0]]
    elif name in _COMPARING:
        operands = alike(operation, operands, work)
    elif name in _TO_TEXT and len(operands) == 1:
        read = text_reader(operands[0].type)
        operands = operands if read is None else [Compiled(reading(read, operands[0].evaluate))]
    return Compiled(_operation(operation, operands, work), sql_type)


def _require_letters(operation: Operation, operands: Sequence[Compiled]) -> None:
    """Raise ``SubscribeStatementError`` for bytes: a JSON feed writes them as hexadecimal digits."""
    for each in operands:
        if each.type is not None and each.type.kind is Kind.BYTES:
            raise StatementFault.UNKNOWN_FUNCTION.error(
                f"function {operation.operator} of bytes does not exist",
                operation.position,
                "a cast to text, such as b::text, gives their hexadecimal digits",
            )


def _column(at: int, sql_type: SqlType | None) -> Evaluate:
    read, raw = number_reader(sql_type), itemgetter(at)
    return raw if read is None else reading(read, raw)


def operations_in(expression: Expression) -> int:
    """Count the operations of an expression. An operation with n operands counts as n - 1, at least as 1.

    IN with constants counts as 1.
    """
    count, waiting = 0, [expression]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Operation):
            count += 1 if _is_in_constants(each) else max(len(each.operands) - 1, 1)
            waiting += each.operands
    return count


def _is_in_constants(operation: Operation) -> bool:
    return operation.operator == "in" and all(isinstance(each, Constant) for each in operation.operands[1:])


def is_true(value: Any) -> bool:
    """Whether a value of WHERE lets a row pass: false and NULL do not.

    Raises ``EvaluationError`` for a value that is no truth value.
    """
    return truth(value) is True


def _operation(operation: Operation, known_operands: list[Compiled], work: RowWork) -> Evaluate:
    operands = [each.evaluate for each in known_operands]
    name = operation.operator
    lazy, strict = LAZY_OPERATORS.get(name), _strict(name, work)
    known = lazy or strict
    if known is None or len(operation.operands) not in known[1]:
        raise StatementFault.UNKNOWN_FUNCTION.error(
            f"function {name} with {len(operation.operands)} arguments does not exist", operation.position
        )
    function = known[0]
    if lazy is not None:
        if _is_in_constants(operation):
            found = in_constants(operands[0], [each.constant for each in known_operands[1:]], work)
            if found is not None:
                return found
            function = _counting_items(function, len(operands))
        return lambda row: function(operands, row, work)
    if len(operands) == 1:
        return _of_one(function, operands[0])
    return _of_several(function, operands)


def _counting_items(function: Lazy, items: int) -> Lazy:
    """Return the function of an IN that also counts a step for each item: it compares them one by one."""

    def value(operands: Sequence[Evaluate], row: RowValues, work: RowWork) -> Any:
        work.spend(items)
        return function(operands, row, work)

    return value


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


def _strict(name: str, work: RowWork) -> tuple[Callable[..., Any], Sequence[int]] | None:
    """Return the function of an operator, and how many operands it takes; ``None`` for an unknown name.

    The function counts its steps in ``work``. It is never called with NULL.
    """
    if name in COMPARISONS:
        return (lambda left, right: compare(name, left, right, work)), (2,)
    if name in ARITHMETIC:
        return (lambda left, right: calculate(name, left, right)), (2,)
    if name.startswith(_CAST) and name.removeprefix(_CAST) in CAST_TYPES:
        return _cast_to(name.removeprefix(_CAST), work), (1,)
    if name in _OF_TEXTS:
        function, counts = _OF_TEXTS[name]
        return (lambda *texts: function(work, *map(_text, texts))), counts
    return _STRICT.get(name)


def _cast_to(sql_type: str, work: RowWork) -> Callable[[Any], Any]:
    if sql_type in TEXT_TYPES:
        return lambda value: _cast_to_text(value, sql_type, work)

    def read(value: Any) -> Any:
        if isinstance(value, str):
            work.spend(len(value) // CHARACTERS)
        return cast(value, sql_type)

    return read


def _cast_to_text(value: Any, sql_type: str, work: RowWork) -> Any:
    if isinstance(value, str):
        return cast(value, sql_type)
    work.look_at(value)
    made = cast(value, sql_type)
    work.spend(len(made) // LETTERS)
    return made


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
    "length": (lambda text: len(_text(text)), (1,)),
    "char_length": (lambda text: len(_text(text)), (1,)),
}


def _joined(work: RowWork, left: str, right: str) -> str:
    work.copy(left, right)
    return bounded_text(left + right)


def _lower(work: RowWork, text: str) -> str:
    work.change_letters(text)
    return bounded_text(text.lower())


def _upper(work: RowWork, text: str) -> str:
    work.change_letters(text)
    return bounded_text(text.upper())


def _like(work: RowWork, text: str, pattern: str) -> bool:
    return is_like(text, pattern, work=work)


def _ilike(work: RowWork, text: str, pattern: str) -> bool:
    return is_like(text, pattern, fold=True, work=work)


#: Operations that go through all characters of texts.
_OF_TEXTS: Final[Mapping[str, tuple[Callable[..., Any], Sequence[int]]]] = {
    "||": (_joined, (2,)),
    "like": (_like, (2,)),
    "ilike": (_ilike, (2,)),
    "lower": (_lower, (1,)),
    "upper": (_upper, (1,)),
}
