"""INTERVAL datums in ISO 8601, as Avro records carry them.

Source: CockroachDB ``pkg/util/duration/duration.go`` (style ISO_8601).
"""

from __future__ import annotations

from typing import Final

from tidegate.rows.types import Interval

_MICROS_PER_SECOND: Final = 1_000_000


def iso_interval(value: Interval) -> str:
    """Return ``P1Y2M3DT4H5M6S``, ``P1YT-0.006S`` or ``PT0S``: each part has its own sign.

    Nanoseconds are cut to microseconds. If the time is zero after that, CockroachDB prints a bare ``T``,
    which is not ISO 8601. Here the ``T`` is left out.
    """
    micros = abs(value.nanos) // 1000
    date = _months_text(value.months) + _part(value.days, "D")
    time = "T" + _time_text(micros, negative=value.nanos < 0) if micros else ""
    return f"P{date}{time}" if date or time else "PT0S"


def _months_text(months: int) -> str:
    years, rest = divmod(abs(months), 12)
    sign = -1 if months < 0 else 1
    return _part(sign * years, "Y") + _part(sign * rest, "M")


def _time_text(micros: int, *, negative: bool) -> str:
    sign = "-" if negative else ""
    seconds, fraction = divmod(micros, _MICROS_PER_SECOND)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    text = "".join(f"{sign}{count}{unit}" for count, unit in ((hour, "H"), (minute, "M")) if count)
    if fraction:
        return f"{text}{sign}{second}.{fraction:06d}".rstrip("0") + "S"
    return f"{text}{sign}{second}S" if second else text


def _part(count: int, unit: str) -> str:
    return f"{count}{unit}" if count else ""
