"""Values as JSON of which a double loses nothing."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

import pytest

from tidegate.hlc import Timestamp
from tidegate.serve.json_values import MOST_EXACT, json_value


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
        ({"a": [2**53, {"b": Decimal(1)}]}, {"a": ["9007199254740992", {"b": "1"}]}),
    ],
)
def test_a_value_keeps_all_of_itself(value: Any, expected: Any) -> None:
    found = json_value(value)
    assert found == expected
    assert type(found) is type(expected)
    json.dumps(found, allow_nan=False)
