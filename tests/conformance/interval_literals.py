"""INTERVALs as SQL spells them: PostgreSQL's words, ISO 8601, SQL's own ``1-2`` and ``3 04:05:06``.

Source: CockroachDB ``pkg/sql/sem/tree/interval.go``. A fraction of a month is days of a month of 30, one of a
day is time.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final, NamedTuple

from tidegate.hlc import NANOS_PER_SECOND
from tidegate.rows import Interval

_NUMBER: Final = r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)"
_ISO: Final = re.compile(
    rf"(?P<sign>-?)P(?:(?P<years>{_NUMBER})Y)?(?:(?P<months>{_NUMBER})M)?(?:(?P<weeks>{_NUMBER})W)?"
    rf"(?:(?P<days>{_NUMBER})D)?"
    rf"(?:T(?:(?P<hours>{_NUMBER})H)?(?:(?P<minutes>{_NUMBER})M)?(?:(?P<seconds>{_NUMBER})S)?)?",
    re.IGNORECASE,
)
_PART: Final = re.compile(
    r"\s*(?:(?P<sign>[+-]?)(?P<hours>\d+):(?P<minutes>\d\d)(?::(?P<seconds>\d\d?(?:\.\d*)?))?(?!\d)"
    r"|(?P<year_sign>[+-]?)(?P<years>\d+)-(?P<months>\d+)(?!\d)"
    rf"|(?P<number>{_NUMBER})(?:\s*(?P<unit>[a-z\u00b5\u03bc]+))?)",
    re.IGNORECASE,
)
_CLOCK_NEXT: Final = re.compile(r"\s+[+-]?\d+:")
_MONTHS: Final = {
    **dict.fromkeys(("month", "mon"), 1),
    **dict.fromkeys(("year", "y", "yr"), 12),
    "decade": 120,
    **dict.fromkeys(("century", "centurie"), 1200),
    **dict.fromkeys(("millennium", "millennia"), 12_000),
}
_DAYS: Final = {**dict.fromkeys(("day", "d"), 1), **dict.fromkeys(("week", "w"), 7)}
_SECONDS: Final = {
    **dict.fromkeys(("hour", "h", "hr"), Decimal(3600)),
    **dict.fromkeys(("minute", "m", "min"), Decimal(60)),
    **dict.fromkeys(("second", "s", "sec"), Decimal(1)),
    **dict.fromkeys(("millisecond", "ms", "msec", "millisec"), Decimal("1e-3")),
    **dict.fromkeys(("microsecond", "us", "usec", "microsec", "\u00b5s", "\u03bcs"), Decimal("1e-6")),
}
_WHOLE_UNITS: Final = frozenset({"s", "ms", "us", "\u00b5s", "\u03bcs"})


class _Sum(NamedTuple):
    """Months, days and seconds, with fractions."""

    months: Decimal = Decimal(0)
    days: Decimal = Decimal(0)
    seconds: Decimal = Decimal(0)

    def plus(self, number: Decimal, unit: str) -> _Sum:
        """Return the sum with so many of the unit. Raises ``KeyError`` for one that is not known."""
        if unit in _MONTHS:
            return self._replace(months=self.months + number * _MONTHS[unit])
        if unit in _DAYS:
            return self._replace(days=self.days + number * _DAYS[unit])
        return self._replace(seconds=self.seconds + number * _SECONDS[unit])

    def interval(self) -> Interval:
        """Fractions go down to the next smaller member."""
        months = int(self.months)
        all_days = self.days + (self.months - months) * 30
        days = int(all_days)
        seconds = self.seconds + (all_days - days) * 86_400
        return Interval(months, days, int(seconds * NANOS_PER_SECOND))


def interval_of(text: str) -> Interval:
    """``1 year 2 mons -3 days 04:05:06.5``, ``1 yr -6 ms``, ``P1Y2M3DT4H5M6S``, ``1-2``, ``3 04:05:06``.

    A number without a unit is seconds. Raises ``ValueError`` for anything else.
    """
    try:
        iso = _ISO.fullmatch(text.strip())
        if iso is not None and any(name != "sign" and part for name, part in iso.groupdict().items()):
            return _iso(iso).interval()
        return _words(text).interval()
    except (KeyError, ValueError):
        raise ValueError(f"{text!r} is no INTERVAL that the cases' reader knows") from None


def _iso(match: re.Match[str]) -> _Sum:
    total = _Sum()
    sign = -1 if match["sign"] else 1
    for name, number in match.groupdict().items():
        if name != "sign" and number:
            total = total.plus(sign * Decimal(number), name.removesuffix("s"))
    return total


def _words(text: str) -> _Sum:
    total, position, text = _Sum(), 0, text.strip()
    while position < len(text) or not text:
        match = _PART.match(text, position)
        if match is None:
            raise ValueError(text)
        position = match.end()
        total = _with_part(total, match, before_clock=_CLOCK_NEXT.match(text, position) is not None)
    return total


def _with_part(total: _Sum, match: re.Match[str], *, before_clock: bool) -> _Sum:
    if match["hours"]:
        sign = -1 if match["sign"] == "-" else 1
        whole = int(match["hours"]) * 3600 + int(match["minutes"]) * 60
        return total.plus(sign * (whole + Decimal(match["seconds"] or 0)), "second")
    if match["years"]:
        sign = -1 if match["year_sign"] == "-" else 1
        return total.plus(sign * (Decimal(match["years"]) * 12 + int(match["months"])), "month")
    bare = "day" if before_clock else "second"
    return total.plus(Decimal(match["number"]), _singular(match["unit"] or bare))


def _singular(unit: str) -> str:
    unit = unit.lower()
    return unit if unit in _WHOLE_UNITS else unit.removesuffix("s")
