"""Dates and times are the numbers of their texts, and of their values in Avro."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.changefeed.text.datum_text import (
    INFINITE_TIMESTAMPS,
    date_text,
    sql_timestamptz_text,
    time_text,
    timestamp_text,
    timestamptz_text,
    timetz_text,
)
from tidegate.rows.types import TimeTz
from tidegate.subscribe.query.moments import date_number, time_number, timestamp_number, timetz_number

DAY = 86_400 * 10**9
#: 4714-11-24 BC to 294276-12-31.
DAYS = st.integers(-2_440_588, 106_751_991)
NANOS = st.integers(-210_866_803_200 * 10**9 + 1000, 9_224_318_016_000 * 10**9 - 1001)
MICROS = st.integers(0, 86_400_000_000)


@given(days=DAYS)
def test_a_date_is_its_midnight(days: int) -> None:
    assert date_number(date_text(days)) == days * DAY == date_number(days)


@given(nanos=NANOS)
def test_a_timestamp_is_its_nanoseconds(nanos: int) -> None:
    assert timestamp_number(timestamp_text(nanos)) == nanos
    assert timestamp_number(timestamptz_text(nanos), zoned=True) == nanos
    assert timestamp_number(sql_timestamptz_text(nanos), zoned=True) == nanos
    assert timestamp_number(nanos // 1000) == nanos // 1000 * 1000


@given(moment=st.datetimes(), day=st.dates(), clock=st.times())
def test_pythons_moments_are_those_of_their_texts(moment: datetime, day: date, clock: time) -> None:
    assert timestamp_number(moment) == timestamp_number(moment.isoformat())
    assert timestamp_number(moment.replace(tzinfo=UTC), zoned=True) == timestamp_number(moment)
    assert date_number(day) == date_number(day.isoformat())
    assert time_number(clock) == time_number(clock.isoformat())


@given(micros=MICROS, west=st.integers(-57_599, 57_599))
def test_a_time_is_its_part_of_the_day(micros: int, west: int) -> None:
    assert time_number(time_text(micros)) == time_number(micros) == micros * 1000
    number = timetz_number(timetz_text(TimeTz(micros, west)))
    assert number // 2**18 in ((micros + west * 10**6) * 1000, (micros + west * 10**6) * 1000 - 1)


@given(
    one=st.tuples(MICROS, st.integers(-57_599, 57_599)), other=st.tuples(MICROS, st.integers(-57_599, 57_599))
)
def test_times_with_zones_are_in_the_order_of_utc_then_of_their_zones(
    one: tuple[int, int], other: tuple[int, int]
) -> None:
    def key(value: tuple[int, int]) -> tuple[int, int]:
        return value[0] + value[1] * 10**6, value[1]

    def number(value: tuple[int, int]) -> int:
        return timetz_number(timetz_text(TimeTz(*value)))

    assert (number(one) < number(other)) == (key(one) < key(other))
    assert (number(one) == number(other)) == (key(one) == key(other))


def test_infinity_is_beyond_all_moments() -> None:
    last, first = sorted(INFINITE_TIMESTAMPS, reverse=True)
    for read in (date_number, timestamp_number):
        assert read("infinity") > date_number(2**31 - 1)
        assert read("-infinity") < date_number(-(2**31))
        assert read("-Infinity") == timestamp_number(timestamp_text(first))
    assert timestamp_number(timestamptz_text(last), zoned=True) == date_number("infinity")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("2021-01-01", datetime(2021, 1, 1)),
        ("2021-01-01 10:00", datetime(2021, 1, 1, 10)),
        ("2021-01-01T10:00:00.5Z", datetime(2021, 1, 1, 10, 0, 0, 500_000)),
        ("2021-01-01 10:00:00+02", datetime(2021, 1, 1, 8)),
        ("2021-01-01 10:00:00.000001 -05:30", datetime(2021, 1, 1, 15, 30, 0, 1)),
        ("2021-01-01 24:00:00 UTC", datetime(2021, 1, 2)),
        ("2020-02-29 AD", datetime(2020, 2, 29)),
    ],
)
def test_a_constant_may_have_a_zone_and_leave_out_the_clock(text: str, meant: datetime) -> None:
    assert timestamp_number(text, zoned=True) == timestamp_number(meant)


def test_a_zone_of_a_datetime_counts() -> None:
    east = timezone(timedelta(hours=2))
    assert timestamp_number(datetime(2021, 1, 1, 10, tzinfo=east)) == timestamp_number("2021-01-01 08:00")


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (date_number, "2021-02-29"),
        (date_number, "2021-13-01"),
        (date_number, "2021-01-00"),
        (date_number, "0000-01-01 BC"),
        (date_number, "21-01-01"),
        (date_number, "2021-01-01 10:00"),
        (date_number, "2021-01-01\n"),
        (date_number, "２０２１-01-01"),
        (timestamp_number, "2021-01-01T24:00:01"),
        (timestamp_number, "2021-01-01T10:60"),
        (timestamp_number, "2021-01-01T10:00:00.0000000001"),
        (timestamp_number, "yesterday"),
        (timestamp_number, ""),
        (time_number, "10"),
        (time_number, "25:00"),
        (time_number, "10:00+02"),
        (timetz_number, "10:00 CET"),
    ],
)
def test_what_is_no_moment_is_refused(read: Callable[[str], int], text: str) -> None:
    with pytest.raises(ValueError, match="no "):
        read(text)


@pytest.mark.parametrize("value", [True, 1.5, b"", [], {}])
def test_a_moment_is_no_other_value(value: object) -> None:
    for read in (date_number, timestamp_number, time_number):
        with pytest.raises(TypeError):
            read(value)
