"""Dates and times as SQL spells them, in any year, era and offset.

Source: CockroachDB ``pkg/util/timeutil/pgdate``. Spellings that it takes beside ISO's (month names,
``03/15``, places as zones) are refused here: no case may pass by a reading that was guessed.
"""

from __future__ import annotations

import re
from datetime import date
from decimal import ROUND_HALF_UP, Decimal
from typing import Final

from tidegate.hlc import NANOS_PER_SECOND
from tidegate.rows import TimeTz

_MICROS_PER_SECOND: Final = 1_000_000
_NANOS_PER_MICRO: Final = 1000
_SECONDS_PER_DAY: Final = 86_400
_DAYS_OF_400_YEARS: Final = 146_097
_ERA_START: Final = 2000
_DATE: Final = r"(?P<year>[+-]?\d{1,6})-(?P<month>\d\d?)-(?P<day>\d\d?)"
_CLOCK: Final = r"(?P<hours>\d\d?):(?P<minutes>\d\d)(?::(?P<seconds>\d\d?(?:\.\d*)?))?"
_ZONE: Final = r"(?P<zone>Z|UTC|GMT|[+-]\d\d?(?::?\d\d(?::?\d\d)?)?)?"
_ERA: Final = r"(?P<era>BC|BCE|AD|CE)?"
_MOMENT: Final = re.compile(rf"{_DATE}(?:(?:T|\s+){_CLOCK})?\s*{_ZONE}\s*{_ERA}", re.IGNORECASE)
_TIME: Final = re.compile(rf"{_CLOCK}\s*{_ZONE}", re.IGNORECASE)
_OFFSET: Final = re.compile(r"(?P<sign>[+-])(?P<hours>\d\d?):?(?P<minutes>\d\d)?:?(?P<seconds>\d\d)?")
#: DATE has infinities of its own.
_DATE_WORDS: Final = {"infinity": 2**63 - 1, "-infinity": -(2**63), "epoch": 0}
#: A timestamp's are the greatest and the least that there are: 294276-12-31 23:59:59.999999, 4714-11-24 BC.
_TIMESTAMP_WORDS: Final = {
    "infinity": 9_224_318_016_000 * NANOS_PER_SECOND - _NANOS_PER_MICRO,
    "-infinity": -210_866_803_200 * NANOS_PER_SECOND,
    "epoch": 0,
}


def days_of(text: str) -> int:
    """Days since 1970-01-01: ``2019-01-02``, ``0044-03-15 BC``, ``infinity``."""
    text = text.strip()
    known = _DATE_WORDS.get(text.lower())
    return _days(_matched(_MOMENT, text, "date")) if known is None else known


def timestamp_of(text: str) -> int:
    """Nanoseconds since 1970, rounded to microseconds; a text without a zone is in UTC."""
    text = text.strip()
    if text.lower() in _TIMESTAMP_WORDS:
        return _TIMESTAMP_WORDS[text.lower()]
    match = _matched(_MOMENT, text, "timestamp")
    seconds = _days(match) * _SECONDS_PER_DAY - _east(match["zone"])
    return (seconds * _MICROS_PER_SECOND + _micros(match)) * _NANOS_PER_MICRO


def time_of(text: str) -> int:
    """Microseconds since midnight: ``03:04:05.6``, ``24:00:00``."""
    return _micros(_matched(_TIME, text.strip(), "time"))


def timetz_of(text: str) -> TimeTz:
    """A time with its offset, which counts seconds west of UTC: ``03:04:05+02``, ``03:04:05-05:30:00``."""
    match = _matched(_TIME, text.strip(), "time")
    return TimeTz(_micros(match), -_east(match["zone"]))


def _matched(pattern: re.Pattern[str], text: str, what: str) -> re.Match[str]:
    match = pattern.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no {what} that the cases' reader knows")
    return match


def _days(match: re.Match[str]) -> int:
    year = int(match["year"])
    if (match["era"] or "").upper().startswith("B"):
        year = 1 - year
    # Python's calendar has four digits of year; every 400 years it is the same again.
    shifted = date(_ERA_START + year % 400, int(match["month"]), int(match["day"]))
    eras = (year - year % 400 - _ERA_START) // 400
    return (shifted - date(1970, 1, 1)).days + eras * _DAYS_OF_400_YEARS


def _micros(match: re.Match[str]) -> int:
    minutes = int(match["hours"] or 0) * 60 + int(match["minutes"] or 0)
    seconds = minutes * 60 + Decimal(match["seconds"] or 0)
    return int((seconds * _MICROS_PER_SECOND).to_integral_value(ROUND_HALF_UP))


def _east(zone: str | None) -> int:
    """Seconds east of UTC."""
    match = _OFFSET.fullmatch(zone or "")
    if match is None:
        return 0
    seconds = int(match["hours"]) * 3600 + int(match["minutes"] or 0) * 60 + int(match["seconds"] or 0)
    return -seconds if match["sign"] == "-" else seconds
