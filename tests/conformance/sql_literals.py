"""SQL literals as the VALUES lists of changefeed cases hold them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Final

from tests.conformance.literals import datum_of
from tidegate.rows import Datum, Interval, Kind, SqlType

_NANOS_PER_SECOND: Final = 1_000_000_000
_UNIT: Final = re.compile(r"(-?\d+) (year|mon|day)s?")
_CLOCK: Final = re.compile(r"(-?)(\d+):(\d\d):(\d\d(?:\.\d+)?)$")


def split_list(text: str) -> list[str]:
    """The items between commas outside quotes and brackets."""
    return [item.strip() for item in _items(text)]


def sql_literal(sql_type: SqlType, text: str) -> Datum:
    """The datum of one literal."""
    if text.upper() == "NULL":
        return None
    text = re.sub(r"(::|\s+COLLATE\s+)\w+$", "", text)
    if sql_type.kind is Kind.ARRAY:
        assert sql_type.element is not None
        items = split_list(text.removeprefix("ARRAY")[1:-1])
        return tuple(sql_literal(sql_type.element, item) for item in items if item)
    plain = text.lstrip("Bb")[1:-1].replace("''", "'") if text.endswith("'") else text
    return _of_plain(sql_type, plain)


def _of_plain(sql_type: SqlType, text: str) -> Datum:
    match sql_type.kind:
        case Kind.BOOL:
            return text.lower() == "true"
        case Kind.BYTES:
            return bytes.fromhex(text[2:]) if text.startswith("\\x") else text.encode()
        case Kind.INTERVAL:
            return _interval(text)
        case Kind.JSONB:
            return datum_of(sql_type, json.loads(text, parse_float=Decimal))
        case Kind.TIMESTAMPTZ:
            return datum_of(sql_type, re.sub(r"\+00$", "+00:00", text))
        case _:
            return datum_of(sql_type, text)


def _interval(text: str) -> Interval:
    units = {"year": 0, "mon": 0, "day": 0}
    for number, unit in _UNIT.findall(text):
        units[unit] += int(number)
    clock = _CLOCK.search(text)
    seconds = Decimal(0)
    if clock is not None:
        seconds = int(clock[2]) * 3600 + int(clock[3]) * 60 + Decimal(clock[4])
    nanos = int(seconds * _NANOS_PER_SECOND) * (-1 if clock is not None and clock[1] else 1)
    return Interval(units["year"] * 12 + units["mon"], units["day"], nanos)


def _items(text: str) -> Iterator[str]:
    depth, quoted, start = 0, False, 0
    for position, character in enumerate(text):
        quoted ^= character == "'"
        depth += {"[": 1, "]": -1}.get(character, 0)
        if character == "," and depth == 0 and not quoted:
            yield text[start:position]
            start = position + 1
    yield text[start:]
