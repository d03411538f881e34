"""Cases of kind ``format``: updates and frontiers through the outputs stage.

Their integer t is the HLC timestamp (0, t). The statement of the case is planned, too, and has to mean what
the case's fields say. Cases follow Materialize's habits.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

from tests.conformance.case import Case
from tests.conformance.form import equal
from tests.conformance.subscribe_relations import relations_of, subscribe_of
from tidegate.hlc import Timestamp
from tidegate.subscribe.outputs.dialect import Dialect
from tidegate.subscribe.outputs.output_stage import OutputBounds, Outputs
from tidegate.subscribe.outputs.shape import DIFF_POSITION, OutputShape
from tidegate.subscribe.plan import SubscribePlan, plan_subscribe
from tidegate.subscribe.statement.parser import parse_subscribe
from tidegate.subscribe.statement.statement import SelectQuery
from tidegate.subscribe.updates.frontier import Frontier, Progress
from tidegate.subscribe.updates.update import RowValues, Update

_NO_BATCH: Final[list[Any]] = []
#: The meaning of a member that a case leaves out: what SUBSCRIBE's own default is, and an end of the stream.
_UNSAID: Final[Case] = {
    "mode": "diffs",
    "key": [],
    "order_by": [],
    "progress": False,
    "snapshot": True,
    "frontiers": [None],
    "compare": "exact",
}
_FLOATS: Final = frozenset({"double", "double precision", "float", "float4", "float8", "real"})
_FRACTIONS: Final = _FLOATS | {"decimal", "numeric"}


def check_format(case: Case) -> str | None:
    """Return what went wrong in the case, or ``None``."""
    case = _UNSAID | case
    statement = parse_subscribe(subscribe_of(case))
    if isinstance(statement.subject, SelectQuery):  # the case's columns and updates are those of the query
        statement = replace(statement, subject=statement.subject.source)
    plan = plan_subscribe(statement, relations_of(case), now_ns=0, dialect=Dialect.MATERIALIZE)
    said = {name: bound.wall for name, bound in (("as_of", plan.as_of), ("up_to", plan.up_to)) if bound}
    case = said | case
    failure = _compare_plan(case, plan)
    if failure is not None:
        return failure
    rows = list(map(_json_row, _rows(case, plan.shape)))
    return _compare(case, plan.shape, rows)


def _rows(case: Case, shape: OutputShape) -> list[RowValues]:
    outputs = Outputs(shape, _bounds(case), Dialect.MATERIALIZE)
    rows = outputs.opening()
    types = case.get("types") or []
    for time, diff, *values in case["input"]:
        outputs.add_updates([Update(at(time), diff, tuple(map(_datum, values, types or values)))])
    for frontier in case["frontiers"]:
        if frontier != _NO_BATCH:
            rows += outputs.advance(_progress(frontier))
    return rows


def _bounds(case: Case) -> OutputBounds:
    up_to = case.get("up_to")
    return OutputBounds(at(case["as_of"]), None if up_to is None else at(up_to), case["snapshot"])


def at(time: int) -> Timestamp:
    """The timestamp of a case's integer."""
    return Timestamp(0, time)


def _progress(frontier: int | None) -> Progress:
    return None if frontier is None else Frontier(at(frontier))


def _json_row(row: RowValues) -> list[Any]:
    time, *rest = row
    return [time.logical, *rest]


def _compare_plan(case: Case, plan: SubscribePlan) -> str | None:
    """Compare what the statement means with the fields of the case; a bound's integer is nanoseconds."""
    shape = plan.shape
    bounds = [None if bound is None else bound.wall for bound in (plan.as_of, plan.up_to)]
    seen = {
        "mode": shape.mode.value,
        "key": [shape.columns[position] for position in shape.key],
        "order_by": [_order_field(shape, position) for position in range(len(shape.order_by))],
        "progress": shape.progress,
        "snapshot": plan.snapshot,
        "bounds": bounds,
        "expect_columns": list(shape.header),
    }
    wanted = {
        **{name: case[name] for name in ("mode", "key", "progress", "snapshot", "expect_columns")},
        "order_by": [_wanted_order(case, item) for item in case["order_by"]],
        "bounds": [
            None if bound is None else wanted
            for bound, wanted in zip(bounds, (case["as_of"], case.get("up_to")), strict=True)
        ],
    }
    wrong = [name for name in seen if seen[name] != wanted[name]]
    return f"{wrong[0]}: expected {wanted[wrong[0]]}, got {seen[wrong[0]]}" if wrong else None


def _order_field(shape: OutputShape, item: int) -> tuple[int, bool, bool]:
    row_order = shape.order_by[item]
    return (row_order.position, row_order.order.descending, row_order.order.nulls_first)


def _wanted_order(case: Case, item: dict[str, Any]) -> tuple[int, bool, bool]:
    """An item as the case writes it; without ``nulls`` they are last when ascending, else first."""
    descending = str(item.get("dir") or "asc").lower() == "desc"
    nulls = str(item.get("nulls") or ("first" if descending else "last")).lower()
    if "pos" in item:
        position = item["pos"] - 2
    else:
        position = DIFF_POSITION if item["col"] == "mz_diff" else case["columns"].index(item["col"])
    return (position, descending, nulls == "first")


def _datum(value: Any, sql_type: Any) -> Any:
    """A value of a case as a row has it: numbers that JSON has no form for are written as texts."""
    if isinstance(value, str) and sql_type in _FRACTIONS:
        return float(value) if sql_type in _FLOATS or value.lower() == "nan" else Decimal(value)
    return value


def _expected(case: Case, shape: OutputShape) -> list[list[Any]]:
    types = dict(zip(case["columns"], case.get("types") or (), strict=False))
    columns = [types.get(name.removeprefix("before_").removeprefix("after_")) for name in shape.header]
    return [list(map(_datum, row, columns)) for row in case["expect"]]


def _compare(case: Case, shape: OutputShape, rows: list[list[Any]]) -> str | None:
    expected = _expected(case, shape)
    match case["compare"]:
        case "exact":
            same = _same(rows, expected)
        case "set_within_timestamp":  # what progress rows close has to be the same as well
            same = _sorted(rows) == _sorted(expected) and _marks(case, rows) == _marks(case, expected)
        case "set" | "unordered":
            same = _sorted(rows) == _sorted(expected)
        case "order_keys_only":
            same = _sorted(rows) == _sorted(expected) and _keys(shape, rows) == _keys(shape, expected)
        case other:
            return f"unknown comparison {other}"
    return None if same else f"expected {expected}, got {rows}"


def _sorted(rows: Sequence[list[Any]]) -> list[str]:
    return sorted(json.dumps(row, default=str) for row in rows)


def _same(rows: Sequence[list[Any]], expected: Sequence[list[Any]]) -> bool:
    """Whether the rows are the expected ones in the same order; NaN is the same as itself."""
    return [len(row) for row in rows] == [len(row) for row in expected] and all(
        equal(one, other)
        for row, wanted in zip(rows, expected, strict=True)
        for one, other in zip(row, wanted, strict=True)
    )


def _marks(case: Case, rows: Sequence[list[Any]]) -> list[list[Any]]:
    return [row[: 2 if case["progress"] else 1] for row in rows]


def _keys(shape: OutputShape, rows: Sequence[list[Any]]) -> list[list[Any]]:
    first = shape.header.index("mz_diff") + 1
    return [[row[0], *(row[first + item.position] for item in shape.order_by)] for row in rows]
