"""Cursors: the forms that are read, to the nanosecond, and the words for what is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.changefeed.feeds import timestamps
from tidegate.changefeed.statement.cursor import read_cursor
from tidegate.errors import StatementError
from tidegate.hlc import MAX, ZERO, Timestamp

NOW_NS = 1_700_000_000_000_000_000


@pytest.mark.parametrize(
    ("text", "timestamp"),
    [
        ("1536242855577149065.0000000000", Timestamp(1536242855577149065)),
        ("1536242855577149065.0000000012", Timestamp(1536242855577149065, 12)),
        ("1536242855577149065", Timestamp(1536242855577149065)),
        ("1536242855577149065.", Timestamp(1536242855577149065)),
        ("1.12", Timestamp(1, 1_200_000_000)),
        (" 7 ", Timestamp(7)),
        ("2018-09-06 14:07:35.577149+00:00", Timestamp(1536242855577149000)),
        ("2018-09-06T14:07:35.577149065Z", Timestamp(1536242855577149065)),
        ("2018-09-06t14:07:35z", Timestamp(1536242855000000000)),
        ("2018-09-06 14:07:35", Timestamp(1536242855000000000)),
        ("2018-09-06 14:07:35 UTC", Timestamp(1536242855000000000)),
        ("2018-09-06 14:07", Timestamp(1536242820000000000)),
        ("2018-09-06", Timestamp(1536192000000000000)),
        ("2018-09-06 16:07:35+02", Timestamp(1536242855000000000)),
        ("2018-09-06 19:37:35+0530", Timestamp(1536242855000000000)),
        ("2018-09-06 04:37:35-09:30", Timestamp(1536242855000000000)),
        ("-0s", Timestamp(NOW_NS)),
        ("-1h", Timestamp(NOW_NS - 3_600_000_000_000)),
        ("-1m30.5s", Timestamp(NOW_NS - 90_500_000_000)),
        (str(NOW_NS), Timestamp(NOW_NS)),
    ],
)
def test_the_forms_of_as_of_system_time_are_read(text: str, timestamp: Timestamp) -> None:
    assert read_cursor(text, NOW_NS) == timestamp


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("xxx", "value is neither timestamp, decimal, nor interval; write an HLC decimal"),
        ("", "value is neither timestamp, decimal, nor interval"),
        ("1h", "value is neither timestamp, decimal, nor interval"),
        ("-1 lightyear", "value is neither timestamp, decimal, nor interval"),
        ("-1", "value is neither timestamp, decimal, nor interval"),
        ("0x10", "value is neither timestamp, decimal, nor interval"),
        ("\u0661", "value is neither timestamp, decimal, nor interval"),
        ("1.12345678901", "logical part has too many digits: there are 10"),
        ("1.9", "HLC timestamp out of range: the highest is 9223372036854775807.2147483647"),
        ("9223372036854775808", "HLC timestamp out of range"),
        ("0", "zero timestamp is invalid"),
        ("0.0000000000", "zero timestamp is invalid"),
        ("1970-01-01", "zero timestamp is invalid"),
        ("1969-12-30", "timestamp before 1970-01-01T00:00:00Z is invalid"),
        ("1970-01-01 00:00+01", "timestamp before 1970-01-01T00:00:00Z is invalid"),
        ("-1000000h", "timestamp before 1970-01-01T00:00:00Z is invalid"),
        ("2018-02-30", "no such time: day is out of range for month"),
        ("2018-02-03 24:61", "no such time"),
        (f"{NOW_NS}.0000000001", "cannot specify timestamp in the future"),
        ("2200-01-01", "cannot specify timestamp in the future: 7258118400000000000.0000000000"),
    ],
)
def test_what_is_no_time_in_the_past_is_refused_as_there(text: str, says: str) -> None:
    with pytest.raises(StatementError) as caught:
        read_cursor(text, NOW_NS)
    shown = text if text.isascii() and text not in ("xxx", "-1 lightyear", "0x10") else "..."
    assert str(caught.value).startswith(f"cursor='{shown}': {says}")


@given(timestamps.filter(lambda timestamp: ZERO < timestamp <= Timestamp(MAX.wall)))
def test_an_hlc_decimal_is_its_own_cursor(timestamp: Timestamp) -> None:
    assert read_cursor(timestamp.decimal(), MAX.wall) == timestamp


moments = st.datetimes(
    datetime(1970, 1, 3),
    datetime(2023, 1, 1),
    timezones=st.integers(-839, 839).map(lambda minutes: timezone(timedelta(minutes=minutes))),
)


@given(moments)
def test_a_timestamp_is_read_as_python_reads_it(moment: datetime) -> None:
    nanos = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000
    assert read_cursor(moment.isoformat(), NOW_NS) == Timestamp(nanos)
    assert read_cursor(str(moment), NOW_NS) == Timestamp(nanos)
