"""SUBSCRIBE statements, from text to ``SubscribeStatement``."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Final

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedInput

from tidegate.changefeed.text.surrogates import LONE_SURROGATE
from tidegate.subscribe.statement.expression import ColumnReference
from tidegate.subscribe.statement.expression_tree import name_of, read_expression, unquoted
from tidegate.subscribe.statement.faults import StatementFault, invalid_order_by
from tidegate.subscribe.statement.grammar import GRAMMAR
from tidegate.subscribe.statement.query_tree import read_query, read_relation, read_sort_item
from tidegate.subscribe.statement.statement import (
    BoundClause,
    OutputClause,
    OutputMode,
    SortItem,
    SubscribeStatement,
)
from tidegate.subscribe.statement.syntax_errors import found, syntax_error

#: The most characters of a statement. It takes 20 us for each word to parse a statement.
MOST_CHARACTERS: Final = 64 * 1024
_TRUTHS: Final = {
    **dict.fromkeys(("true", "t", "on", "yes", "1"), True),
    **dict.fromkeys(("false", "f", "off", "no", "0"), False),
}


@cache
def _parser() -> Lark:
    """Return the parser. The first call makes it: this takes 0.11 s, and most processes need no parser."""
    return Lark(GRAMMAR, parser="lalr", propagate_positions=True, maybe_placeholders=False)


def parse_subscribe(text: str) -> SubscribeStatement:
    """Parse one SUBSCRIBE, with or without a semicolon.

    Raises ``SubscribeStatementError`` with the code and the position of what is wrong.

    Example: ``SUBSCRIBE flights ENVELOPE UPSERT (KEY (id)) WITH (PROGRESS)``.
    """
    if len(text) > MOST_CHARACTERS:
        raise StatementFault.TOO_LARGE.error(
            f"the statement has {len(text)} characters, and {MOST_CHARACTERS} are possible"
        )
    half = LONE_SURROGATE.search(text)
    if half is not None:
        raise StatementFault.SYNTAX.error(
            f"the statement has half of a surrogate pair, {half[0]!a}, which is no character", half.start()
        )
    try:
        tree: Tree[Token] = _parser().parse(text).children[0]
    except UnexpectedInput as error:
        raise syntax_error(error, text) from None
    if tree.data == "tail":
        raise StatementFault.RENAMED.error("TAIL has been renamed to SUBSCRIBE", 0)
    return _statement(tree, text)


def _statement(tree: Tree[Token], text: str) -> SubscribeStatement:
    subject, *rest = tree.children
    clauses = [*rest[:-1], *rest[-1].children] if rest and rest[-1].data == "settings" else rest
    by_name: dict[str, list[Tree[Token]]] = {}
    for clause in clauses:
        by_name.setdefault(str(clause.data), []).append(clause)
    options = _options(by_name.get("with", ()))
    bounds = {name: _bound(trees[0], text) for name, trees in by_name.items() if name in ("as_of", "up_to")}
    return SubscribeStatement(
        subject=read_query(subject) if subject.data == "select" else read_relation(subject),
        output=_output(by_name.get("output", []), text),
        progress=options.get("progress", False),
        snapshot=options.get("snapshot", True),
        as_of=bounds.get("as_of"),
        up_to=bounds.get("up_to"),
    )


def _output(clauses: list[Tree[Token]], text: str) -> OutputClause:
    if not clauses:
        return OutputClause()
    if len(clauses) > 1:
        at = clauses[1].meta.start_pos
        raise StatementFault.CONFLICTING_MODIFIERS.error(
            f"Expected end of statement, found {found(text, at)}",
            at,
            "a SUBSCRIBE has one ENVELOPE or one WITHIN TIMESTAMP ORDER BY",
        )
    kind, *parts = clauses[0].children
    position = clauses[0].meta.start_pos
    if kind.type == "WITHIN":
        return OutputClause(OutputMode.ORDERED, order_by=tuple(map(_sort_item, parts)), position=position)
    mode = OutputMode.UPSERT if kind.type == "UPSERT" else OutputMode.DEBEZIUM
    return OutputClause(mode, key=tuple(map(_key_column, parts)), position=position)


def _sort_item(tree: Tree[Token]) -> SortItem:
    if tree.data == "sort_row":
        raise invalid_order_by(tree.meta.start_pos)
    return read_sort_item(tree)


def _key_column(tree: Tree[Token]) -> ColumnReference:
    return ColumnReference((name_of(tree.children[0]),), tree.meta.start_pos)


def _options(clauses: Iterable[Tree[Token]]) -> dict[str, bool]:
    options: dict[str, bool] = {}
    for option in (each for clause in clauses for each in clause.children):
        name = option.children[0]
        if name.lower() in options:
            raise StatementFault.REPEATED_OPTION.error(
                f"{name.type} specified more than once", name.start_pos
            )
        options[name.lower()] = _truth(name.type, option.children[1:])
    return options


def _truth(name: str, values: list[Tree[Token]]) -> bool:
    if not values:
        return True
    token = values[0].children[0]
    text = (unquoted(token) if token.type == "STRING" else str(token)).lower()
    if text not in _TRUTHS:
        raise StatementFault.INVALID_OPTION.error(
            f"invalid {name}: cannot use value as boolean", token.start_pos, "write TRUE or FALSE"
        )
    return _TRUTHS[text]


def _bound(tree: Tree[Token], text: str) -> BoundClause:
    expression = tree.children[-1]
    start, end = expression.meta.start_pos, expression.meta.end_pos
    at_least = len(tree.children) > 1
    return BoundClause(read_expression(expression), text[start:end], at_least, start)
