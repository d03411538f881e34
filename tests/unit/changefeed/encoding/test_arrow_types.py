"""SQL types as Arrow types: one mapping, and errors that name the column and say what to do."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.changefeed.definition.options import Format
from tidegate.changefeed.encoding import arrow_types
from tidegate.changefeed.encoding.arrow_types import arrow_array, arrow_form, parsed_type
from tidegate.errors import RowError, UnsupportedTable
from tidegate.rows.sql_type import parse_sql_type, sql_type_text


@pytest.mark.parametrize("text", ["INT8", "DECIMAL(10,2)", "STRING[]", "TIMESTAMPTZ", "JSONB", "BIT(3)"])
def test_a_printed_type_is_read_again(text: str) -> None:
    assert parsed_type(sql_type_text(parse_sql_type(text))) == parse_sql_type(text)


def test_the_format_decides_where_values_differ() -> None:
    geometry, bits = parse_sql_type("GEOMETRY"), parse_sql_type("BIT(3)")
    assert arrow_form(geometry, Format.AVRO)[0] == pa.binary()
    assert arrow_form(geometry, Format.JSON)[0] == pa.string()
    assert arrow_form(bits, Format.JSON)[0] == pa.string()
    with pytest.raises(UnsupportedTable):
        arrow_form(bits, Format.AVRO)


@pytest.mark.parametrize(("sql", "value"), [("DECIMAL(5,2)", Decimal("1234.5")), ("INT8", Decimal("0.5"))])
def test_a_value_that_does_not_fit_is_named_with_the_advice(sql: str, value: Decimal) -> None:
    form = arrow_form(parse_sql_type(sql), Format.JSON)
    with pytest.raises(RowError, match=r"column v of type T .*: do this$"):
        arrow_array("v", "T", form, [None, value], "do this")


def _loaded(sql: str, values: list[Any]) -> Any:
    try:
        array = arrow_array("v", sql, arrow_form(parse_sql_type(sql), Format.JSON), values, "do this")
    except RowError as error:
        return str(error)
    array.validate(full=True)
    return array.type, array.to_pylist()


_TIMES: Final = st.one_of(
    st.none(),
    st.datetimes().map(lambda each: each.isoformat() + "Z"),
    st.datetimes().map(datetime.isoformat),
    st.from_regex(r"[0-2]\d{3}-[01]\d-[0-3]\dT[0-2]\d:[0-6]\d:[0-6]\d(\.\d{1,7})?Z?", fullmatch=True),
    st.sampled_from(["", "0000-01-01T00:00:00Z", "2021-03-11 10:26", "infinity", "10000-01-01T00:00:00Z"]),
    st.sampled_from(
        ["2021-03-11T10:26:40+05:30", "2021-02-29T00:00:00Z", "2021-03-11T10:26:40Z\n", "\ud800"]
    ),
)


@given(values=st.lists(_TIMES, min_size=1, max_size=4), sql=st.sampled_from(["TIMESTAMP", "TIMESTAMPTZ"]))
def test_timestamps_are_the_same_whether_taken_in_one_go_or_one_by_one(values: list[Any], sql: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrow_types, "usual_timestamps", lambda *_: None)
        expected = _loaded(sql, values)
    assert _loaded(sql, values) == expected


def test_usual_timestamps_are_taken_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_types, "_formless", None)
    for sql, end in (("TIMESTAMP", ""), ("TIMESTAMPTZ", "Z")):
        form = (arrow_form(parse_sql_type(sql), Format.JSON)[0], pytest.fail)
        values = [f"2021-03-11T10:26:40.5{end}", None, f"0001-01-01T00:00:00{end}"]
        assert arrow_array("v", sql, form, values, "").null_count == 1


@pytest.mark.parametrize(
    ("sql", "values"),
    [
        ("INT8", [1, None, True]),
        ("INT8", [2**63]),
        ("INT8", [1, Decimal("0.5")]),
        ("DECIMAL(5,1)", [Decimal("1.5"), 2, None]),
        ("DECIMAL(5,1)", [Decimal("1.55")]),
        ("DECIMAL(5,1)", [Decimal("NaN")]),
        ("FLOAT8", [Decimal("1.5"), 2, None]),
        ("JSONB", ["a", 1]),
        ("INTERVAL", ["1 day", None]),
        ("TIME", ["10:26:40", None]),
    ],
)
def test_values_that_need_no_conversion_are_as_those_that_are_converted(sql: str, values: list[Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrow_types, "_AS_THEY_ARE", {})
        expected = _loaded(sql, values)
    assert _loaded(sql, values) == expected


@pytest.mark.parametrize("sql", ["INT8", "BOOL", "DECIMAL(10,2)", "DATE", "BYTES"])
def test_a_long_value_is_told_in_part(sql: str) -> None:
    form = arrow_form(parse_sql_type(sql), Format.JSON)
    with pytest.raises(RowError) as failure:
        arrow_array("v", sql, form, ["x" * 1_000_000], "do this")
    assert len(str(failure.value)) < 2_000
