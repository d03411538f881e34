"""The SQL types of a subscription's columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tidegate.rows.types import Kind, SqlType
from tidegate.subscribe.plan import SubscribePlan
from tidegate.subscribe.statement.expression import ColumnReference, Expression, Operation
from tidegate.subscribe.statement.statement import OutputMode, SelectItem
from tidegate.subscribe.updates.relation import Relation

_CAST: Final = "cast "
_CASTS: Final[Mapping[str, SqlType]] = {
    **dict.fromkeys(("bigint", "int", "int2", "int4", "int8", "integer", "smallint"), SqlType(Kind.INT)),
    **dict.fromkeys(("string", "text", "varchar"), SqlType(Kind.STRING)),
    **dict.fromkeys(("double", "float", "float4", "float8", "real"), SqlType(Kind.FLOAT)),
    **dict.fromkeys(("bool", "boolean"), SqlType(Kind.BOOL)),
}
_TRUTHS: Final = frozenset({"and", "or", "not", "=", "<>", "<", "<=", ">", ">=", "in", "like", "ilike"})


def value_types(plan: SubscribePlan) -> tuple[SqlType | None, ...]:
    """Return the SQL types of a statement's columns, in the order of the header, without SUBSCRIBE's own
    columns.

    A column of a query that shows a column of the table has the type of that column. A comparison and a
    logical operation have BOOL. A cast to an integer, a text, a float or a boolean has the type that it
    names. ``None`` stands for any other expression, and for all columns of a table whose types are not known.
    """
    shape = plan.shape
    types = _column_types(plan)
    if not shape.key:
        return tuple(types)
    copies = 2 if shape.mode is OutputMode.DEBEZIUM else 1
    return (*(types[at] for at in shape.key), *[types[at] for at in shape.rest] * copies)


def key_columns(plan: SubscribePlan) -> tuple[str, ...]:
    """Return the names that the columns of the table's primary key have in the statement's rows.

    Returns an empty tuple if the rows do not show all columns of the key.
    """
    if plan.query is None:
        return plan.relation.primary_key
    sources = [name for item in plan.query.items for name in _item_sources(item, plan.relation)]
    shown = dict(zip(reversed(sources), reversed(plan.shape.columns), strict=True))
    names = [shown.get(name) for name in plan.relation.primary_key]
    return tuple(name for name in names if name is not None) if None not in names else ()


def _item_sources(item: SelectItem, relation: Relation) -> tuple[str, ...]:
    """Return the names of the table's columns that an item shows. If it shows no column as it is, the name is
    empty."""
    if item.expression is None:
        return relation.columns
    return (item.expression.parts[-1] if isinstance(item.expression, ColumnReference) else "",)


def _column_types(plan: SubscribePlan) -> list[SqlType | None]:
    if plan.query is None:
        return _table_types(plan.relation)
    return [found for item in plan.query.items for found in _item_types(item, plan.relation)]


def _item_types(item: SelectItem, relation: Relation) -> Iterator[SqlType | None]:
    if item.expression is None:
        yield from _table_types(relation)
    else:
        yield _expression_type(item.expression, relation)


def _expression_type(expression: Expression, relation: Relation) -> SqlType | None:
    match expression:
        case ColumnReference():
            at = relation.positions(expression.parts[-1])
            return _table_types(relation)[at[0]] if len(at) == 1 else None
        case Operation() if expression.operator.startswith(_CAST):
            return _CASTS.get(expression.operator.removeprefix(_CAST))
        case Operation() if expression.operator in _TRUTHS or expression.operator.startswith("is "):
            return SqlType(Kind.BOOL)
    return None


def _table_types(relation: Relation) -> list[SqlType | None]:
    if len(relation.types) != len(relation.columns):
        return [None] * len(relation.columns)
    return list(relation.types)
