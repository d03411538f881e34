"""Numbers as text."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest

from tidegate.subscribe.text.number_text import number_text
from tidegate.subscribe.text.row_text import JsonLines, csv_line


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Decimal("1E+1"), "10"),
        (Decimal("1.50"), "1.50"),
        (Decimal("-2E-7"), "-0.0000002"),
        (Decimal("1E+100000"), "1E+100000"),
        (Decimal("NaN"), "NaN"),
        (Decimal("-Infinity"), "-Infinity"),
        (0.5, "0.5"),
        (math.inf, "Infinity"),
        (math.nan, "NaN"),
    ],
)
def test_a_number_is_plain(value: float | Decimal, text: str) -> None:
    assert number_text(value) == text


def test_lines_of_json_and_csv_have_plain_numbers() -> None:
    assert JsonLines(["x", "y"]).line([Decimal("1E+1"), [Decimal("1E+2")]]) == '{"x": 10, "y": [100]}'
    assert csv_line([Decimal("1E+1"), math.nan]) == "10,NaN"
