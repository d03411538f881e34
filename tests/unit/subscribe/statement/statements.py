"""Random statements, and the text of each."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from tidegate.changefeed.definition.sql_identifier import quoted_identifier
from tidegate.subscribe.statement.expression import ColumnReference, Constant, Expression, Operation
from tidegate.subscribe.statement.statement import (
    BoundClause,
    NamedRelation,
    OutputClause,
    OutputMode,
    SelectItem,
    SelectQuery,
    SortItem,
    SubscribeStatement,
)
from tidegate.subscribe.updates.value_order import ValueOrder

#: Words that are keywords somewhere, and names everywhere else.
UNRESERVED = (
    "key",
    "progress",
    "snapshot",
    "upsert",
    "debezium",
    "envelope",
    "within",
    "up",
    "last",
    "desc",
    "at",
)
names = st.sampled_from((*UNRESERVED, "a", "Mixed", 'with "quotes"', "select", "ünder", "x1$"))
_constants = st.builds(
    Constant,
    st.none()
    | st.booleans()
    | st.integers(-100, 10**20)
    | st.decimals(0, 1000, places=3).map(lambda value: value.copy_abs())
    | st.text("ab'\"%_\\ -", max_size=5),
)
_columns = st.builds(ColumnReference, st.lists(names, min_size=1, max_size=2).map(tuple))
_BINARY = (
    "and",
    "or",
    "+",
    "-",
    "*",
    "/",
    "%",
    "||",
    "=",
    "<>",
    "<",
    "<=",
    ">",
    ">=",
    "like",
    "ilike",
    "is same",
)
_UNARY = ("not", "is null", "is true", "is false", "is unknown", "cast text", "lower")


def _operations(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    return st.one_of(
        st.builds(Operation, st.sampled_from(_BINARY), st.tuples(inner, inner)),
        st.builds(Operation, st.sampled_from(_UNARY), st.tuples(inner)),
        st.builds(Operation, st.just("in"), st.lists(inner, min_size=2, max_size=4).map(tuple)),
        st.builds(Operation, st.just("coalesce"), st.lists(inner, min_size=1, max_size=3).map(tuple)),
    )


expressions: st.SearchStrategy[Expression] = st.recursive(_constants | _columns, _operations, max_leaves=6)
_orders = st.builds(ValueOrder, st.booleans(), st.booleans())
_sorts = st.lists(st.builds(SortItem, expressions, _orders), min_size=1, max_size=3).map(tuple)
_relations = st.builds(NamedRelation, st.lists(names, min_size=1, max_size=3).map(tuple))
_items = st.one_of(
    st.just(SelectItem(None)), st.builds(SelectItem, expressions, st.one_of(st.just(""), names))
)
_queries = st.builds(
    SelectQuery,
    st.lists(_items, min_size=1, max_size=3).map(tuple),
    st.builds(
        NamedRelation, st.lists(names, min_size=1, max_size=3).map(tuple), st.one_of(st.just(""), names)
    ),
    st.none() | expressions,
    st.just(()) | _sorts,
    st.none() | st.integers(0, 100),
    st.integers(0, 3),
)
_keys = st.lists(st.builds(ColumnReference, st.tuples(names)), min_size=1, max_size=3).map(tuple)
_outputs = st.one_of(
    st.just(OutputClause()),
    st.builds(OutputClause, st.sampled_from((OutputMode.UPSERT, OutputMode.DEBEZIUM)), _keys),
    st.builds(OutputClause, st.just(OutputMode.ORDERED), order_by=_sorts),
)
statements = st.builds(
    SubscribeStatement, _relations | _queries, _outputs, st.booleans(), st.booleans(), st.none(), st.none()
)


def statement_text(statement: SubscribeStatement, *, late: bool) -> str:
    """The statement as SQL; ``late`` puts the output clause at the end, where it stood once."""
    subject, output = statement.subject, _output_text(statement.output)
    what = f"({_query_text(subject)})" if isinstance(subject, SelectQuery) else _relation_text(subject)
    options = f"WITH (PROGRESS = {statement.progress}, SNAPSHOT {str(statement.snapshot).lower()})"
    bounds = "AS OF 5 UP TO 7"
    parts = [options, bounds, output] if late else [output, options, bounds]
    return f"SUBSCRIBE TO {what} {' '.join(parts)};"


def bounded(statement: SubscribeStatement) -> SubscribeStatement:
    """The statement with the bounds that ``statement_text`` gives it."""
    from dataclasses import replace

    as_of, up_to = (BoundClause(Constant(value), str(value)) for value in (5, 7))
    return replace(statement, as_of=as_of, up_to=up_to)


def _output_text(output: OutputClause) -> str:
    match output.mode:
        case OutputMode.DIFFS:
            return ""
        case OutputMode.ORDERED:
            return f"WITHIN TIMESTAMP ORDER BY {_sorts_text(output.order_by)}"
    return f"ENVELOPE {output.mode.name} (KEY ({', '.join(map(_text, output.key))}))"


def _query_text(query: SelectQuery) -> str:
    items = ", ".join(
        "*"
        if item.expression is None
        else _text(item.expression) + (f" AS {quoted_identifier(item.name)}" if item.name else "")
        for item in query.items
    )
    alias = f" AS {quoted_identifier(query.source.alias)}" if query.source.alias else ""
    return " ".join(
        (
            f"SELECT {items} FROM {_relation_text(query.source)}{alias}",
            "" if query.where is None else f"WHERE {_text(query.where)}",
            f"ORDER BY {_sorts_text(query.order_by)}" if query.order_by else "",
            "" if query.limit is None else f"LIMIT {query.limit}",
            f"OFFSET {query.offset}" if query.offset else "",
        )
    )


def _relation_text(relation: NamedRelation) -> str:
    return ".".join(map(quoted_identifier, relation.parts))


def _sorts_text(items: tuple[SortItem, ...]) -> str:
    return ", ".join(
        f"{_text(item.target)} {'DESC' if item.order.descending else 'ASC'} "
        f"NULLS {'FIRST' if item.order.nulls_first else 'LAST'}"
        for item in items
    )


def _text(expression: Expression) -> str:
    match expression:
        case Constant():
            return _constant_text(expression.value)
        case ColumnReference():
            return ".".join(map(quoted_identifier, expression.parts))
    name, operands = expression.operator, [f"({_text(each)})" for each in expression.operands]
    match name:
        case "in":
            return f"{operands[0]} IN ({', '.join(operands[1:])})"
        case "is same":
            return f"{operands[0]} IS NOT DISTINCT FROM {operands[1]}"
        case "not":
            return f"NOT {operands[0]}"
        case "lower" | "coalesce":
            return f"{name}({', '.join(operands)})"
        case "cast text":
            return f"{operands[0]}::text"
    return f"{operands[0]} {name}" if len(operands) == 1 else f" {name} ".join(operands)


def _constant_text(value: Any) -> str:
    match value:
        case None | bool():
            return "NULL" if value is None else str(value).upper()
        case str():
            return "'" + value.replace("'", "''") + "'"
        case Decimal():
            return format(value, "f")
    return str(value)
