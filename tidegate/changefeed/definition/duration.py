"""Durations as options write them: ``10s``, ``500ms``, ``1m30s``, ``1.5h``, ``0s``, ``0``.

The grammar is that of Go's ``time.ParseDuration``, which CockroachDB's options use.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

from tidegate.changefeed.definition.quoted_value import quoted

_UNITS_NS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_PART: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_LIMIT_NS: Final = 2**63 - 1
#: More characters than any real duration has. Reading a fraction of n digits takes time that grows as n * n.
_MOST_CHARACTERS: Final = 200


def parse_duration(text: str) -> int:
    """Return the nanoseconds of a duration, which may be negative; parts of a nanosecond are cut off.

    Raises ``ValueError`` with a sentence if the text is no duration, or one of more than about 292 years.
    """
    if len(text) > _MOST_CHARACTERS:
        raise ValueError(f"not a duration: it has {len(text)} characters (write 10s, 500ms or 1m30s)")
    sign = -1 if text.startswith("-") else 1
    magnitude = text[1:] if text.startswith(("-", "+")) else text
    if magnitude == "0":
        return 0
    parts = _PART.findall(magnitude)
    if not parts or "".join(number + unit for number, unit in parts) != magnitude:
        raise ValueError(f"not a duration: {quoted(text)} (write 10s, 500ms or 1m30s)")
    nanos = sum(int(Fraction(_leading_zero(number)) * _UNITS_NS[unit]) for number, unit in parts)
    if nanos > _LIMIT_NS:
        raise ValueError(f"duration out of range: {quoted(text)} (the longest is about 292 years)")
    return sign * nanos


def duration_text(nanos: int) -> str:
    """Return the text of a duration of ``nanos``, in the largest unit that divides it: s, ms, us or ns.

    ``nanos`` must not be negative.
    """
    for unit in ("s", "ms", "us"):
        if nanos % _UNITS_NS[unit] == 0:
            return f"{nanos // _UNITS_NS[unit]}{unit}"
    return f"{nanos}ns"


def _leading_zero(number: str) -> str:
    return f"0{number}" if number.startswith(".") else number.rstrip(".")
