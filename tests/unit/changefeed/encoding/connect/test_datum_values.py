"""Datums as values of Kafka Connect: what each becomes, and what cannot become one."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.changefeed.encoding.connect.forms import FORMS, read_back
from tests.unit.changefeed.tables import INT, row, table
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.encoding.connect.datum_values import UnscaledDecimal, key_decimal_string
from tidegate.changefeed.encoding.connect.types import column_type, key_column_type
from tidegate.errors import RowError, UnsupportedTable
from tidegate.rows.sql_type import parse_sql_type
from tidegate.rows.types import Datum, Kind, SqlType, TimeTz

DAY_NANOS = 86_400 * 10**9
INFINITE_DATE = 2**63 - 1


def encode(sql_type: str, datum: Datum, options: FeedOptions) -> Any:
    typed = table("t", {"k": INT, "v": parse_sql_type(sql_type)}, key=("k",))
    record = read_back(row(typed, k=1, v=datum)._replace(previous=()), options)
    assert record.row is not None
    return record.row["v"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("sql_type", "datum", "words"),
    [
        ("DECIMAL(10,2)", Decimal("NaN"), "NaN has no place in a DECIMAL"),
        ("DECIMAL(10,2)", Decimal("-Infinity"), "-Infinity has no place in a DECIMAL"),
        ("DECIMAL(10,2)", Decimal("1.234"), r"1.234 does not fit DECIMAL\(10,2\)"),
        ("DECIMAL(4,2)", Decimal("123"), r"123 does not fit DECIMAL\(4,2\)"),
        ("DECIMAL(4,2)", Decimal("1E+999"), r"1E\+999 does not fit DECIMAL\(4,2\)"),
        ("DATE", INFINITE_DATE, "an infinite date"),
        ("DATE", -(2**63), "an infinite date"),
        ("TIMESTAMP", 9_224_318_015_999_999 * 10**6, "infinity"),
        ("TIMESTAMP", 106_752_000 * DAY_NANOS, "after the year 294247"),
        ("TIMESTAMPTZ", -2_440_588 * DAY_NANOS, "years -4713 to 294276"),
        ("INT2", 2**15, "32768 does not fit the column's 16 bits"),
        ("INT4", -(2**31) - 1, "does not fit the column's 32 bits"),
        ("FLOAT4", 1e300, "does not fit the column's 32 bits"),
    ],
)
def test_a_datum_without_a_value_fails_the_feed_by_the_columns_name(
    sql_type: str, datum: Datum, words: str, form: str
) -> None:
    with pytest.raises(RowError, match=f"^table t, column v: .*{words}.*; the feed fails$"):
        encode(sql_type, datum, FORMS[form])


@pytest.mark.parametrize("datum", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_has_not_fail_there_and_pass_in_avro(datum: float) -> None:
    with pytest.raises(RowError, match=r"column v: .* cannot be told .* in JSON: use format=avro"):
        encode("FLOAT8", datum, FORMS["json-upsert"])
    read = encode("FLOAT8", datum, FORMS["avro-upsert"])
    assert str(read) == str(datum)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("sql_type", "datum", "value"),
    [
        ("TIMESTAMPTZ", 5_000_000 * DAY_NANOS, "+15659-07-15T00:00:00Z"),
        ("TIMESTAMPTZ", -800_000 * DAY_NANOS, "-0221-09-04T00:00:00Z"),
        ("TIMESTAMPTZ", 253_402_300_799 * 10**9, "9999-12-31T23:59:59Z"),
        ("TIMETZ", TimeTz(11_045_600_000, -7200), "03:04:05.6+02:00"),
        ("TIMETZ", TimeTz(0, 3723), "00:00:00-01:02:03"),
        ("TIMETZ", TimeTz(1, 0), "00:00:00.000001Z"),
        ("DECIMAL(10,2)", Decimal("1.5"), Decimal("1.50")),
        ("DECIMAL(10,2)", Decimal("-0.00"), Decimal("0.00")),
        ("DECIMAL(5)", Decimal("1E+2"), Decimal("100")),
        ("DECIMAL", Decimal("NaN"), "NaN"),
        ("DECIMAL", Decimal("-1.50"), "-1.50"),
        ("FLOAT4", 0.1, 0.10000000149011612),
        ("INET[]", (), []),
        ("BYTES[]", (b"\x00\xff", None), ["\\x00ff", None]),
        ("DATE[]", (17_898,), ["2019-01-02"]),
        ("TIME[]", (86_400_000_000,), ["24:00:00"]),
        ("TIMETZ[]", (TimeTz(0, 0),), ["00:00:00Z"]),
        ("TIMESTAMP[]", (1_743_530_146_812_942_000,), ["2025-04-01T17:55:46.812942"]),
        ("TIMESTAMPTZ[]", (0,), ["1970-01-01T00:00:00Z"]),
        ("DECIMAL(10,2)[]", (Decimal("1.50"), None), ["1.50", None]),
        ("INT2[]", (1, None), [1, None]),
    ],
)
def test_a_datum_becomes_its_value(sql_type: str, datum: Datum, value: object, form: str) -> None:
    read = encode(sql_type, datum, FORMS[form])
    same = float(read) if isinstance(value, float) else read
    assert same == value
    assert str(same) == str(value), "decimals keep their scale"


@given(st.integers(-(10**20) + 1, 10**20 - 1), st.integers(0, 20))
def test_digits_are_as_few_bytes_as_hold_them(unscaled: int, scale: int) -> None:
    data = UnscaledDecimal(20, scale)(Decimal(f"{unscaled}E-{scale}"))
    assert int.from_bytes(data, "big", signed=True) == unscaled
    shorter = len(data) - 1
    assert not shorter or not -(2 ** (8 * shorter - 1)) <= unscaled < 2 ** (8 * shorter - 1)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=None))
def test_equal_decimals_are_one_key(value: Decimal) -> None:
    text = key_decimal_string(value)
    assert Decimal(text) == value
    assert key_decimal_string(Decimal(f"{value:f}00" if "." in f"{value:f}" else f"{value:f}.00")) == text


def test_a_key_has_no_negative_zero_and_no_scale_that_a_deletion_cannot_know() -> None:
    def key_value(sql_type: str, datum: Datum) -> object:
        convert = key_column_type(parse_sql_type(sql_type)).convert
        assert convert is not None
        return convert(datum)

    assert str(key_value("FLOAT8", -0.0)) == "0.0"
    assert str(key_value("FLOAT4", -0.0)) == "0.0"
    assert key_value("DECIMAL", Decimal("1.50")) == "1.5"
    assert key_value("DECIMAL", Decimal("1E+2")) == "100"
    assert key_value("DECIMAL", Decimal("-0.00")) == "0"
    assert key_value("DECIMAL", Decimal("1E+500")) == "1E+500"
    assert key_value("DECIMAL[]", (Decimal("1.50"),)) == ["1.5"]
    assert str(key_value("FLOAT8[]", (-0.0,))) == "[0.0]"


def test_an_array_of_no_type_has_no_connect_type() -> None:
    with pytest.raises(UnsupportedTable, match="columns of type ARRAY have no Kafka Connect type"):
        column_type(SqlType(Kind.ARRAY))
