"""Clients are told the type of a column where its values' text is one of that type."""

from __future__ import annotations

import pytest

from tidegate.changefeed.definition.feed import TableName
from tidegate.rows.sql_type import parse_sql_type
from tidegate.serve.shown_types import stream_columns
from tidegate.serve.stream_source import ShownType
from tidegate.subscribe import Relation, Relations, parse_subscribe, plan_subscribe

_COLUMNS = {"id": "INT8", "price": "DECIMAL(10,2)", "note": "STRING", "paid": "BOOL", "more": "JSONB"}
RELATION = Relation(
    TableName("t"),
    tuple(_COLUMNS),
    ("id",),
    types=tuple(parse_sql_type(each) for each in _COLUMNS.values()),
)
INT8, NUMERIC, TEXT, BOOL = ShownType.INT8, ShownType.NUMERIC, ShownType.TEXT, ShownType.BOOL


@pytest.mark.parametrize(
    ("statement", "types"),
    [
        ("SUBSCRIBE t", (NUMERIC, INT8, INT8, NUMERIC, TEXT, BOOL, TEXT)),
        (
            "SUBSCRIBE t ENVELOPE UPSERT (KEY (note)) WITH (PROGRESS)",
            (NUMERIC, BOOL, TEXT, TEXT, INT8, NUMERIC, BOOL, TEXT),
        ),
        (
            "SUBSCRIBE (SELECT id, paid FROM t) ENVELOPE DEBEZIUM (KEY (id))",
            (NUMERIC, TEXT, INT8, BOOL, BOOL),
        ),
        ("SUBSCRIBE (SELECT price, id + 1 AS id, t.paid FROM t)", (NUMERIC, INT8, NUMERIC, TEXT, BOOL)),
        ("SUBSCRIBE (SELECT *, id FROM t)", (NUMERIC, INT8, INT8, NUMERIC, TEXT, BOOL, TEXT, INT8)),
    ],
)
def test_a_column_has_the_type_of_the_table(statement: str, types: tuple[ShownType, ...]) -> None:
    plan = plan_subscribe(parse_subscribe(statement), Relations([RELATION]), now_ns=0)
    columns = stream_columns(plan)
    assert len(columns.header) == len(types)
    assert columns.types == types


def test_columns_of_unknown_types_are_text() -> None:
    plan = plan_subscribe(
        parse_subscribe("SUBSCRIBE t"), Relations([Relation(TableName("t"), ("id",))]), now_ns=0
    )
    assert stream_columns(plan).types == (NUMERIC, INT8, TEXT)
