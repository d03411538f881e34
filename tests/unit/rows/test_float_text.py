"""Floats in Go's layouts: as short as reads back, with an exponent where Go has one."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.rows.float_text import _shortest32, _shortest_of_two, general_text, general_text32, plain_text

FLOATS32 = st.floats(width=32, allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (-0.5, "-0.5"),
        (100000.0, "100000"),
        (1e6, "1e+06"),
        (123456789.0, "1.2345679e+08"),
        (0.1, "0.1"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (3.4028234663852886e38, "3.4028235e+38"),
        (1e-45, "1e-45"),
        (2.0**-25, "2.9802322e-08"),  # a power of two: its neighbours are not equally far
        (0.0, "0"),
        (-0.0, "-0"),
        (math.nan, "NaN"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
    ],
)
def test_a_number_of_32_bits_has_this_text(value: float, text: str) -> None:
    (near,) = struct.unpack("<f", struct.pack("<f", value))
    assert general_text32(near) == text


@given(value=FLOATS32)
def test_its_text_reads_back_and_is_no_longer_than_that_of_64_bits(value: float) -> None:
    text = general_text32(value)
    assert struct.unpack("<f", struct.pack("<f", float(text)))[0] == value
    assert len(text) <= len(general_text(value))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (0.1, "0.1"),
        (1e21, "1" + "0" * 21),
        (-1.5e-7, "-0.00000015"),
        (-0.0, "-0"),
        (math.inf, "+Inf"),
        (math.nan, "NaN"),
    ],
)
def test_a_plain_number_has_this_text(value: float, text: str) -> None:
    assert plain_text(value) == text


@given(value=st.floats(allow_nan=False, allow_infinity=False))
def test_plain_and_general_texts_read_back(value: float) -> None:
    assert float(plain_text(value)) == float(general_text(value)) == value
    assert "e" not in plain_text(value)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_the_fast_search_for_a_short_text_finds_what_the_thorough_one_does(value: float) -> None:
    assert _shortest32(value) == _shortest_of_two(value)
