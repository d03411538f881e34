"""Durations are Go's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.changefeed.definition.duration import duration_text, parse_duration

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("10s", 10 * SECOND),
        ("500ms", SECOND // 2),
        ("1m30s", 90 * SECOND),
        ("0s", 0),
        ("0", 0),
        ("-0", 0),
        ("1.5h", 5400 * SECOND),
        (".5s", SECOND // 2),
        ("1.s", SECOND),
        ("3us4ns", 3004),
        ("2µs", 2000),
        ("2μs", 2000),
        ("1.0000000009s", SECOND),
        ("+1s", SECOND),
        ("-1.5s", -3 * SECOND // 2),
    ],
)
def test_nanoseconds(text: str, nanos: int) -> None:
    assert parse_duration(text) == nanos


@pytest.mark.parametrize(
    "text", ["", "-", "10", "s", "1 s", "1s ", "ten seconds", "1d", "1,5s", ".s", "--1s", "١s"]
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(text)


def test_a_duration_beyond_64_bits_is_refused() -> None:
    assert parse_duration("9223372036854775807ns") == 2**63 - 1
    with pytest.raises(ValueError, match="out of range"):
        parse_duration("9223372036854775808ns")


@given(st.integers(0, 2**63 - 1))
def test_text_reads_back(nanos: int) -> None:
    assert parse_duration(duration_text(nanos)) == nanos
