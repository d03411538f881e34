"""Values as PostgreSQL's text."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.serve.memory_subscriptions import DEEP_JSON
from tidegate.changefeed.encoding.json.parsing import parse
from tidegate.errors import RequestRefused
from tidegate.hlc import Timestamp
from tidegate.serve.postgres.value_text import copy_line, value_bytes


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (True, b"t"),
        (False, b"f"),
        (2**80, b"1208925819614629174706176"),
        (Timestamp(7, 3), b"7.0000000003"),
        (Decimal("1E+3"), b"1000"),
        (Decimal("1.50"), b"1.50"),
        (Decimal("NaN"), b"NaN"),
        (Decimal("-Infinity"), b"-Infinity"),
        (Decimal("1E+100000"), b"1E+100000"),
        (0.1, b"0.1"),
        (math.inf, b"Infinity"),
        (-math.inf, b"-Infinity"),
        (math.nan, b"NaN"),
        (b"\x01\xff", b"\\x01ff"),
        ([1, None, "é", Decimal("1.5")], '[1, null, "é", 1.5]'.encode()),
        ({"a": [True, Decimal("0.10")], "n": 2**60}, b'{"a": [true, 0.10], "n": 1152921504606846976}'),
        ("", b""),
    ],
)
def test_a_value_has_postgresqls_text(value: Any, text: bytes | None) -> None:
    assert value_bytes(value) == text


def test_json_has_its_text_however_deep_it_is() -> None:
    value = parse(DEEP_JSON.encode(), list)
    assert value_bytes(value) == DEEP_JSON.encode()
    assert copy_line([1, value]) == f"1\t{DEEP_JSON}\n".encode()


def test_half_of_a_surrogate_pair_is_refused() -> None:
    for value in ("a\ud800", ["a\ud800"], {"\ud800": 1}):
        with pytest.raises(RequestRefused, match="surrogate pair") as caught:
            value_bytes(value)
        assert caught.value.sqlstate == "22P05"


@given(st.lists(st.one_of(st.none(), st.text()), min_size=1))
def test_a_line_of_copy_is_read_back(values: list[str | None]) -> None:
    line = copy_line(values)
    assert line.endswith(b"\n")
    assert b"\n" not in line[:-1]
    assert [unescaped(field) for field in line[:-1].split(b"\t")] == values


def unescaped(field: bytes) -> str | None:
    if field == b"\\N":
        return None
    letters = {b"t": b"\t", b"n": b"\n", b"r": b"\r", b"\\": b"\\"}
    out, rest = b"", field
    while rest:
        step = 2 if rest.startswith(b"\\") else 1
        out += letters[rest[1:2]] if step == 2 else rest[:1]
        rest = rest[step:]
    return out.decode()
