"""A table of a typed column ``v`` beside its key ``id``, with values as feeds in JSON and Avro have them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from io import BytesIO
from typing import Any, Final

from fastavro import parse_schema, schemaless_writer

from tidegate.changefeed.definition.feed import TableName
from tidegate.changefeed.encoding.avro.decode import AvroReader
from tidegate.changefeed.encoding.avro.field_types import field_type
from tidegate.changefeed.encoding.json.parsing import parse
from tidegate.changefeed.text.json_text import text_encoder
from tidegate.hlc import Timestamp
from tidegate.rows.types import Kind, SqlType
from tidegate.subscribe.outputs.output_stage import OutputBounds, Outputs
from tidegate.subscribe.plan import SubscribePlan, plan_subscribe
from tidegate.subscribe.statement.parser import parse_subscribe
from tidegate.subscribe.updates.frontier import Frontier
from tidegate.subscribe.updates.relation import Relation, Relations
from tidegate.subscribe.updates.update import Update

FORMATS: Final = ("json", "avro")
_TIME: Final = Timestamp(1)


def as_read(sql_type: SqlType, datum: Any, record_format: str) -> Any:
    """A datum as a reader of the feed's records has it."""
    if datum is None:
        return None
    if record_format == "json":
        return parse(f'{{"v": {text_encoder(sql_type)(datum)}}}'.encode(), dict)["v"]
    branches, convert = field_type(sql_type, "t.v")
    schema = {"type": "record", "name": "t", "fields": [{"name": "v", "type": ["null", *branches]}]}
    body = BytesIO()
    schemaless_writer(body, parse_schema(schema), {"v": convert(datum)})
    framed = bytes(5) + body.getvalue()
    return AvroReader(lambda _: json.dumps(schema)).read(framed)["v"]


def plan(statement: str, sql_type: SqlType) -> SubscribePlan:
    """The plan of a statement about the table ``t``, whose column ``w`` is of the type too."""
    types = (SqlType(Kind.INT), sql_type, sql_type)
    relation = Relation(TableName("t"), ("id", "v", "w"), ("id",), types=types)
    return plan_subscribe(parse_subscribe(statement), Relations([relation]), now_ns=0)


def rows_of(
    query: str, sql_type: SqlType, datums: Sequence[Any], record_format: str = "json"
) -> list[tuple[Any, ...]]:
    """The rows of a query; ``id`` counts the datums from 0, ``w`` is the first of them."""
    selection = plan(f"SUBSCRIBE ({query})", sql_type).selection()
    assert selection is not None
    values = [as_read(sql_type, datum, record_format) for datum in datums]
    updates = [Update(_TIME, 1, (at, value, values[0])) for at, value in enumerate(values)]
    return [each.row for each in selection.apply(updates)]


def ids_where(condition: str, sql_type: SqlType, datums: Sequence[Any], record_format: str) -> list[int]:
    """The ``id`` of the rows for which a condition is true."""
    return [row[0] for row in rows_of(f"SELECT id FROM t WHERE {condition}", sql_type, datums, record_format)]


def ids_first(order: str, sql_type: SqlType, datums: Sequence[Any], record_format: str) -> list[int]:
    """The ``id`` of all rows in an order, which LIMIT 1, LIMIT 2 and so on find row by row."""
    found: list[int] = []
    for limit in range(1, len(datums) + 1):
        query = f"SELECT id, v FROM t ORDER BY {order} LIMIT {limit}"
        rows = {row[0] for row in rows_of(query, sql_type, datums, record_format)}
        (new,) = rows.difference(found)
        found.append(new)
    return found


def ids_within_timestamp(
    order: str, sql_type: SqlType, datums: Sequence[Any], record_format: str
) -> list[int]:
    """The ``id`` of all rows as WITHIN TIMESTAMP ORDER BY puts them."""
    found = plan(f"SUBSCRIBE t WITHIN TIMESTAMP ORDER BY {order}", sql_type)
    outputs = Outputs(found.shape, OutputBounds(_TIME))
    values = [as_read(sql_type, datum, record_format) for datum in datums]
    outputs.add_updates(Update(_TIME, 1, (at, value, None)) for at, value in enumerate(values))
    return [row[2] for row in outputs.advance(Frontier(Timestamp(2)))]
