"""SQL literals as the VALUES lists of changefeed cases hold them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Final

from tests.conformance.literals import datum_of
from tidegate.hlc import NANOS_PER_SECOND
from tidegate.rows import Datum, Interval, Kind, SqlType

_TYPED: Final = re.compile(r"(?:[A-Za-z_][\w ]*(?:\([\d, ]+\))?\s*)?(?P<text>'.*')", re.DOTALL)
_CAST: Final = re.compile(r"(::\s*[\w\[\]() ,]+|\s+COLLATE\s+\"?[\w-]+\"?)$", re.IGNORECASE)
_AMOUNT: Final = re.compile(r"(?P<number>[+-]?\d+(?:\.\d+)?)\s*(?P<unit>[a-z]+)", re.IGNORECASE)
_CLOCK: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<hours>\d+):(?P<minutes>\d\d)(?::(?P<seconds>\d\d(?:\.\d+)?))?"
)
_FRACTION: Final = re.compile(r"\.(\d{1,9})")
_SHORT_ZONE: Final = re.compile(r"(?<=:\d\d)([+-]\d\d)$|(?<=\d)(Z)$")
_ZONE: Final = re.compile(r"[+-]\d\d(:\d\d)?$")
_WHOLE_HOURS: Final = re.compile(r"([+-]\d\d)$")
_INFINITE_DAYS: Final = {"infinity": 2**63 - 1, "-infinity": -(2**63)}
_MONTHS: Final = {"year": 12, "y": 12, "yr": 12, "month": 1, "mon": 1}
_DAYS: Final = {"week": 7, "w": 7, "day": 1, "d": 1}
_SECONDS: Final = {
    **dict.fromkeys(("hour", "h", "hr"), Decimal(3600)),
    **dict.fromkeys(("minute", "m", "min"), Decimal(60)),
    **dict.fromkeys(("second", "s", "sec"), Decimal(1)),
    **dict.fromkeys(("millisecond", "ms", "msec"), Decimal("1e-3")),
    **dict.fromkeys(("microsecond", "us", "usec"), Decimal("1e-6")),
}


def split_rows(text: str) -> list[list[str]]:
    """The literals of each row in ``(1, 'a'), (2, 'b')``."""
    return [split_list(row.strip()[1:-1]) for row in split_list(text)]


def split_list(text: str) -> list[str]:
    """The items between commas outside quotes and brackets."""
    return [item.strip() for item in _items(text)]


def sql_literal(sql_type: SqlType, text: str, *, rounded: bool = True) -> Datum:
    """The datum of one literal; ``rounded`` to what a column of its type keeps.

    Raises ``ValueError`` for a literal that has no meaning for its type.
    """
    text = _CAST.sub("", text.strip())
    if text.upper() == "NULL":
        return None
    if sql_type.kind is Kind.ARRAY:
        assert sql_type.element is not None
        items = split_list(_unquoted(text).removeprefix("ARRAY")[1:-1])
        return tuple(sql_literal(sql_type.element, item, rounded=rounded) for item in items if item)
    datum = _of_plain(sql_type, _unquoted(text))
    return stored(sql_type, datum) if rounded else datum


def stored(sql_type: SqlType, datum: Datum) -> Datum:
    """The datum as a column of that type keeps it: a decimal is rounded to its scale."""
    if not isinstance(datum, Decimal) or sql_type.kind is not Kind.DECIMAL:
        return datum
    if not sql_type.width or not datum.is_finite():
        return datum
    return datum.quantize(Decimal(1).scaleb(-sql_type.scale), rounding=ROUND_HALF_UP)


def _unquoted(text: str) -> str:
    """The text of ``'x'``, ``B'010'``, ``DATE '2019-01-02'``; anything else as it stands."""
    typed = _TYPED.fullmatch(text)
    return text if typed is None else typed["text"][1:-1].replace("''", "'")


def _of_plain(sql_type: SqlType, text: str) -> Datum:
    match sql_type.kind:
        case Kind.BOOL:
            return _bool(text)
        case Kind.BYTES:
            return bytes.fromhex(text[2:]) if text.startswith("\\x") else text.encode()
        case Kind.INTERVAL:
            return _interval(text)
        case Kind.JSONB:
            return datum_of(sql_type, json.loads(text, parse_float=Decimal))
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            return _nanos(text)
        case Kind.TIMETZ:
            return datum_of(
                sql_type, _WHOLE_HOURS.sub(r"\1:00", text if _ZONE.search(text) else f"{text}+00")
            )
        case Kind.DATE if text.lower() in _INFINITE_DAYS:
            return _INFINITE_DAYS[text.lower()]
        case _:
            return datum_of(sql_type, text)


def _bool(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{text!r} is no BOOL")
    return text.lower() == "true"


def _nanos(text: str) -> int:
    """Nanoseconds since 1970; a text without a zone is in UTC."""
    fraction = _FRACTION.search(text)
    whole = _SHORT_ZONE.sub(lambda match: f"{match[1] or '+00'}:00", _FRACTION.sub("", text))
    moment = datetime.fromisoformat(whole)
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    nanos = int(fraction[1].ljust(9, "0")) if fraction else 0
    return int(moment.timestamp()) * NANOS_PER_SECOND + nanos


def _interval(text: str) -> Interval:
    """``1 year 2 mons -3 days 04:05:06.5``, ``1 yr -6 ms``."""
    clock = _CLOCK.search(text)
    rest = _CLOCK.sub("", text)
    months, days, seconds = 0, 0, Decimal(0)
    for match in _AMOUNT.finditer(rest):
        number, unit = Decimal(match["number"]), _singular(match["unit"])
        if unit in _MONTHS:
            months += int(number * _MONTHS[unit])
        elif unit in _DAYS:
            days += int(number * _DAYS[unit])
        else:
            seconds += number * _SECONDS[unit]
    if _AMOUNT.sub("", rest).strip():
        raise ValueError(f"{text!r} is no INTERVAL that the cases' reader knows")
    if clock is not None:
        sign = -1 if clock["sign"] == "-" else 1
        whole = int(clock["hours"]) * 3600 + int(clock["minutes"]) * 60
        seconds += sign * (whole + Decimal(clock["seconds"] or 0))
    return Interval(months, days, int(seconds * NANOS_PER_SECOND))


def _singular(unit: str) -> str:
    unit = unit.lower()
    return unit if unit in ("s", "ms", "us") else unit.removesuffix("s")


def _items(text: str) -> Iterator[str]:
    depth, quoted, start = 0, False, 0
    for position, character in enumerate(text):
        quoted ^= character == "'"
        depth += {"[": 1, "(": 1, "]": -1, ")": -1}.get(character, 0) if not quoted else 0
        if character == "," and depth == 0 and not quoted:
            yield text[start:position]
            start = position + 1
    yield text[start:]
