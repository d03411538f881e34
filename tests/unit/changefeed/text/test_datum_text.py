"""SQL values print as SQL prints them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from ipaddress import IPv4Interface, IPv6Interface

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.changefeed.text.datum_text import (
    civil_date,
    date_text,
    inet_text,
    interval_text,
    time_text,
    timestamp_text,
    timestamptz_text,
    timetz_text,
)
from tidegate.rows.types import Interval, TimeTz

EPOCH = date(1970, 1, 1)
SECOND = 1_000_000_000
HOUR = 3600 * SECOND


@given(st.dates())
def test_civil_date_agrees_with_the_calendar_of_python(day: date) -> None:
    assert civil_date((day - EPOCH).days) == (day.year, day.month, day.day)


@given(st.integers(-5_000_000, 120_000_000))
def test_the_day_after_is_the_next_in_calendar_order(days: int) -> None:
    today, tomorrow = civil_date(days), civil_date(days + 1)
    assert today < tomorrow
    assert tomorrow[2] == today[2] + 1 or tomorrow[2] == 1


@pytest.mark.parametrize(
    ("days", "text"),
    [
        (0, "1970-01-01"),
        (17898, "2019-01-02"),
        (-719_528, "0001-01-01 BC"),
        (-719_162, "0001-01-01"),
        (-735_160, "0044-03-15 BC"),
        (2_932_897, "10000-01-01"),
        (2**63 - 1, "infinity"),
        (-(2**63), "-infinity"),
    ],
)
def test_date_text(days: int, text: str) -> None:
    assert date_text(days) == text


@pytest.mark.parametrize(
    ("nanos", "text"),
    [
        (1_743_530_146_812_942_000, "2025-04-01T17:55:46.812942"),
        (1_743_530_146_800_000_000, "2025-04-01T17:55:46.8"),
        (1_743_530_146_000_000_001, "2025-04-01T17:55:46.000000001"),
        (1_743_530_100_000_000_000, "2025-04-01T17:55:00"),
        (-1, "1969-12-31T23:59:59.999999999"),
        (-62_167_219_200 * SECOND, "0000-01-01T00:00:00"),
        (-62_167_219_201 * SECOND, "-0001-12-31T23:59:59"),
        (253_402_300_800 * SECOND, "10000-01-01T00:00:00"),
    ],
)
def test_timestamp_text(nanos: int, text: str) -> None:
    assert timestamp_text(nanos) == text


@given(st.datetimes(min_value=datetime(1, 1, 1), timezones=st.just(UTC)))
def test_timestamptz_text_is_rfc_3339_of_the_same_instant(instant: datetime) -> None:
    nanos = (instant - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000
    text = timestamptz_text(nanos)
    assert datetime.fromisoformat(text) == instant
    assert not text.endswith("0Z") or "." not in text


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (0, "00:00:00"),
        (11_045_000_000, "03:04:05"),
        (11_045_600_000, "03:04:05.6"),
        (1, "00:00:00.000001"),
        (86_400_000_000, "24:00:00"),
    ],
)
def test_time_text(micros: int, text: str) -> None:
    assert time_text(micros) == text


@pytest.mark.parametrize(
    ("offset_west", "text"),
    [
        (0, "03:04:05+00:00:00"),
        (-7200, "03:04:05+02:00:00"),
        (28_800, "03:04:05-08:00:00"),
        (22, "03:04:05-00:00:22"),
        (-20_705, "03:04:05+05:45:05"),
    ],
)
def test_timetz_text_counts_its_offset_east(offset_west: int, text: str) -> None:
    assert timetz_text(TimeTz(11_045_000_000, offset_west)) == text


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        (Interval(0, 0, 0), "00:00:00"),
        (Interval(14, 3, 4 * HOUR + 5 * 60 * SECOND + 6 * SECOND), "1 year 2 mons 3 days 04:05:06"),
        (Interval(1, 1, 0), "1 mon 1 day"),
        (Interval(-1, -1, 0), "-1 mons -1 days"),
        (Interval(-14, 3, -1500_000_000), "-1 years -2 mons +3 days -00:00:01.5"),
        (Interval(-1, 0, SECOND), "-1 mons +00:00:01"),
        (Interval(-1, 2, SECOND), "-1 mons +2 days 00:00:01"),
        (Interval(0, -2, SECOND), "-2 days +00:00:01"),
        (Interval(0, 0, 123 * HOUR), "123:00:00"),
        (Interval(12, 0, -6_000_000), "1 year -00:00:00.006"),
        (Interval(0, 0, -999), "00:00:00"),
    ],
)
def test_interval_text(interval: Interval, text: str) -> None:
    assert interval_text(interval) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (IPv4Interface("190.0.0.0/24"), "190.0.0.0/24"),
        (IPv4Interface("192.168.1.2"), "192.168.1.2"),
        (IPv6Interface("2001:4f8:3:ba::/64"), "2001:4f8:3:ba::/64"),
        (IPv6Interface("::1"), "::1"),
        (IPv6Interface("::ffff:192.168.0.1/24"), "::ffff:192.168.0.1/24"),
    ],
)
def test_inet_text(value: IPv4Interface | IPv6Interface, text: str) -> None:
    assert inet_text(value) == text
