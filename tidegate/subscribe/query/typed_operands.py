"""The operands of comparisons: a text that is a constant is read as the type of what it stands beside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tidegate.errors import EvaluationError
from tidegate.rows.types import Kind, SqlType
from tidegate.subscribe.query.casts import cast
from tidegate.subscribe.query.expression_types import Compiled, common_type
from tidegate.subscribe.statement.expression import Operation
from tidegate.subscribe.statement.faults import StatementFault

#: Types whose constants are read as a cast reads them.
_CASTS: Final[Mapping[Kind, str]] = {
    Kind.BOOL: "boolean",
    Kind.INT: "bigint",
    Kind.FLOAT: "float",
    Kind.DECIMAL: "numeric",
}


def alike(operation: Operation, operands: Sequence[Compiled]) -> list[Compiled]:
    """Return operands that have to be of one type, such as those of a comparison.

    Raises ``SubscribeStatementError`` for a text that is a constant and is none of that type.
    """
    sql_type = common_type(operands)
    if all(each.is_constant for each in operands) or sql_type is None or sql_type.kind not in _CASTS:
        return [*operands]
    return [_read(operation, each, sql_type) if _is_text(each) else each for each in operands]


def _is_text(operand: Compiled) -> bool:
    return operand.is_constant and operand.type is None and isinstance(operand.constant, str)


def _read(operation: Operation, operand: Compiled, sql_type: SqlType) -> Compiled:
    return fixed(_constant(operation, operand.constant, sql_type), sql_type)


def fixed(value: Any, sql_type: SqlType | None) -> Compiled:
    """Return a constant."""
    return Compiled(lambda _: value, sql_type, True)


def _constant(operation: Operation, text: Any, sql_type: SqlType) -> Any:
    try:
        return cast(text, _CASTS[sql_type.kind])
    except EvaluationError:
        raise StatementFault.INVALID_CONSTANT.error(
            f"invalid input syntax for type {sql_type.kind.value}: '{text:.60}'",
            operation.position,
            f"it stands beside a value of type {sql_type.kind.value}, so it is read as one",
        ) from None
