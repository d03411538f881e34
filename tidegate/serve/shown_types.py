"""The types that the server tells clients for the columns of a subscription."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tidegate.rows.types import Kind, SqlType
from tidegate.serve.stream_source import ShownType, StreamColumns
from tidegate.subscribe.outputs.shape import (
    DIFF_COLUMN,
    PROGRESSED_COLUMN,
    STATE_COLUMN,
    TIMESTAMP_COLUMN,
)
from tidegate.subscribe.plan import SubscribePlan
from tidegate.subscribe.statement.expression import ColumnReference
from tidegate.subscribe.statement.statement import OutputMode, SelectItem
from tidegate.subscribe.updates.relation import Relation

#: Types whose values have, in a JSON feed, the text that clients of PostgreSQL read as that type. JSONB is
#: not among them: a text in it has lost its quotes.
_SHOWN: Final[Mapping[Kind, ShownType]] = {
    Kind.BOOL: ShownType.BOOL,
    Kind.INT: ShownType.INT8,
    Kind.FLOAT: ShownType.FLOAT8,
    Kind.DECIMAL: ShownType.NUMERIC,
    Kind.BYTES: ShownType.BYTEA,
    Kind.UUID: ShownType.UUID,
}
_OWN: Final = {
    TIMESTAMP_COLUMN: ShownType.NUMERIC,
    PROGRESSED_COLUMN: ShownType.BOOL,
    DIFF_COLUMN: ShownType.INT8,
    STATE_COLUMN: ShownType.TEXT,
}


def stream_columns(plan: SubscribePlan) -> StreamColumns:
    """Return the columns of a plan's rows.

    If a query shows a column of the table, that column keeps its type. An expression is shown as text.
    """
    shape = plan.shape
    types = _column_types(plan)
    if shape.key:
        shown = [types[at] for at in shape.key]
        copies = 2 if shape.mode is OutputMode.DEBEZIUM else 1
        shown += [types[at] for at in shape.rest] * copies
    else:
        shown = types
    own = [_OWN[name] for name in shape.header[: len(shape.header) - len(shown)]]
    return StreamColumns(shape.header, (*own, *shown))


def _column_types(plan: SubscribePlan) -> list[ShownType]:
    if plan.query is None:
        return _table_types(plan.relation)
    return [found for item in plan.query.items for found in _item_types(item, plan.relation)]


def _item_types(item: SelectItem, relation: Relation) -> Iterator[ShownType]:
    if item.expression is None:
        yield from _table_types(relation)
    elif isinstance(item.expression, ColumnReference):
        at = relation.positions(item.expression.parts[-1])
        yield _table_types(relation)[at[0]] if len(at) == 1 else ShownType.TEXT
    else:
        yield ShownType.TEXT


def _table_types(relation: Relation) -> list[ShownType]:
    if len(relation.types) != len(relation.columns):
        return [ShownType.TEXT] * len(relation.columns)
    return [shown_type(each) for each in relation.types]


def shown_type(sql_type: SqlType) -> ShownType:
    """Return the type that a client is told for a column of an SQL type."""
    return _SHOWN.get(sql_type.kind, ShownType.TEXT)
