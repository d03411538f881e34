"""Timestamps: order, neighbours, text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.hlc import MAX, MAX_LOGICAL, ZERO, Timestamp, parse_decimal

timestamps = st.builds(Timestamp, st.integers(0, MAX.wall - 1), st.integers(0, MAX_LOGICAL))


@given(timestamps)
def test_next_and_prev_are_neighbours(timestamp: Timestamp) -> None:
    assert timestamp.next() > timestamp
    assert timestamp.next().prev() == timestamp


@given(timestamps, timestamps)
def test_no_timestamp_lies_between_neighbours(a: Timestamp, b: Timestamp) -> None:
    assert not a < b < a.next()


@given(timestamps)
def test_decimal_text_round_trips(timestamp: Timestamp) -> None:
    assert parse_decimal(timestamp.decimal()) == timestamp


def test_decimal_text_pads_the_logical_part_to_ten_digits() -> None:
    assert Timestamp(1, 2).decimal() == "1.0000000002"


def test_carry_of_the_logical_part() -> None:
    assert Timestamp(7, MAX_LOGICAL).next() == Timestamp(8, 0)
    assert Timestamp(8, 0).prev() == Timestamp(7, MAX_LOGICAL)


def test_zero_has_no_predecessor() -> None:
    with pytest.raises(ValueError, match="below zero"):
        ZERO.prev()


@pytest.mark.parametrize(
    "text", ["", "1.", "1.2", "-1", "1.00000000002", "x", "1.0000000002 ", "1,2", f"{2**63}", "1.9999999999"]
)
def test_other_text_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="HLC timestamp"):
        parse_decimal(text)


@pytest.mark.parametrize("value", [1, 1.5, None, True, [], {}, b"1.0000000002"])
def test_what_is_no_text_is_refused_in_the_same_way(value: Any) -> None:
    """It stands where JSON or Avro that somebody else wrote has a timestamp."""
    with pytest.raises(ValueError, match="not an HLC timestamp"):
        parse_decimal(value)
