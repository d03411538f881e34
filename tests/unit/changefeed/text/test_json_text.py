"""JSON text is CockroachDB's, byte for byte, and every parser reads the same values back from it."""

from __future__ import annotations

import json
import math
import uuid
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from tidegate.changefeed.text.json_text import (
    decimal_text,
    float_text,
    json_string,
    json_value,
    text_encoder,
    utf8,
)
from tidegate.errors import RowError, UnsupportedTable
from tidegate.rows.types import Json, JsonValue, Kind, SqlType

DECIMALS = st.decimals(allow_nan=False, allow_infinity=False)
JSON_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | DECIMALS | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("", '""'),
        ("a<b>&c", '"a<b>&c"'),
        ('q"b\\s', '"q\\"b\\\\s"'),
        ("t\tn\nr\r", '"t\\tn\\nr\\r"'),
        ("\b\f\x00\x1f", '"\\u0008\\u000c\\u0000\\u001f"'),
        ("\\b", '"\\\\b"'),
        ("\x7f\u2028é🍦", '"\x7f\u2028é🍦"'),
    ],
)
def test_only_quotes_backslashes_and_control_characters_are_escaped(text: str, quoted: str) -> None:
    assert json_string(text) == quoted


@given(st.text(st.characters(codec="utf-8")))
def test_strings_read_back_equal(text: str) -> None:
    assert json.loads(utf8(json_string(text))) == text


@given(st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8")))
def test_the_escape_is_one_to_one(left: str, right: str) -> None:
    assert (json_string(left) == json_string(right)) == (left == right)


def test_an_invalid_byte_becomes_the_escape_of_the_replacement_character() -> None:
    text = b"a\xff\xfeb\xc3".decode("utf-8", "surrogateescape")
    assert utf8(json_string(text)) == b'"a\\ufffd\\ufffdb\\ufffd"'


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (100.0, "1E+2"),
        (1234500.0, "1.2345E+6"),
        (3.0, "3"),
        (12.0, "12"),
        (-0.0, "-0"),
        (0.000001, "0.000001"),
        (0.0000001, "1E-7"),
        (3.25, "3.25"),
        (1e16, "1E+16"),
        (1.7976931348623157e308, "1.7976931348623157E+308"),
        (5e-324, "5E-324"),
        (math.nan, '"NaN"'),
        (math.inf, '"Infinity"'),
        (-math.inf, '"-Infinity"'),
    ],
)
def test_floats_print_their_shortest_digits_as_a_decimal(number: float, text: str) -> None:
    assert float_text(number) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_read_back_to_the_same_bits(number: float) -> None:
    parsed = float(json.loads(float_text(number), parse_int=float))
    assert parsed == number
    assert math.copysign(1, parsed) == math.copysign(1, number)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_print_as_their_normalised_decimal(number: float) -> None:
    assert float_text(number) == str(Decimal(repr(number)).normalize())


@pytest.mark.parametrize(
    ("number", "text"),
    [
        ("26.30", "26.30"),
        ("100", "100"),
        ("1E+2", "1E+2"),
        ("2.50E+5", "2.50E+5"),
        ("0.000001", "0.000001"),
        ("1E-7", "1E-7"),
        ("0E-7", "0.0000000"),
        ("-0E-7", "-0.0000000"),
        ("0E-2001", "0E-2001"),
        ("0E+3", "0E+3"),
        ("NaN", '"NaN"'),
        ("-Infinity", '"-Infinity"'),
    ],
)
def test_decimals_keep_their_scale(number: str, text: str) -> None:
    assert decimal_text(Decimal(number)) == text


@given(DECIMALS)
def test_decimals_read_back_digit_for_digit(number: Decimal) -> None:
    assert json.loads(decimal_text(number), parse_float=Decimal, parse_int=Decimal).compare_total(
        number
    ) == 0 or decimal_text(number).startswith(("0.", "-0."))


@given(JSON_VALUES)
def test_jsonb_reads_back_equal(value: JsonValue) -> None:
    text = utf8(json_value(value))
    assert json.loads(text, parse_float=Decimal, parse_int=Decimal) == value


YAML_TEXT = st.text(st.characters(min_codepoint=0x20, max_codepoint=0xD7FF, exclude_characters="\x7f\ufffe"))


@given(st.dictionaries(YAML_TEXT, YAML_TEXT | st.integers(-(2**63), 2**63 - 1) | st.booleans(), max_size=4))
def test_a_yaml_parser_reads_the_same_values(value: dict[str, Any]) -> None:
    """JSON is a subset of YAML 1.2: a parser that shares no code with Python's json agrees."""
    as_json = {name: Decimal(item) if type(item) is int else item for name, item in value.items()}
    text = utf8(json_value(as_json)).decode()
    if any(0x7F <= ord(character) < 0xA0 or character in "\u2028\u2029" for character in text):
        return  # YAML breaks lines at, or forbids, characters that JSON leaves raw
    assert YAML(typ="safe", pure=True).load(text) == value


@given(st.dictionaries(st.text(), st.none(), max_size=6))
def test_names_are_sorted_bytewise(value: dict[str, None]) -> None:
    names = list(json.loads(json_value(dict(value))))
    assert names == sorted(value, key=lambda name: name.encode("utf-8"))


def test_upper_case_sorts_before_underscore_before_lower_case() -> None:
    assert json_value({"b": None, "_": None, "B": None}) == '{"B": null, "_": null, "b": null}'


def test_json_null_inside_jsonb_prints_as_null() -> None:
    assert text_encoder(SqlType(Kind.JSONB))(Json(None)) == "null"


def test_bottomless_jsonb_is_an_error_of_the_row() -> None:
    value: JsonValue = None
    for _ in range(100_000):
        value = [value]
    with pytest.raises(RowError, match="nested too deeply"):
        json_value(value)


@pytest.mark.parametrize(
    ("kind", "datum", "text"),
    [
        (Kind.BOOL, True, "true"),
        (Kind.INT, 2**63 - 1, "9223372036854775807"),
        (Kind.BYTES, b"foo", '"\\\\x666f6f"'),
        (Kind.UUID, uuid.UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (Kind.BIT, "0101", '"0101"'),
        (Kind.OID, 12, '"12"'),
        (Kind.ENUM, 'o"pen', '"o\\"pen"'),
        (Kind.DATE, 17898, '"2019-01-02"'),
        (Kind.TIME, 11_045_000_000, '"03:04:05"'),
        (Kind.TIMESTAMPTZ, 1_746_825_629_000_000_000, '"2025-05-09T21:20:29Z"'),
    ],
)
def test_text_by_type(kind: Kind, datum: Any, text: str) -> None:
    assert text_encoder(SqlType(kind))(datum) == text
    assert isinstance(json.loads(text), str) == text.startswith('"')


def test_arrays_hold_null_and_nest_the_text_of_their_elements() -> None:
    encode = text_encoder(SqlType(Kind.ARRAY, element=SqlType(Kind.FLOAT)))
    assert encode((100.0, None, math.nan)) == '[1E+2, null, "NaN"]'
    assert encode(()) == "[]"


def test_an_array_without_element_type_is_refused() -> None:
    with pytest.raises(UnsupportedTable, match="ARRAY"):
        text_encoder(SqlType(Kind.ARRAY))
