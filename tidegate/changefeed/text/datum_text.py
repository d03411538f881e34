"""SQL values in the text form that SQL itself prints, without quotes.

Sources: CockroachDB ``pkg/sql/sem/tree`` (AsJSON and the bare-string format), ``pkg/util/timeutil/pgdate``,
``pkg/util/timeofday``, ``pkg/util/timetz``, ``pkg/util/duration`` (POSTGRES style), ``pkg/util/ipaddr``,
``pkg/geo/bbox.go``, ``pkg/sql/pgrepl/lsn``, ``pkg/util/vector``.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Interface, IPv6Interface
from typing import Final

from tidegate.rows.float_text import general_text32, plain_text
from tidegate.rows.types import Box2D, Interval, TimeTz

_NANOS_PER_SECOND: Final = 1_000_000_000
_MICROS_PER_SECOND: Final = 1_000_000
_MINUTES_PER_DAY: Final = 1440
_POSITIVE_INFINITY_DAYS: Final = 2**63 - 1
_NEGATIVE_INFINITY_DAYS: Final = -(2**63)
#: The greatest and the least TIMESTAMP, 294276-12-31 23:59:59.999999 and 4714-11-24 BC.
INFINITE_TIMESTAMPS: Final = {
    9_224_318_016_000 * _NANOS_PER_SECOND - 1000: "infinity",
    -210_866_803_200 * _NANOS_PER_SECOND: "-infinity",
}
_TWO_DIGITS: Final = tuple(f"{number:02d}" for number in range(60))
#: Texts like ``17:55:`` by minute of the day, since every row may have TIMESTAMP columns.
_MINUTE_TEXTS: Final = tuple(f"{m // 60:02d}:{m % 60:02d}:" for m in range(_MINUTES_PER_DAY))


def civil_date(days: int) -> tuple[int, int, int]:
    """Return (year, month, day) of a day counted from 1970-01-01, in the proleptic Gregorian calendar.

    Year 0 is 1 BC. Python's own calendar stops at the years 1 and 9999. The arithmetic counts 400-year eras
    of 146,097 days from 0000-03-01, so that the leap day is the last of its year.
    """
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted_month + 2) // 5 + 1
    month = shifted_month + 3 if shifted_month < 10 else shifted_month - 9
    return era * 400 + year_of_era + (month <= 2), month, day


@lru_cache(maxsize=4096)
def date_text(days: int) -> str:
    """Return a DATE: ``2019-01-02``, ``0044-03-15 BC``, ``infinity``, ``-infinity``."""
    if days == _POSITIVE_INFINITY_DAYS:
        return "infinity"
    if days == _NEGATIVE_INFINITY_DAYS:
        return "-infinity"
    year, month, day = civil_date(days)
    if year <= 0:
        return f"{1 - year:04d}-{month:02d}-{day:02d} BC"
    return f"{year:04d}-{month:02d}-{day:02d}"


@lru_cache(maxsize=4096)
def _timestamp_date(days: int) -> str:
    year, month, day = civil_date(days)
    sign = "-" if year < 0 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}"


def timestamp_text(nanos: int) -> str:
    """Return a TIMESTAMP: ``2025-04-01T17:55:46.812942``; the fraction's trailing zeros are dropped."""
    seconds, fraction = divmod(nanos, _NANOS_PER_SECOND)
    minutes, second = divmod(seconds, 60)
    days, minute = divmod(minutes, _MINUTES_PER_DAY)
    text = f"{_timestamp_date(days)}T{_MINUTE_TEXTS[minute]}{_TWO_DIGITS[second]}"
    # To cut the leading 1 off a larger number costs a third of a padded format.
    return f"{text}.{str(_NANOS_PER_SECOND + fraction)[1:]}".rstrip("0") if fraction else text


def timestamptz_text(nanos: int) -> str:
    """Return a TIMESTAMPTZ in UTC: ``2025-05-09T21:20:29Z``."""
    return timestamp_text(nanos) + "Z"


def sql_timestamp_text(nanos: int) -> str:
    """Return a TIMESTAMP as SQL prints it: ``2025-04-01 17:55:46.8``, ``0044-03-15 00:00:00 BC``,
    ``infinity``.
    """
    if nanos in INFINITE_TIMESTAMPS:
        return INFINITE_TIMESTAMPS[nanos]
    text, era = _sql_timestamp(nanos)
    return text + era


def sql_timestamptz_text(nanos: int) -> str:
    """Return a TIMESTAMPTZ in UTC as SQL prints it: ``2025-04-01 17:55:46.812942+00``."""
    if nanos in INFINITE_TIMESTAMPS:
        return INFINITE_TIMESTAMPS[nanos]
    text, era = _sql_timestamp(nanos)
    return f"{text}+00{era}"


