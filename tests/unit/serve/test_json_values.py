"""Values as JSON of which a double loses nothing."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.serve.memory_subscriptions import DEEP_JSON
from tidegate.changefeed.encoding.json.parsing import parse
from tidegate.hlc import Timestamp
from tidegate.serve.json_values import MOST_EXACT, json_value, rows_text


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (MOST_EXACT, MOST_EXACT),
        (MOST_EXACT + 1, str(MOST_EXACT + 1)),
        (-MOST_EXACT - 1, str(-MOST_EXACT - 1)),
        (Decimal("0.1"), "0.1"),
        (Decimal("NaN"), "NaN"),
        (Timestamp(1, 2), "1.0000000002"),
        (1.5, 1.5),
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (b"\x00\x01", "\\x0001"),
    ],
)
def test_a_value_keeps_all_of_itself(value: Any, expected: Any) -> None:
    found = json_value(value)
    assert found == expected
    assert type(found) is type(expected)
    json.dumps(found, allow_nan=False)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.decimals() | st.binary()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)


@given(rows=st.lists(st.lists(VALUES, max_size=4).map(tuple), max_size=3))
def test_rows_are_arrays_with_the_values_of_the_table(rows: list[tuple[Any, ...]]) -> None:
    assert json.loads(rows_text(rows), parse_constant=pytest.fail) == [
        [member_by_member(value) for value in row] for row in rows
    ]


def member_by_member(value: Any) -> Any:
    if isinstance(value, list):
        return [member_by_member(each) for each in value]
    if isinstance(value, dict):
        return {name: member_by_member(each) for name, each in value.items()}
    return json_value(value)


def test_rows_with_and_without_members_are_written_alike() -> None:
    row = (Timestamp(1, 2), 1.5, True, None, 2**60, "ü\n\x7f", Decimal("1E+3"), b"\x00")
    assert rows_text([row, ([],)]) == f"{rows_text([row])[:-1]}, [[]]]"


def test_a_value_is_written_however_deep_it_is() -> None:
    assert rows_text([(1, parse(DEEP_JSON.encode(), list))]) == f"[[1, {DEEP_JSON}]]"
