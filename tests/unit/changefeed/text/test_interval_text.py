"""Intervals in ISO 8601."""

from __future__ import annotations

import pytest

from tidegate.changefeed.text.interval_text import iso_interval
from tidegate.rows.types import Interval

SECOND = 1_000_000_000
HOUR = 3600 * SECOND


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        (Interval(14, 3, 4 * HOUR + 5 * 60 * SECOND + 6 * SECOND), "P1Y2M3DT4H5M6S"),
        (Interval(12, 0, -6_000_000), "P1YT-0.006S"),
        (Interval(0, 0, 0), "PT0S"),
        (Interval(-14, 0, 0), "P-1Y-2M"),
        (Interval(-11, 0, 0), "P-11M"),
        (Interval(0, -1, 0), "P-1D"),
        (Interval(0, 0, -HOUR - 61 * SECOND), "PT-1H-1M-1S"),
        (Interval(0, 0, -HOUR - 500_000_000), "PT-1H-0.5S"),
        (Interval(0, 1, 10 * SECOND), "P1DT10S"),
        (Interval(0, 0, 100 * HOUR), "PT100H"),
        (Interval(0, 0, 10 * SECOND + 120_000_000), "PT10.12S"),
        (Interval(0, 0, 1_999), "PT0.000001S"),
        (Interval(0, 0, -1_999), "PT-0.000001S"),
        (Interval(0, 0, 999), "PT0S"),
        (Interval(1, 0, -999), "P1M"),
    ],
)
def test_each_part_has_its_own_sign_and_nothing_is_below_a_microsecond(interval: Interval, text: str) -> None:
    assert iso_interval(interval) == text