def _sql_timestamp(nanos: int) -> tuple[str, str]:
    """Return date and time, and the era `` BC`` for a year before 1."""
    day, _, clock = timestamp_text(nanos).rpartition("T")
    year, month, number = civil_date(nanos // (_NANOS_PER_SECOND * 60 * _MINUTES_PER_DAY))
    if year > 0:
        return f"{day} {clock}", ""
    return f"{1 - year:04d}-{month:02d}-{number:02d} {clock}", " BC"


def time_text(micros: int) -> str:
    """Return a TIME: ``03:04:05``, ``03:04:05.6``, ``24:00:00``. An INTERVAL may have more hours than 24."""
    seconds, fraction = divmod(micros, _MICROS_PER_SECOND)
    minutes, second = divmod(seconds, 60)
    if 0 <= minutes < _MINUTES_PER_DAY:
        text = f"{_MINUTE_TEXTS[minutes]}{_TWO_DIGITS[second]}"
    else:
        text = f"{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}"
    return f"{text}.{fraction:06d}".rstrip("0") if fraction else text


def timetz_text(value: TimeTz) -> str:
    """Return a TIMETZ in Avro: ``03:04:05+02:00:00``. The stored offset counts west of UTC, the text east."""
    return time_text(value.micros) + _offset_text(value.offset_seconds)


@lru_cache(maxsize=1024)
def _offset_text(offset_seconds: int) -> str:
    sign = "-" if offset_seconds > 0 else "+"
    minutes, second = divmod(abs(offset_seconds), 60)
    hour, minute = divmod(minutes, 60)
    return f"{sign}{hour:02d}:{minute:02d}:{second:02d}"


def sql_timetz_text(value: TimeTz) -> str:
    """Return a TIMETZ as SQL and JSON have it: ``03:04:05+02``.

    Zero seconds of the offset are left out, and with them zero minutes: ``+02:30``, ``+02``.

    Source: ``tree.PGWireFormatTimeTZ``, since CockroachDB 23.1.
    """
    return short_offset(timetz_text(value))


def short_offset(text: str) -> str:
    """Return Avro's text of a TIMETZ without zero minutes and seconds of the offset: ``+02:00:00`` gives
    ``+02``.
    """
    for _ in range(2):
        text = text.removesuffix(":00")
    return text


def interval_text(value: Interval) -> str:
    """Return an INTERVAL: ``1 year 2 mons 3 days 04:05:06.5``.

    A positive unit after a negative one has a plus sign: ``-1 years +1 day``. Nanoseconds are cut to
    microseconds, as in CockroachDB.
    """
    if not (value.months or value.days or value.nanos):
        return "00:00:00"
    parts = _months_text(value.months)
    if value.days:
        plus = "+" if value.months < 0 < value.days else ""
        parts.append(f"{plus}{value.days} day{_plural(value.days)}")
    if value.nanos:
        before = value.days or value.months
        parts.append(_signed_time(value.nanos, after_negative=before < 0))
    return " ".join(parts)


def _months_text(months: int) -> list[str]:
    years, rest = divmod(abs(months), 12)
    if months < 0:
        years, rest = -years, -rest
    parts = []
    if years:
        parts.append(f"{years} year{_plural(years)}")
    if rest:
        parts.append(f"{rest} mon{_plural(rest)}")
    return parts


def _plural(count: int) -> str:
    return "" if count == 1 else "s"


def _signed_time(nanos: int, *, after_negative: bool) -> str:
    micros = abs(nanos) // 1000
    if nanos < 0 and micros:
        return "-" + time_text(micros)
    return ("+" if after_negative else "") + time_text(micros)


def inet_text(value: IPv4Interface | IPv6Interface) -> str:
    """Return an INET. A mask that covers the whole address is left out. IPv4 inside IPv6 has dotted form."""
    address, _, prefix = value.with_prefixlen.partition("/")
    if isinstance(value, IPv6Interface) and value.ip.ipv4_mapped is not None:
        address = f"::ffff:{value.ip.ipv4_mapped}"
    return address if int(prefix) == value.max_prefixlen else f"{address}/{prefix}"


def lsn_text(lsn: int) -> str:
    """Return a PG_LSN: ``16/B374D848``."""
    return "%X/%X" % (lsn >> 32, lsn & 0xFFFF_FFFF)  # noqa: UP031 - half the cost of a formatted string


def box2d_text(box: Box2D) -> str:
    """Return a BOX2D: ``BOX(1 2,3.5 4)``, the corner of the least x and y first."""
    lo_x, hi_x, lo_y, hi_y = map(plain_text, box)
    return f"BOX({lo_x} {lo_y},{hi_x} {hi_y})"


def vector_text(values: Iterable[float]) -> str:
    """Return a VECTOR: ``[1,-0.5,1e+06]``, each number as short as 32 bits allow."""
    return f"[{','.join(map(general_text32, values))}]"


def shape_text(ewkb: bytes) -> str:
    """Return a GEOMETRY or GEOGRAPHY: its EWKB in upper-case hexadecimal."""
    return ewkb.hex().upper()
