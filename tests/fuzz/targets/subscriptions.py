"""SUBSCRIBE statements, and what they make of rows."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from random import Random
from typing import Final

from tests.fuzz.mutators import reworded, text_bytes, text_of
from tests.fuzz.target import Target, require
from tests.unit.subscribe.topic_histories import RELATION
from tidegate.errors import EvaluationError, SubscribeStatementError
from tidegate.hlc import Timestamp
from tidegate.subscribe.outputs.dialect import Dialect
from tidegate.subscribe.plan import plan_subscribe
from tidegate.subscribe.statement.parser import parse_subscribe
from tidegate.subscribe.updates.relation import Relations
from tidegate.subscribe.updates.update import RowValues, Update

_NOW: Final = 1_700_000_000_000_000_000
_TABLES: Final = Relations([RELATION])
_FIRST, _SECOND, _THIRD = RELATION.columns[:3]
_STATEMENTS: Final = (
    "SUBSCRIBE accounts WITH (PROGRESS, SNAPSHOT = false) "
    "AS OF AT LEAST 5 UP TO 1700000000000000000.0000000001",
    f"SUBSCRIBE TO accounts ENVELOPE UPSERT (KEY ({_FIRST})) WITH (PROGRESS)",
    f"SUBSCRIBE accounts ENVELOPE DEBEZIUM (KEY ({_FIRST}, {_SECOND}))",
    f"SUBSCRIBE accounts WITHIN TIMESTAMP ORDER BY mz_diff DESC NULLS FIRST, {_SECOND}",
    f"SUBSCRIBE (SELECT {_FIRST} AS k, {_SECOND} + 1, lower({_THIRD}) FROM accounts AS a "
    f"WHERE a.{_FIRST} > 3 AND {_THIRD} LIKE 'a%' OR {_SECOND} IS NULL ORDER BY 2 DESC, k LIMIT 5 OFFSET 1)",
    f"SUBSCRIBE (SELECT *, {_FIRST} * 2 / {_SECOND} - 1 % 3, CAST({_FIRST} AS text) || 'x', {_THIRD}::int "
    f"FROM accounts WHERE NOT {_FIRST} IN (1, 2, NULL) AND {_SECOND} BETWEEN -1 AND 1e3)",
    "SUBSCRIBE accounts /* why */ AS OF TIMESTAMP '2023-11-14 22:13:20' -- until now\n",
)
_WORDS: Final = (
    *("SUBSCRIBE", "SELECT", "FROM", "WHERE", "ORDER BY", "LIMIT", "OFFSET", "AS OF", "UP TO", "AT LEAST"),
    *(
        "KEY",
        "ENVELOPE",
        "UPSERT",
        "DEBEZIUM",
        "WITHIN TIMESTAMP",
        "PROGRESS",
        "SNAPSHOT",
        "AND",
        "OR",
        "NOT",
    ),
    *("IS", "IN", "LIKE", "ILIKE", "BETWEEN", "CASE", "WHEN", "THEN", "END", "CAST", "NULL", "::", "int"),
    *("text", "numeric", "+", "-", "*", "/", "%", "||", "=", "<>", "<", ">=", "(", ")", ",", ".", ";", "--"),
    *("/*", "*/", "'", '"', "abs(", "length(", "coalesce(", "round(", "upper(", "now()", "mz_now()"),
    *("mz_timestamp", "mz_diff", _FIRST, _SECOND, _THIRD, "accounts", "0", "1e999", "9" * 30, "9" * 5_000),
    *("x" * 5_000, "'%_\\'", "é", "\0", "\ud800"),
)
#: Values of any type stand in each column: what a statement says of them is decided when it meets them.
_VALUES: Final = (
    *(None, 0, 1, -1, 2**63, True, False, 0.0, -1.5, float("inf"), float("nan"), Decimal("1E+20")),
    *(Decimal("0.1"), "", "a", "ab%_\\", "é", "17", "x" * 300, b"\0", [1, None], '{"a": 1}'),
    datetime(2023, 11, 14, tzinfo=UTC),
)


def _draw(chance: Random) -> bytes:
    return bytes([chance.randrange(256)]) + text_bytes(reworded(chance, chance.choice(_STATEMENTS), _WORDS))


def _run(data: bytes) -> None:
    chance, dialect = Random(data[0] if data else 0), (*Dialect,)[data[0] % 2 if data else 0]
    plan = plan_subscribe(parse_subscribe(text_of(data[1:])), _TABLES, _NOW, dialect)
    selection = plan.selection()
    if selection is None:
        return
    require(len(selection.columns) == len(selection.sources), "columns and their sources differ in number")
    updates = [Update(Timestamp(1), 1, _row(chance)) for _ in range(5)]
    for shown in selection.apply(updates):
        require(len(shown.row) == len(selection.columns), "a row has other columns than its query")


def _row(chance: Random) -> RowValues:
    return tuple(chance.choice(_VALUES) for _ in RELATION.columns)


TARGETS: Final = (Target("subscriptions", _draw, _run, (SubscribeStatementError, EvaluationError)),)
