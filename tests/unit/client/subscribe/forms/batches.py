"""Batches of statements about one table, whose rows are written by hand."""

from __future__ import annotations

from typing import Any, Final

from tidegate.changefeed.definition.feed import TableName
from tidegate.changefeed.definition.options import Format
from tidegate.client.subscribe.forms.batch_columns import BatchColumns
from tidegate.client.subscribe.forms.delivered_batch import DeliveredBatch
from tidegate.hlc import Timestamp
from tidegate.rows.sql_type import parse_sql_type
from tidegate.subscribe.plan import plan_subscribe
from tidegate.subscribe.statement.parser import parse_subscribe
from tidegate.subscribe.updates.frontier import Frontier
from tidegate.subscribe.updates.relation import Relation, Relations

AT: Final = Timestamp(5, 1)
ACCOUNTS: Final = (("id", "INT8"), ("balance", "DECIMAL(10,2)"), ("note", "STRING"))


def batch_of(
    statement: str,
    *rows: tuple[Any, ...],
    columns: tuple[tuple[str, str], ...] = ACCOUNTS,
    record_format: Format = Format.JSON,
) -> DeliveredBatch:
    """A batch of a statement about ``accounts``, whose key is its first column."""
    relation = Relation(
        TableName("accounts"),
        tuple(name for name, _ in columns),
        (columns[0][0],),
        types=tuple(parse_sql_type(sql) for _, sql in columns),
    )
    plan = plan_subscribe(parse_subscribe(statement), Relations([relation]), now_ns=0)
    shown = BatchColumns.of(plan, record_format)
    return DeliveredBatch(Frontier(Timestamp(9)), rows, True, None, False, shown)
