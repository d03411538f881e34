"""The operands of comparisons: each is compared as its SQL type says.

A constant text is read as a value of the type of the operand beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from ipaddress import ip_interface
from typing import Any, Final
from uuid import UUID

from tidegate.changefeed.text.datum_text import inet_text
from tidegate.errors import EvaluationError, SubscribeStatementError
from tidegate.rows.types import Kind, SqlType
from tidegate.subscribe.query.casts import cast
from tidegate.subscribe.query.column_values import UNORDERED, Read, order_reader, reading, unordered_kind
from tidegate.subscribe.query.expression_types import Compiled, common_type
from tidegate.subscribe.query.query_work import LETTERS, RowWork
from tidegate.subscribe.statement.expression import Operation
from tidegate.subscribe.statement.faults import StatementFault

_ORDERING: Final = frozenset({"<", "<=", ">", ">="})
#: Types whose constants are read as a cast reads them.
_CASTS: Final[Mapping[Kind, str]] = {
    Kind.BOOL: "boolean",
    Kind.INT: "bigint",
    Kind.FLOAT: "float",
    Kind.DECIMAL: "numeric",
    Kind.OID: "bigint",
}
#: Types that are compared as texts: a constant is written as the feed writes values.
_WRITTEN: Final[Mapping[Kind, Callable[[str], str]]] = {
    Kind.UUID: lambda text: str(UUID(text)),
    Kind.INET: lambda text: inet_text(ip_interface(text)),
}
#: Types that are compared with each other.
_FAMILIES: Final[Mapping[Kind, str]] = {
    **dict.fromkeys((Kind.INT, Kind.FLOAT, Kind.DECIMAL, Kind.OID), "number"),
    **dict.fromkeys((Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ), "moment"),
}
#: The forms of types whose values are compared as they are in expressions. Types that are not named here have
#: the form of texts.
_FORMS: Final[Mapping[Kind, str]] = {
    **dict.fromkeys((Kind.INT, Kind.FLOAT, Kind.DECIMAL), "number"),
    Kind.BOOL: "truth value",
}
_TEXT: Final = "text"
#: Types whose values may be long, and have to be read to be compared.
_LONG: Final = frozenset({Kind.BYTES, Kind.BIT, Kind.ARRAY})
_NUMBERS: Final = frozenset({Kind.FLOAT, Kind.DECIMAL})
_SHOWN: Final = {"is same": "IS DISTINCT FROM", "in": "IN"}


def alike(operation: Operation, operands: Sequence[Compiled], work: RowWork) -> list[Compiled]:
    """Return the operands of a comparison in the form in which they are compared.

    Steps to read long values are counted in ``work``. Raises ``SubscribeStatementError`` for operands that
    cannot be compared, and for a constant text that is no value of the type of the operand beside it.
    """
    if all(each.is_constant for each in operands):
        return [*operands]
    for each in operands:
        _require_comparable(operation, each.type)
    if any(each.type is not None and each.type.kind is Kind.JSONB for each in operands):
        return [_lifted(each) for each in operands]
    by = next((each.type for each in operands if _has_own_form(each.type)), None)
    if by is not None:
        return [_compared(operation, each, by, work) for each in operands]
    _require_one_form(operation, operands)
    return constants_read(operation, operands)


def _require_one_form(operation: Operation, operands: Sequence[Compiled]) -> None:
    """Raise ``SubscribeStatementError`` if operands have different forms: numbers, truth values and texts."""
    known = [each.type for each in operands if each.type is not None]
    for each in known[1:]:
        if _FORMS.get(each.kind, _TEXT) != _FORMS.get(known[0].kind, _TEXT):
            raise _no_operator(operation, known[0], each.kind.value)


def constants_read(operation: Operation, operands: Sequence[Compiled]) -> list[Compiled]:
    """Return operands that have one type, with their constant texts read as values of that type.

    A constant text stays as it is if values of the type are compared in a form of their own: a feed may write
    them as texts. Raises ``SubscribeStatementError`` for a text that is no value of the type.
    """
    sql_type = common_type(operands)
    if sql_type is None or all(each.is_constant for each in operands):
        return [*operands]
    read = [_constant(operation, each, sql_type) if _is_text(each) else each for each in operands]
    return [*operands] if _has_own_form(sql_type) else read


def require_one_type(operation: Operation, operands: Sequence[Compiled]) -> None:
    """Raise ``SubscribeStatementError`` for operands of several types: the value could have any of these.

    All types of numbers count as one type here.
    """
    known = [each.type for each in operands if each.type is not None]
    numbers = [each for each, family in _FAMILIES.items() if family == "number"]
    for each in known[1:]:
        if each.kind is not known[0].kind and not {each.kind, known[0].kind}.issubset(numbers):
            raise StatementFault.UNKNOWN_FUNCTION.error(
                f"{operation.operator} of {known[0].kind.value} and {each.kind.value} does not exist",
                operation.position,
                "give its operands one type",
            )


def fixed(value: Any, sql_type: SqlType | None) -> Compiled:
    """Return the compiled form of a constant."""
    return Compiled(lambda _: value, sql_type, True)


def require_order(sql_type: SqlType | None, position: int) -> None:
    """Raise ``SubscribeStatementError`` for a type without an order, at this position of the statement."""
    kind = unordered_kind(sql_type)
    if kind is not None:
        raise StatementFault.UNORDERED_TYPE.error(
            f"values of type {kind.value} have no order in a query", position, f"use {UNORDERED[kind]}"
        )


def _require_comparable(operation: Operation, sql_type: SqlType | None) -> None:
    if operation.operator in _ORDERING or unordered_kind(sql_type) is Kind.INTERVAL:
        require_order(sql_type, operation.position)


def _has_own_form(sql_type: SqlType | None) -> bool:
    """Whether values of a type are compared in a form that differs from their form in expressions."""
    return sql_type is not None and sql_type.kind not in _NUMBERS and order_reader(sql_type) is not None


def _compared(operation: Operation, operand: Compiled, by: SqlType, work: RowWork) -> Compiled:
    if _is_text(operand):
        return _constant(operation, operand, by)
    if operand.is_constant and operand.constant is None:
        return operand
    if operand.type is None or _family(operand.type) != _family(by):
        other = "text" if operand.type is None else operand.type.kind.value
        raise _no_operator(operation, by, other)
    read = order_reader(operand.type)
    if read is None:
        return operand
    if operand.type.kind in _LONG:
        read = _counted(read, work)
    return operand._replace(evaluate=reading(read, operand.evaluate))


def _no_operator(operation: Operation, left: SqlType, right: str) -> SubscribeStatementError:
    return StatementFault.UNKNOWN_FUNCTION.error(
        f"operator does not exist: {left.kind.value} "
        f"{_SHOWN.get(operation.operator, operation.operator)} {right}",
        operation.position,
        f"compare {left.kind.value} with a text in quotes, or with a column of its type",
    )


def _counted(read: Read, work: RowWork) -> Read:
    def value(found: Any) -> Any:
        if isinstance(found, str | list):
            work.spend(len(found) // (LETTERS if isinstance(found, str) else 1))
        return read(found)

    return value


def _lifted(operand: Compiled) -> Compiled:
    """Return the operand with values that can be compared with values of any type, as values of JSON are."""
    return operand._replace(evaluate=reading(_alone, operand.evaluate))


def _alone(value: Any) -> tuple[Any]:
    return (value,)


def _family(sql_type: SqlType) -> Any:
    if sql_type.kind is Kind.ARRAY and sql_type.element is not None:
        return Kind.ARRAY, _family(sql_type.element)
    return _FAMILIES.get(sql_type.kind, sql_type.kind)


def _is_text(operand: Compiled) -> bool:
    return operand.is_constant and operand.type is None and isinstance(operand.constant, str)


def _constant(operation: Operation, operand: Compiled, sql_type: SqlType) -> Compiled:
    text: Any = operand.constant
    try:
        return fixed(_value(text, sql_type), sql_type)
    except (EvaluationError, ValueError):
        raise StatementFault.INVALID_CONSTANT.error(
            f"invalid input syntax for type {sql_type.kind.value}: '{text:.60}'",
            operation.position,
            f"it stands beside a value of type {sql_type.kind.value}, so it is read as one",
        ) from None


def _value(text: str, sql_type: SqlType) -> Any:
    kind = sql_type.kind
    if kind in _CASTS:
        return cast(text, _CASTS[kind])
    if kind in _WRITTEN:
        return _WRITTEN[kind](text)
    read = order_reader(sql_type)
    return text if read is None else read(text)
