"""Columns of FLOAT and DECIMAL have the values of their types, however a feed writes them."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest

from tests.unit.subscribe.query.typed_column import (
    FORMATS,
    as_read,
    ids_first,
    ids_where,
    ids_within_timestamp,
    plan,
    rows_of,
)
from tidegate.errors import EvaluationError, SubscribeStatementError
from tidegate.rows.types import Kind, SqlType

FLOAT, DECIMAL = SqlType(Kind.FLOAT), SqlType(Kind.DECIMAL, width=20, scale=2)
INT, BOOL = SqlType(Kind.INT), SqlType(Kind.BOOL)
INFINITY = math.inf
#: In the order of SQL.
FLOATS = [-INFINITY, -2.5, 0.0, 5.0, 1e30, INFINITY, math.nan]
DECIMALS = [Decimal(text) for text in ("-Infinity", "-2.5", "0", "5", "5.5", "Infinity", "NaN")]
ORDERED = [(FLOAT, FLOATS), (DECIMAL, DECIMALS)]

both_formats = pytest.mark.parametrize("record_format", FORMATS)
both_types = pytest.mark.parametrize(("sql_type", "datums"), ORDERED, ids=["float", "decimal"])


@both_formats
def test_a_whole_float_is_a_float(record_format: str) -> None:
    rows = rows_of("SELECT v / 2, v % 2, -v, coalesce(w, 1) / 2 FROM t", FLOAT, [5.0, 2.5], record_format)
    assert rows == [(2.5, 1.0, -5.0, 2.5), (1.25, 0.5, -2.5, 2.5)]
    assert {type(value) for row in rows for value in row} == {float}
    assert ids_where("v / 2 > 2", FLOAT, [5.0, 2.5], record_format) == [0]


@both_formats
@pytest.mark.parametrize("text", ["5", "5.0", "5.00"])
def test_equal_decimals_give_equal_results(record_format: str, text: str) -> None:
    rows = rows_of("SELECT v / 2, v % 2 FROM t WHERE v / 2 > 2", DECIMAL, [Decimal(text)], record_format)
    assert rows == [(Decimal("2.5"), Decimal(1))]
    assert {type(value) for value in rows[0]} == {Decimal}


@both_formats
@pytest.mark.parametrize("alternative", ["5", "'5'", "5.0"])
def test_a_column_in_place_of_null_has_the_type_of_the_other(record_format: str, alternative: str) -> None:
    ((value,),) = rows_of(f"SELECT coalesce(v, {alternative}) / 2 FROM t", FLOAT, [None], record_format)
    assert (value, type(value)) == (2.5, float)


@both_formats
def test_whole_numbers_stay_whole(record_format: str) -> None:
    assert rows_of("SELECT v / 2, v FROM t", INT, [5], record_format) == [(2, 5)]


@both_formats
@both_types
def test_nan_is_above_all_numbers_in_conditions(
    record_format: str, sql_type: SqlType, datums: list[Any]
) -> None:
    for at in range(len(datums)):
        assert ids_where("v > w", sql_type, datums[at:], record_format) == [*range(1, len(datums) - at)]
    assert ids_where("v > 1", sql_type, datums, record_format) == [3, 4, 5, 6]
    assert ids_where("v <= 1", sql_type, datums, record_format) == [0, 1, 2]
    assert ids_where("v = 'NaN'", sql_type, datums, record_format) == [6]
    assert ids_where("v <> 'NaN' AND v >= 'Infinity'", sql_type, datums, record_format) == [5]
    assert ids_where("v IN ('-Infinity', 'NaN', 5)", sql_type, datums, record_format) == [0, 3, 6]
    assert ids_where("v BETWEEN '-Infinity' AND 0", sql_type, datums, record_format) == [0, 1, 2]
    assert ids_where("v IS NOT DISTINCT FROM 'NaN'", sql_type, datums, record_format) == [6]
    assert ids_where("nullif(v, 'NaN') IS NULL", sql_type, datums, record_format) == [6]


@both_formats
@both_types
def test_rows_are_sorted_by_the_number(record_format: str, sql_type: SqlType, datums: list[Any]) -> None:
    mixed = [datums[at] for at in (3, 6, 0, 5, 1, 4, 2)]
    up = [mixed.index(each) if each == each else 1 for each in datums]
    for order in ("v", "2", "v + 0", "coalesce(v, 1)"):
        assert ids_first(order, sql_type, mixed, record_format) == up
        assert ids_first(f"{order} DESC", sql_type, mixed, record_format) == up[::-1]
    assert ids_within_timestamp("v", sql_type, mixed, record_format) == up
    assert ids_within_timestamp("3 DESC", sql_type, mixed, record_format) == up[::-1]


@both_formats
@both_types
def test_no_number_of_a_row_ends_arithmetic(record_format: str, sql_type: SqlType, datums: list[Any]) -> None:
    for operator in ("+", "-", "*"):
        rows_of(f"SELECT v {operator} v, v {operator} w FROM t", sql_type, datums, record_format)
    one = [datums[0], datums[-1], datums[5]]
    for operation in ("v - v", "v * 0", "v / v", "v % 2", "v + -v"):
        found = rows_of(f"SELECT {operation} FROM t", sql_type, one, record_format)
        assert all(value != value for (value,) in found), operation
    assert rows_of("SELECT 2 % v FROM t", sql_type, [datums[5]], record_format) == [(2,)]
    (nothing,) = rows_of("SELECT v / 0 FROM t", sql_type, [datums[-1]], record_format)
    assert nothing[0] != nothing[0]
    with pytest.raises(EvaluationError, match="division by zero"):
        rows_of("SELECT v / 0 FROM t", sql_type, [datums[5]], record_format)


@both_formats
@both_types
def test_a_column_is_shown_as_the_feed_gives_it(
    record_format: str, sql_type: SqlType, datums: list[Any]
) -> None:
    for query in ("SELECT v FROM t", "SELECT t.v FROM t WHERE v = v OR v IS NULL"):
        shown = rows_of(query, sql_type, [*datums, None], record_format)
        assert list(map(repr, shown)) == [
            repr((as_read(sql_type, each, record_format),)) for each in (*datums, None)
        ]


def test_a_float_is_compared_as_a_float() -> None:
    condition = "v = 0.1 AND v IN (0.1, 7) AND 0.1 = v AND v NOT IN (0.2) AND v >= 0.1 AND v <= 0.1"
    for record_format in FORMATS:
        assert ids_where(condition, FLOAT, [0.1, 0.2], record_format) == [0]
    huge = f"1{'0' * 400}"
    assert ids_where(f"v < {huge} AND v IN ({huge}, 1)", FLOAT, [1.0, INFINITY], "avro") == [0]
    assert ids_where(f"v > {huge}.5", FLOAT, [1.0, INFINITY], "avro") == [1]


@pytest.mark.parametrize(
    ("sql_type", "text"), [(FLOAT, "much"), (DECIMAL, "1,5"), (INT, "1.5"), (INT, "x"), (BOOL, "maybe")]
)
def test_a_constant_that_is_no_number_is_an_error_of_the_statement(sql_type: SqlType, text: str) -> None:
    for condition in (f"v = '{text}'", f"'{text}' < v", f"v IN ('{text}')", f"coalesce(v, '{text}') = v"):
        with pytest.raises(SubscribeStatementError, match="invalid input syntax") as caught:
            plan(f"SUBSCRIBE (SELECT id FROM t WHERE {condition})", sql_type)
        assert (caught.value.code, caught.value.sqlstate) == ("invalid_constant", "22P02")


@both_formats
def test_a_constant_in_quotes_is_read_as_its_neighbours_type(record_format: str) -> None:
    assert ids_where("v = '7' AND v IN ('7', '8')", INT, [6, 7], record_format) == [1]
    assert ids_where("v = 'true'", BOOL, [True, False, None], record_format) == [0]
    assert ids_where("v >= '2.50'", DECIMAL, [Decimal("2.5"), Decimal(2)], record_format) == [0]
