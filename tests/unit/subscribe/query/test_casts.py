"""Casts have the values of PostgreSQL, whatever form a feed writes a value in."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest

from tests.unit.subscribe.query.typed_column import FORMATS, rows_of
from tidegate.errors import EvaluationError
from tidegate.rows.types import Json, Kind, SqlType, TimeTz
from tidegate.subscribe.query.arithmetic import calculate
from tidegate.subscribe.query.casts import cast

both_formats = pytest.mark.parametrize("record_format", FORMATS)
NUMERIC = SqlType(Kind.DECIMAL, width=30, scale=2)


@both_formats
@pytest.mark.parametrize(
    ("kind", "datum", "text"),
    [
        (Kind.BYTES, b"ab\x00", "\\x616200"),
        (
            Kind.JSONB,
            Json({"a": [Decimal(1), None, True, Decimal("1.5"), "x"]}),
            '{"a": [1, null, true, 1.5, "x"]}',
        ),
        (Kind.BOOL, True, "true"),
        (Kind.INT, -7, "-7"),
        (Kind.FLOAT, 5.0, "5"),
        (Kind.FLOAT, 0.1, "0.1"),
        (Kind.FLOAT, 1e300, "1e+300"),
        (Kind.FLOAT, -math.inf, "-Infinity"),
        (Kind.FLOAT, math.nan, "NaN"),
        (Kind.STRING, "é", "é"),
        (Kind.TIMETZ, TimeTz(11_045_000_000, -7200), "03:04:05+02"),
        (Kind.TIMETZ, TimeTz(0, 19_800), "00:00:00-05:30"),
        (Kind.TIMETZ, TimeTz(0, 1), "00:00:00-00:00:01"),
        (Kind.TIMETZ, TimeTz(0, 0), "00:00:00+00"),
    ],
    ids=str,
)
def test_a_value_has_one_text(record_format: str, kind: Kind, datum: Any, text: str) -> None:
    assert rows_of("SELECT v::text FROM t", SqlType(kind), [datum], record_format) == [(text,)]


@both_formats
def test_a_decimal_has_its_digits_as_text(record_format: str) -> None:
    texts = {"json": "5", "avro": "5.00"}  # Avro has the digits of the column's scale
    assert rows_of("SELECT v::text FROM t", NUMERIC, [Decimal(5)], record_format) == [(texts[record_format],)]
    assert rows_of("SELECT v::text FROM t", NUMERIC, [Decimal("NaN")], record_format) == [("NaN",)]


@both_formats
def test_a_float_has_its_shortest_digits_as_a_decimal(record_format: str) -> None:
    query = "SELECT v::numeric FROM t WHERE v::numeric = 0.1"
    assert rows_of(query, SqlType(Kind.FLOAT), [0.1], record_format) == [(Decimal("0.1"),)]


@pytest.mark.parametrize(
    ("left", "right", "quotient"),
    [
        ("1E+60", "3", "3" * 60 + "." + "3" * 38),
        ("1E+60", "0.03", "3" * 62 + "." + "3" * 38),
        ("1", "3", "0." + "3" * 38),
        ("1", "3E+20", "0." + "0" * 20 + "3" * 38),
    ],
)
def test_a_quotient_has_all_digits_of_its_whole_part(left: str, right: str, quotient: str) -> None:
    assert calculate("/", Decimal(left), Decimal(right)) == Decimal(quotient)


def test_a_quotient_has_a_bound_of_digits() -> None:
    quotient = calculate("/", Decimal("1E+100000"), Decimal(3))
    assert isinstance(quotient, Decimal)
    assert len(quotient.as_tuple().digits) == 2_000


@pytest.mark.parametrize("kind", ["int", "numeric", "float"])
@pytest.mark.parametrize("text", ["1_000", "１２", "٣", "1\u00a0"])
def test_only_digits_of_sql_are_numbers(kind: str, text: str) -> None:
    with pytest.raises(EvaluationError, match="invalid input syntax"):
        cast(text, kind)


@pytest.mark.parametrize("kind", ["int", "numeric", "float"])
def test_a_number_may_have_blanks_around_it(kind: str) -> None:
    assert cast(" -12\n", kind) == -12
