"""The one text of a query: equal for queries that mean the same, however they were written.

It goes into the fingerprints of resume tokens, so it is a stored form: a change of it makes tokens unusable.
"""

from __future__ import annotations

from decimal import Decimal

from tidegate.changefeed.definition.sql_identifier import quoted_identifier
from tidegate.subscribe.statement.expression import ColumnReference, Constant, Expression
from tidegate.subscribe.statement.statement import SelectItem, SelectQuery, SortItem


def query_text(query: SelectQuery) -> str:
    """Return the query as text, with every operation in parentheses and every name in quotes."""
    parts = [f"SELECT {', '.join(map(_item_text, query.items))}"]
    if query.where is not None:
        parts.append(f"WHERE {expression_text(query.where)}")
    if query.limit is not None or query.offset:
        if query.order_by:
            parts.append(f"ORDER BY {', '.join(map(sort_text, query.order_by))}")
        parts.append(f"LIMIT {'ALL' if query.limit is None else query.limit} OFFSET {query.offset}")
    return " ".join(parts)


def sort_text(item: SortItem) -> str:
    """Return an item of ORDER BY as text, with its direction and the place of its NULLs."""
    direction = "DESC" if item.order.descending else "ASC"
    return f"{expression_text(item.target)} {direction} NULLS {'FIRST' if item.order.nulls_first else 'LAST'}"


def expression_text(expression: Expression) -> str:
    """Return the expression's text: ``and(>("a", 1), is null("b"))``."""
    match expression:
        case Constant():
            return _constant_text(expression.value)
        case ColumnReference():
            return quoted_identifier(expression.parts[-1])
    return f"{expression.operator}({', '.join(map(expression_text, expression.operands))})"


def _constant_text(value: int | Decimal | str | bool | None) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case str():
            return "'" + value.replace("'", "''") + "'"
        case Decimal():
            return format(value, "f")
    return str(value)


def _item_text(item: SelectItem) -> str:
    if item.expression is None:
        return "*"
    name = f" AS {quoted_identifier(item.name)}" if item.name else ""
    return expression_text(item.expression) + name
