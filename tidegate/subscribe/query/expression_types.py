"""The SQL types of operations, as far as the types of their operands are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from tidegate.rows.types import Kind, SqlType
from tidegate.subscribe.query.arithmetic import ARITHMETIC
from tidegate.subscribe.query.three_valued import Evaluate

_INT, _FLOAT, _DECIMAL = (SqlType(kind) for kind in (Kind.INT, Kind.FLOAT, Kind.DECIMAL))
_BOOL, _STRING = SqlType(Kind.BOOL), SqlType(Kind.STRING)
#: Arithmetic with numbers of two types gives the type that has the larger number here.
_WIDTHS: Final = {Kind.INT: 0, Kind.DECIMAL: 1, Kind.FLOAT: 2}
_CAST: Final = "cast "
_NAMED: Final[Mapping[str, SqlType]] = {
    **dict.fromkeys(("bigint", "int", "int2", "int4", "int8", "integer", "smallint"), _INT),
    **dict.fromkeys(("string", "text", "varchar"), _STRING),
    **dict.fromkeys(("dec", "decimal", "numeric"), _DECIMAL),
    **dict.fromkeys(("double", "float", "float4", "float8", "real"), _FLOAT),
    **dict.fromkeys(("bool", "boolean"), _BOOL),
}
_OF_OPERATORS: Final[Mapping[str, SqlType]] = {
    **dict.fromkeys(("and", "or", "not", "in", "like", "ilike"), _BOOL),
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">="), _BOOL),
    **dict.fromkeys(("||", "lower", "upper"), _STRING),
    **dict.fromkeys(("length", "char_length"), _INT),
}


class Compiled(NamedTuple):
    """An expression that is ready to be evaluated.

    Attributes:
        evaluate: gives its value for a row.
        type: its SQL type; ``None`` for NULL, for a constant text, and if the type is not known.
        is_constant: whether it has one value for all rows.
    """

    evaluate: Evaluate
    type: SqlType | None = None
    is_constant: bool = False

    @property
    def constant(self) -> object:
        """The value of a constant."""
        return self.evaluate(())


def constant_type(value: object) -> SqlType | None:
    """Return the type of a constant.

    NULL and a text have none: a text is read as the type of the operand beside it.
    """
    match value:
        case bool():
            return _BOOL
        case int():
            return _INT
        case None | str():
            return None
    return _DECIMAL


def result_type(operator: str, operands: Sequence[Compiled]) -> SqlType | None:
    """Return the type of an operation's value; ``None`` where it is not known."""
    if operator.startswith(_CAST):
        return _NAMED.get(operator.removeprefix(_CAST))
    if operator.startswith("is "):
        return _BOOL
    if operator in ARITHMETIC or operator == "coalesce":
        return common_type(operands)
    if operator in ("neg", "abs", "nullif"):
        return operands[0].type if operands else None
    return _OF_OPERATORS.get(operator)


def common_type(operands: Sequence[Compiled]) -> SqlType | None:
    """Return the type that all operands have or can be given: for numbers it is the widest of their types.

    ``None`` if there is no such type. Constants without a type do not count.
    """
    types = [each.type for each in operands if each.type is not None or not each.is_constant]
    known = [each for each in types if each is not None]
    if not known or len(known) < len(types):
        return None
    if all(each.kind in _WIDTHS for each in known):
        return max(known, key=lambda each: _WIDTHS[each.kind])
    return known[0] if all(each.kind is known[0].kind for each in known) else None
