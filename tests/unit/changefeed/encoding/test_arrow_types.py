"""SQL types as Arrow types: one mapping, and errors that name the column and say what to do."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from tidegate.changefeed.definition.options import Format
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


@pytest.mark.parametrize("sql", ["INT8", "BOOL", "DECIMAL(10,2)", "DATE", "BYTES"])
def test_a_long_value_is_told_in_part(sql: str) -> None:
    form = arrow_form(parse_sql_type(sql), Format.JSON)
    with pytest.raises(RowError) as failure:
        arrow_array("v", sql, form, ["x" * 1_000_000], "do this")
    assert len(str(failure.value)) < 2_000
