"""Rows as text: nothing of a value is lost."""

from __future__ import annotations

import csv
import io
import json
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.hlc import Timestamp
from tidegate.subscribe.text.row_text import JsonLines, csv_line, json_text, plain_text

_FINITE = st.decimals(allow_nan=False, allow_infinity=False)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | _FINITE | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def test_a_row_is_an_object_in_the_order_of_its_columns() -> None:
    lines = JsonLines(("mz_timestamp", "mz_diff", "id", 'a "name"'))
    assert lines.line((Timestamp(1, 2), -1, 7, None)) == (
        '{"mz_timestamp": "1.0000000002", "mz_diff": -1, "id": 7, "a \\"name\\"": null}'
    )


@given(value=_JSON)
def test_json_has_the_value_to_the_last_digit(value: Any) -> None:
    assert json.loads(json_text(value), parse_float=Decimal) == _read_back(value)


def test_json_may_be_nested_as_deep_as_it_can_be_read() -> None:
    text = '[{"a": ' * 5_000 + "1" + "}]" * 5_000
    value: Any = 1
    for _ in range(5_000):
        value = [{"a": value}]
    assert json_text(value) == plain_text(value) == text


def _read_back(value: Any) -> Any:
    """Return what JSON makes of a value: a whole ``Decimal`` without a point or an exponent is an ``int``."""
    if isinstance(value, list):
        return [_read_back(each) for each in value]
    return {name: _read_back(each) for name, each in value.items()} if isinstance(value, dict) else value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Decimal("1.10"), "1.10"),
        (Decimal("NaN"), '"NaN"'),
        (float("-inf"), '"-Infinity"'),
        (b"\x00\xff", '"\\\\x00ff"'),
        (date(2026, 1, 2), '"2026-01-02"'),
        (datetime(2026, 1, 2, 3, 4, 5), '"2026-01-02T03:04:05"'),
        (True, "true"),
        ("ü\n", '"ü\\n"'),
    ],
)
def test_what_json_has_no_form_for_is_a_text(value: Any, text: str) -> None:
    assert json_text(value) == text


@given(texts=st.lists(st.text(st.characters(codec="utf-8")), min_size=1, max_size=4))
def test_csv_is_read_back_as_it_was(texts: list[str]) -> None:
    assert next(csv.reader(io.StringIO(csv_line(texts), newline=""), strict=True)) == texts


def test_null_and_an_empty_text_differ_in_csv() -> None:
    assert csv_line((1, None, "", Decimal("2.50"), 'a "b", c', [1, "x"])) == (
        '1,,"",2.50,"a ""b"", c","[1, ""x""]"'
    )


def test_plain_text_has_no_quotes() -> None:
    assert [plain_text(each) for each in ("a", False, b"\x01", Timestamp(3))] == [
        "a",
        "false",
        "\\x01",
        "3.0000000000",
    ]
