"""Dates and times as whole numbers: in the order of time, whichever form they have in records and constants.

| type | number |
|---|---|
| DATE, TIMESTAMP, TIMESTAMPTZ | nanoseconds since 1970-01-01 00:00 UTC; a date is its midnight |
| TIME | nanoseconds of the day |
| TIMETZ | nanoseconds of the day in UTC, then the zone, the one furthest east first |

``infinity`` is above all moments, ``-infinity`` below them. A text without a zone is in UTC. The zone in a
text of a TIMESTAMP is ignored, as in PostgreSQL.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time
from functools import lru_cache
from typing import Any, Final

from tidegate.changefeed.text.datum_text import INFINITE_TIMESTAMPS

_SECOND: Final = 1_000_000_000
_DAY: Final = 86_400 * _SECOND
_MICROSECOND: Final = 1_000
_INFINITY: Final = 1 << 100
_INFINITIES: Final = {"infinity": _INFINITY, "+infinity": _INFINITY, "-infinity": -_INFINITY}
#: The last characters of most texts. A text that ends in one of them is no infinity.
_DIGIT_OR_Z: Final = (*"Z0123456789",)
#: More than the seconds that a zone can be away from UTC.
_ZONES: Final = 1 << 18

_DATE: Final = r"(?P<sign>-?)(?P<year>\d{4,7})-(?P<month>\d\d)-(?P<day>\d\d)"
_CLOCK: Final = r"(?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<fraction>\d{1,9}))?)?"
_ZONE: Final = (
    r"(?: ?(?:[Zz]|UTC|(?P<side>[+-])(?P<hours>\d\d)(?::?(?P<minutes>\d\d)(?::?(?P<seconds>\d\d))?)?))?"
)
_ERA: Final = r"(?: (?P<era>BC|AD))?"
_DATE_TEXT: Final = re.compile(_DATE + _ERA, re.ASCII)
_TIME_TEXT: Final = re.compile(_CLOCK, re.ASCII)
_TIMETZ_TEXT: Final = re.compile(_CLOCK + _ZONE, re.ASCII)
_TIMESTAMP_TEXT: Final = re.compile(f"{_DATE}(?:[T ]{_CLOCK}{_ZONE})?{_ERA}", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY: Final = _EPOCH.toordinal()
_MONTH_DAYS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def date_number(value: Any) -> int:
    """Read a DATE: a text, a ``date``, or days since 1970-01-01.

    Raises ``ValueError`` or ``TypeError`` for any other value.
    """
    if isinstance(value, str):
        known = _infinity(value)
        return _days(_matched(_DATE_TEXT, value)) * _DAY if known is None else known
    if isinstance(value, date):
        return (value.toordinal() - _EPOCH_DAY) * _DAY
    return _whole(value) * _DAY


def timestamp_number(value: Any, *, zoned: bool = False) -> int:
    """Read a TIMESTAMP, or with ``zoned`` a TIMESTAMPTZ: a text, a ``datetime``, or microseconds since 1970.

    Raises ``ValueError`` or ``TypeError`` for any other value.
    """
    if isinstance(value, str) and not value.endswith(_DIGIT_OR_Z) and (known := _infinity(value)) is not None:
        return known
    number = timestamp_nanos(value, zoned=zoned)
    name = INFINITE_TIMESTAMPS.get(number)
    return number if name is None else _INFINITIES[name]


def timestamp_nanos(value: Any, *, zoned: bool = False) -> int:
    """Read a feed's TIMESTAMP or TIMESTAMPTZ as ``timestamp_number`` does, but without a rule for infinities.

    A feed never writes an infinity by its name, but as a timestamp.
    """
    if isinstance(value, str):
        found = _matched(_TIMESTAMP_TEXT, value)
        number = _days(found) * _DAY + (_clock(found) if found["hour"] else 0)
        return number - _east(found) * _SECOND if zoned else number
    if isinstance(value, datetime):
        since = (value if value.tzinfo else value.replace(tzinfo=UTC)) - _EPOCH
        return since.days * _DAY + since.seconds * _SECOND + since.microseconds * _MICROSECOND
    return _whole(value) * _MICROSECOND


def time_number(value: Any) -> int:
    """Read a TIME: a text, a ``time``, or microseconds. Raises as ``date_number``."""
    if isinstance(value, str):
        return _clock(_matched(_TIME_TEXT, value))
    if isinstance(value, time):
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return seconds * _SECOND + value.microsecond * _MICROSECOND
    return _whole(value) * _MICROSECOND


def timetz_number(value: Any) -> int:
    """Read a TIMETZ: a text. Raises as ``date_number``."""
    found = _matched(_TIMETZ_TEXT, value)
    east = _east(found)
    return (_clock(found) - east * _SECOND) * _ZONES - east


def _infinity(text: str) -> int | None:
    return _INFINITIES.get(text.lower()) if len(text) <= len("-infinity") else None


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise TypeError("a number of days or microseconds is whole")
    return value


def _matched(form: re.Pattern[str], text: str) -> re.Match[str]:
    found = form.fullmatch(text.strip(" "))
    if found is None:
        raise ValueError("no date or time")
    return found


def _days(found: re.Match[str]) -> int:
    sign, year, month, day, era = found.group("sign", "year", "month", "day", "era")
    return _days_of(sign, year, month, day, era)


@lru_cache(maxsize=4096)
def _days_of(sign: str, year_text: str, month_text: str, day_text: str, era: str | None) -> int:
    """Return the days since 1970-01-01. The year 0 is 1 BC. A feed in JSON writes 2 BC as ``-0001``."""
    year, month, day = int(year_text), int(month_text), int(day_text)
    if era is not None and (sign or not year):
        raise ValueError("no year of an era")
    if era == "BC":
        year = 1 - year
    elif sign:
        year = -year
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= month <= len(_MONTH_DAYS) or not 1 <= day <= _MONTH_DAYS[month - 1] + (leap and month == 2):
        raise ValueError("no day of the calendar")
    # The inverse of datum_text.civil_date: years begin in March, so that the leap day is their last.
    shifted, from_march = (year, month - 3) if month > 2 else (year - 1, month + 9)
    before = 365 * shifted + shifted // 4 - shifted // 100 + shifted // 400
    return before + (153 * from_march + 2) // 5 + day - 1 - 719_468


def _clock(found: re.Match[str]) -> int:
    hour, minute, second, fraction = found.group("hour", "minute", "second", "fraction")
    number = _seconds_of(hour, minute, second) * _SECOND
    if fraction:
        number += int(fraction.ljust(9, "0"))
    if number > _DAY:
        raise ValueError("no time of a day")
    return number


@lru_cache(maxsize=4096)
def _seconds_of(hour: str, minute: str, second: str | None) -> int:
    if int(minute) > 59 or int(second or 0) > 59:
        raise ValueError("no time of a day")
    return (int(hour) * 60 + int(minute)) * 60 + int(second or 0)


def _east(found: re.Match[str]) -> int:
    """Return the seconds that a zone is east of UTC."""
    side, hours, minutes, seconds = found.group("side", "hours", "minutes", "seconds")
    if side is None:
        return 0
    away = (int(hours) * 60 + int(minutes or 0)) * 60 + int(seconds or 0)
    return away if side == "+" else -away
