"""Reads relations and queries out of the grammar's tree."""

from __future__ import annotations

from typing import Any, Final

from lark import Token, Tree

from tidegate.subscribe.statement.expression_tree import name_of, read_expression
from tidegate.subscribe.statement.faults import StatementFault
from tidegate.subscribe.statement.statement import NamedRelation, SelectItem, SelectQuery, SortItem
from tidegate.subscribe.updates.value_order import ValueOrder

_MOST_PARTS: Final = 3
_MOST_ROWS: Final = 2**63 - 1
_MOST_DIGITS: Final = len(str(_MOST_ROWS))


def read_relation(tree: Tree[Token], alias: str = "") -> NamedRelation:
    """Read a relation's name. Raises ``SubscribeStatementError`` for more than three parts."""
    if len(tree.children) > _MOST_PARTS:
        raise StatementFault.SYNTAX.error(
            "a name has at most three parts: database.schema.table", tree.meta.start_pos
        )
    return NamedRelation(tuple(map(name_of, tree.children)), alias, tree.meta.start_pos)


def read_query(tree: Tree[Token]) -> SelectQuery:
    """Return the query of a tree. Raises ``SubscribeStatementError`` if LIMIT is no number of rows."""
    parts: dict[str, list[Any]] = {str(part.data): part.children for part in tree.children}
    relation, *alias = parts["source"]
    return SelectQuery(
        items=tuple(map(_item, parts["items"])),
        source=read_relation(relation, name_of(alias[0]) if alias else ""),
        where=read_expression(parts["where"][0]) if "where" in parts else None,
        order_by=tuple(map(read_sort_item, parts.get("order", ()))),
        limit=_row_count(parts["limit"][0]) if "limit" in parts else None,
        offset=_row_count(parts["offset"][0]) if "offset" in parts else 0,
    )


def _item(tree: Tree[Token]) -> SelectItem:
    first, *alias = tree.children
    if isinstance(first, Token):
        return SelectItem(None)
    return SelectItem(read_expression(first), name_of(alias[0]) if alias else "")


def read_sort_item(tree: Tree[Token]) -> SortItem:
    """Read an item of ORDER BY.

    If the item does not say where NULLs stand, they are last when ascending, first when descending.
    """
    expression, *marks = tree.children
    words = {str(mark.data): mark.children[0].type for mark in marks}
    descending = words.get("direction") == "DESC"
    nulls_first = words["nulls"] == "FIRST" if "nulls" in words else descending
    return SortItem(read_expression(expression), ValueOrder(descending, nulls_first), tree.meta.start_pos)


def _row_count(token: Token) -> int:
    if not token.isdigit() or len(token) > _MOST_DIGITS or int(token) > _MOST_ROWS:
        raise StatementFault.SYNTAX.error(f"Expected a number of rows, found {token[:30]}", token.start_pos)
    return int(token)
