"""Reads expressions out of the grammar's tree."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import reduce
from typing import Any, Final, NamedTuple

from lark import Token, Tree

from tidegate.subscribe.statement.expression import ColumnReference, Constant, Expression, Operation
from tidegate.subscribe.statement.faults import StatementFault

#: The most levels of operations within operations. When a row is evaluated, each level takes frames of
#: Python's stack.
MOST_LEVELS: Final = 100
_SAME_AS: Final = {"!=": "<>"}
_MOST_DIGITS: Final = 1_000


def read_expression(tree: Tree[Token], level: int = 0) -> Expression:
    """Return the expression of a tree. Raises ``SubscribeStatementError`` if it is nested too deeply."""
    position = getattr(tree.meta, "start_pos", -1)
    if level > MOST_LEVELS:
        raise StatementFault.TOO_LARGE.error(
            f"the expression has more than {MOST_LEVELS} operations within each other", position
        )
    operands = [read_expression(part, level + 1) for part in tree.children if isinstance(part, Tree)]
    tokens = [part for part in tree.children if isinstance(part, Token)]
    return _READERS[tree.data](_Parts(tuple(operands), tokens, position))


class _Parts(NamedTuple):
    """The parts of a tree: its operands, and its tokens without those of the operands."""

    operands: tuple[Expression, ...]
    tokens: list[Token]
    position: int

    def operation(self, operator: str, *, negated: bool = False) -> Operation:
        operation = Operation(operator, self.operands, self.position)
        return Operation("not", (operation,), self.position) if negated else operation

    @property
    def has_not(self) -> bool:
        return any(token.type == "NOT" for token in self.tokens)


def _number(parts: _Parts) -> Constant:
    token = parts.tokens[0]
    if len(token) > _MOST_DIGITS:
        raise StatementFault.TOO_LARGE.error(
            f"the number has more than {_MOST_DIGITS} digits", parts.position
        )
    return Constant(Decimal(token) if "." in token else int(token), parts.position)


def _chain(parts: _Parts) -> Expression:
    """Read a chain of operators from the left: ``a - b + c`` is ``(a - b) + c``."""
    if len(parts.tokens) > MOST_LEVELS:
        raise StatementFault.TOO_LARGE.error(
            f"the expression has more than {MOST_LEVELS} operations in one chain", parts.position
        )
    first, *others = parts.operands
    steps = zip(parts.tokens, others, strict=True)
    return reduce(lambda left, step: Operation(str(step[0]), (left, step[1]), parts.position), steps, first)


def _prefix(parts: _Parts) -> Expression:
    operator, operand = parts.tokens[0].lower(), parts.operands[0]
    if operator == "+":
        return operand
    match operand:
        case Constant(value=int() | Decimal() as number) if operator == "-" and not isinstance(number, bool):
            return Constant(-number, parts.position)
    return parts.operation("not" if operator == "not" else "neg")


def _between(parts: _Parts) -> Expression:
    value, low, high = parts.operands
    inside = (Operation(">=", (value, low), parts.position), Operation("<=", (value, high), parts.position))
    return _Parts(inside, parts.tokens, parts.position).operation("and", negated=parts.has_not)


_READERS: Final[Mapping[str, Callable[[_Parts], Expression]]] = {
    "number": _number,
    "string": lambda parts: Constant(unquoted(parts.tokens[0]), parts.position),
    "null": lambda parts: Constant(None, parts.position),
    "true": lambda parts: Constant(True, parts.position),
    "false": lambda parts: Constant(False, parts.position),
    "column": lambda parts: ColumnReference(tuple(map(name_of, parts.tokens)), parts.position),
    "either": lambda parts: parts.operation("or"),
    "both": lambda parts: parts.operation("and"),
    "chain": _chain,
    "binary": lambda parts: parts.operation(_SAME_AS.get(parts.tokens[0], str(parts.tokens[0]))),
    "prefix": _prefix,
    "test": lambda parts: parts.operation(f"is {parts.tokens[-1].lower()}", negated=parts.has_not),
    # IS DISTINCT FROM without NOT says that the two differ.
    "distinct": lambda parts: parts.operation("is same", negated=not parts.has_not),
    "between": _between,
    "in_list": lambda parts: parts.operation("in", negated=parts.has_not),
    "like": lambda parts: parts.operation(parts.tokens[-1].lower(), negated=parts.has_not),
    "typed": lambda parts: parts.operation(f"cast {name_of(parts.tokens[0])}"),
    "call": lambda parts: parts.operation(name_of(parts.tokens[0])),
}


def name_of(token: Any) -> str:
    """Return the name that a token writes: a name in quotes as it is, any other in lower case."""
    return unquoted(token) if token.type == "QUOTED" else unicodedata.normalize("NFC", str(token).lower())


def unquoted(token: Any) -> str:
    """Return a text or name without its quotes."""
    quote = token[0]
    return str(token)[1:-1].replace(quote * 2, quote)
