"""Batches as Arrow tables: typed by the table's columns, exact, and of one schema whatever rows they have."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.client.subscribe.forms.batches import AT, batch_of
from tidegate.changefeed.definition.options import Format
from tidegate.errors import InputError, RowError

pa = pytest.importorskip("pyarrow")

#: A SQL type, a value of a JSON feed, what Arrow has, and its type.
VALUES = [
    ("BOOL", True, True, "bool"),
    ("INT8", -(2**63), -(2**63), "int64"),
    ("FLOAT8", Decimal("0.1"), 0.1, "double"),
    ("FLOAT8", "NaN", None, "double"),
    ("DECIMAL(38,2)", Decimal("9" * 36 + ".25"), Decimal("9" * 36 + ".25"), "decimal128(38, 2)"),
    ("DECIMAL(10,2)", 7, Decimal("7.00"), "decimal128(10, 2)"),
    ("DECIMAL", Decimal("1.50"), "1.50", "string"),
    ("DECIMAL(39,2)", Decimal("1.50"), "1.50", "string"),
    ("STRING", "é<", "é<", "string"),
    ("BYTES", "\\x00ff", b"\x00\xff", "binary"),
    ("UUID", "63616665-6630-3064-6465-616462656568", "63616665-6630-3064-6465-616462656568", "string"),
    ("DATE", "2022-01-08", date(2022, 1, 8), "date32[day]"),
    ("TIMESTAMP", "2023-11-14T22:13:20.5", datetime(2023, 11, 14, 22, 13, 20, 500000), "timestamp[us]"),
    (
        "TIMESTAMPTZ",
        "2023-11-14T22:13:20Z",
        datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC),
        "timestamp[us, tz=UTC]",
    ),
    ("JSONB", {"a": [Decimal("1.0"), None]}, '{"a": [1.0, null]}', "string"),
    ("INT8[]", [1, None, 3], [1, None, 3], "list<item: int64>"),
    ("DATE[]", ["2022-01-08"], [date(2022, 1, 8)], "list<item: date32[day]>"),
]


def column_of(sql: str, *values: Any, record_format: Format = Format.JSON) -> Any:
    """The Arrow column of values of one SQL type."""
    rows = [(AT, 1, at, value) for at, value in enumerate(values)]
    batch = batch_of(
        "SUBSCRIBE accounts", *rows, columns=(("id", "INT8"), ("v", sql)), record_format=record_format
    )
    return batch.arrow().column("v")


@pytest.mark.parametrize(("sql", "value", "expected", "told"), VALUES)
def test_a_value_is_what_it_is_in_the_table(sql: str, value: Any, expected: Any, told: str) -> None:
    column = column_of(sql, value, None)
    assert str(column.type) == told
    found, none = column.to_pylist()
    assert none is None
    assert found == expected or (value == "NaN" and found != found)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**30), max_value=10**30))
def test_no_digit_of_a_decimal_is_lost(value: Decimal) -> None:
    assert column_of("DECIMAL(38,4)", value).to_pylist() == [value]
    assert column_of("DECIMAL", value).to_pylist() == [json.dumps(str(value)).strip('"')]


_COLUMNS = {
    "BOOL": st.booleans(),
    "INT8": st.integers(-(2**63), 2**63 - 1),
    "DECIMAL(12,3)": st.decimals(-(10**9) + 1, 10**9 - 1, places=3),
    "DECIMAL": st.decimals(allow_nan=False, allow_infinity=False).map(str),
    "STRING": st.text(),
    "INT8[]": st.lists(st.one_of(st.none(), st.integers(-9, 9)), max_size=3),
}


@st.composite
def _typed_rows(draw: st.DrawFn) -> tuple[tuple[tuple[str, str], ...], list[tuple[Any, ...]]]:
    """Columns of random types, and rows of their values and NULLs."""
    types = draw(st.lists(st.sampled_from(sorted(_COLUMNS)), min_size=1, max_size=4))
    columns = tuple((f"c{at}", sql) for at, sql in enumerate(types))
    values = st.tuples(*(st.one_of(st.none(), _COLUMNS[sql]) for sql in types))
    return columns, draw(st.lists(values, max_size=5))


@given(_typed_rows())
def test_a_table_has_the_values_of_the_rows(
    drawn: tuple[tuple[tuple[str, str], ...], list[tuple[Any, ...]]],
) -> None:
    columns, values = drawn
    batch = batch_of("SUBSCRIBE accounts", *((AT, 1, *row) for row in values), columns=columns)
    table = batch.arrow()
    assert table.schema == batch_of("SUBSCRIBE accounts", columns=columns).arrow().schema
    assert [tuple(row.values())[2:] for row in table.to_pylist()] == values


def test_an_empty_batch_has_the_same_columns() -> None:
    statement = "SUBSCRIBE accounts ENVELOPE DEBEZIUM (KEY (id)) WITH (PROGRESS)"
    row = (AT, False, "insert", 1, None, None, Decimal("1.25"), "x")
    one, none = batch_of(statement, row).arrow(), batch_of(statement).arrow()
    assert one.schema == none.schema
    assert [str(field.type) for field in one.schema] == [
        *("decimal128(29, 10)", "bool", "string", "int64"),
        *("decimal128(10, 2)", "string", "decimal128(10, 2)", "string"),
    ]
    assert one.column("mz_timestamp").to_pylist() == [Decimal("5.0000000001")]
    assert one.column("before_balance").to_pylist() == [None]


def test_a_progress_row_has_nulls_behind_it() -> None:
    progress = (AT, True, None, None, None, None)
    table = batch_of("SUBSCRIBE accounts WITH (PROGRESS)", progress).arrow()
    assert table.to_pylist() == [
        {"mz_timestamp": Decimal("5.0000000001"), "mz_progressed": True}
        | dict.fromkeys(("mz_diff", "id", "balance", "note"))
    ]


def test_columns_of_a_query_have_the_types_of_what_they_are() -> None:
    query = "SELECT balance AS b, id > 1 AS more, id::text AS t, balance * 2 AS twice FROM accounts"
    table = batch_of(f"SUBSCRIBE ({query})", (AT, 1, Decimal("1.50"), True, "1", Decimal("3.00"))).arrow()
    assert [str(field.type) for field in table.schema][2:] == [
        "decimal128(10, 2)",
        "bool",
        "string",
        "string",
    ]
    assert table.column("twice").to_pylist() == ["3.00"]


@pytest.mark.parametrize(("sql", "value"), [("DECIMAL(10,2)", "NaN"), ("DATE", "infinity"), ("INT8", "x")])
def test_a_value_without_a_form_is_named_and_can_be_had_as_text(sql: str, value: str) -> None:
    columns = (("id", "INT8"), ("v", sql))
    batch = batch_of("SUBSCRIBE accounts", (AT, 1, 1, value), columns=columns)
    with pytest.raises(RowError, match=r"column v of type .* take it as text, with as_text=\['v'\]"):
        batch.arrow()
    assert batch.arrow(as_text=["v"]).column("v").to_pylist() == [value]
    with pytest.raises(InputError, match="names mz_diff, which is no column"):
        batch.arrow(as_text=["mz_diff"])


def test_avro_records_have_values_where_json_has_texts() -> None:
    moment = datetime(2023, 11, 14, tzinfo=UTC)
    assert column_of("TIMESTAMPTZ", moment, record_format=Format.AVRO).to_pylist() == [moment]
    assert column_of("BIT(3)", "010", record_format=Format.AVRO).to_pylist() == ["010"]


def test_two_columns_of_one_name_are_refused() -> None:
    batch = batch_of("SUBSCRIBE (SELECT id, id FROM accounts)", (AT, 1, 1, 1))
    with pytest.raises(InputError, match="Two columns have the name id"):
        batch.arrow()
