"""JSON values back into datums, by the column's type: written from SQL's rules and not from the printer."""

from __future__ import annotations

import ipaddress
import math
import re
import struct
import uuid
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any, Final

from tidegate.rows.ewkb import Shape, ShapeType, read_ewkb
from tidegate.rows.types import (
    Box2D,
    Datum,
    Interval,
    Json,
    Kind,
    SqlType,
    TimeTz,
    TsOperand,
    TsPosition,
    TsQuery,
    TsTerm,
    TsVector,
)

_DATE: Final = re.compile(r"(-?\d{4,})-(\d\d)-(\d\d)( BC)?")
_TIME: Final = re.compile(r"(-|\+?)(\d\d+):(\d\d):(\d\d)(?:\.(\d{1,9}))?")
_UNIT: Final = re.compile(r"([+-]?\d+) (year|mon|day)s?")
_BOX: Final = re.compile(r"BOX\((\S+) (\S+),(\S+) (\S+)\)")
_WORD: Final = re.compile(r"'(?P<word>(?:[^']|'')*)'(?::(?P<rest>[\d,*A-D]+))?")
_PLACE: Final = re.compile(r"(\d+)([A-C]?)")
_EPOCH: Final = date(1970, 1, 1).toordinal()
_ERA_DAYS: Final = 146_097  # of 400 years


def same_datum(sql_type: SqlType, found: Any, datum: Datum) -> bool:
    """Whether a JSON value stands for the datum. Numbers may have been read as floats."""
    if datum is None:
        return found is None
    if sql_type.kind in (Kind.GEOMETRY, Kind.GEOGRAPHY) and isinstance(datum, bytes):
        return _same_shape(found, read_ewkb(datum))
    if isinstance(datum, TsQuery):
        return _operands(found) == [token for token in datum.tokens if isinstance(token, TsOperand)]
    if isinstance(datum, tuple) and sql_type.element is not None:
        pairs = zip(found, datum, strict=True)
        return isinstance(found, list) and all(same_datum(sql_type.element, *pair) for pair in pairs)
    if isinstance(datum, Json):
        return _same_json(found, datum.value)
    if isinstance(datum, Decimal | float):
        return _same_number(found, datum)
    return bool(_READERS[sql_type.kind](found) == _cut_to_text(datum))


def _same_shape(found: Any, shape: Shape) -> bool:
    if found["type"].upper() != shape.type.name:
        return False
    if shape.type is ShapeType.GEOMETRYCOLLECTION:
        members = zip(found["geometries"], shape.parts, strict=True)
        return found.keys() == {"geometries", "type"} and all(_same_shape(*pair) for pair in members)
    same = _numbers(found["coordinates"]) == _numbers(_coordinates(shape))
    return found.keys() == {"coordinates", "type"} and bool(same)


def _coordinates(shape: Shape) -> Any:
    return [_coordinates(part) if isinstance(part, Shape) else part for part in shape.parts]


def _numbers(nested: Any) -> Any:
    """Nested coordinates with nine decimals; an empty list and one of nothing are not the same."""
    if isinstance(nested, list | tuple):
        return [_numbers(each) for each in nested]
    return round(float(nested), 9)


def _box(text: str) -> Box2D:
    match = _BOX.fullmatch(text)
    assert match is not None, text
    lo_x, lo_y, hi_x, hi_y = map(float, match.groups())
    return Box2D(lo_x, hi_x, lo_y, hi_y)


def _lsn(text: str) -> int:
    high, low = text.split("/")
    return int(high, 16) << 32 | int(low, 16)


def _vector(text: str) -> tuple[float, ...]:
    assert text.startswith("[")
    assert text.endswith("]")
    numbers = [float(number) for number in text[1:-1].split(",") if number]
    return struct.unpack(f"<{len(numbers)}f", struct.pack(f"<{len(numbers)}f", *numbers))


def _tsvector(text: str) -> TsVector:
    terms = []
    for match in _WORD.finditer(text):
        places = [_PLACE.fullmatch(place) for place in (match["rest"] or "").split(",") if place]
        positions = tuple(TsPosition(int(p[1]), "DCBA".index(p[2] or "D")) for p in places if p)
        terms.append(TsTerm(match["word"].replace("''", "'"), positions))
    return TsVector(tuple(terms))


def _operands(text: str) -> list[TsOperand]:
    """The lexemes of a query in their order; how they are joined has its own tests."""
    found = []
    for match in _WORD.finditer(text):
        weights = sum(1 << "DCBA*".index(letter) for letter in match["rest"] or "")
        found.append(TsOperand(match["word"].replace("''", "'"), weights))
    return found


def _cut_to_text(datum: Datum) -> Datum:
    """Return what the text keeps: an interval's nanoseconds are cut to microseconds."""
    if isinstance(datum, Interval):
        return datum._replace(nanos=math.trunc(Decimal(datum.nanos) / 1000) * 1000)
    return datum


def _same_number(found: Any, number: Decimal | float) -> bool:
    if not math.isfinite(number):
        return bool(found == {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}[str(float(number))])
    if isinstance(found, str | bool):
        return False
    if isinstance(found, float) or isinstance(number, float):
        return float(found) == float(number)
    return Decimal(found) == number


def _same_json(found: Any, value: Any) -> bool:
    match value:
        case dict():
            return found.keys() == value.keys() and all(
                _same_json(found[name], value[name]) for name in value
            )
        case list():
            return len(found) == len(value) and all(map(_same_json, found, value))
        case Decimal():
            return _same_number(found, value)
        case _:
            return type(found) is type(value) and bool(found == value)


def _days(text: str) -> int:
    match = _DATE.fullmatch(text)
    assert match is not None, text
    year, month, day = int(match[1]), int(match[2]), int(match[3])
    eras, year = divmod(1 - year if match[4] else year, 400)
    return date(year + 400, month, day).toordinal() - _EPOCH + (eras - 1) * _ERA_DAYS


def _nanos(text: str) -> int:
    match = _TIME.fullmatch(text)
    assert match is not None, text
    seconds = (int(match[2]) * 60 + int(match[3])) * 60 + int(match[4])
    nanos = seconds * 10**9 + int((match[5] or "0").ljust(9, "0"))
    return -nanos if match[1] == "-" else nanos


def _timestamp(text: str) -> int:
    day, time = text.split("T")
    return _days(day) * 86_400 * 10**9 + _nanos(time)


def _timestamptz(text: str) -> int:
    assert text.endswith("Z")
    return _timestamp(text[:-1])


def _timetz(text: str) -> TimeTz:
    sign = max(text.rfind("+"), text.rfind("-"))
    zone = text[sign:]
    zone += ":00" * (2 - zone.count(":"))  # left out where it is zero
    return TimeTz(_nanos(text[:sign]) // 1000, -_nanos(zone) // 10**9)


def _interval(text: str) -> Interval:
    units = {unit: int(count) for count, unit in _UNIT.findall(text)}
    time = _UNIT.sub("", text).strip()
    nanos = _nanos(time) if time else 0
    return Interval(units.get("year", 0) * 12 + units.get("mon", 0), units.get("day", 0), nanos)


def _bytes(text: str) -> bytes:
    assert text.startswith("\\x")
    return bytes.fromhex(text[2:])


def _unchanged(value: Any) -> Any:
    return value


_READERS: Final[dict[Kind, Callable[[Any], Any]]] = {
    Kind.BOOL: _unchanged,
    Kind.INT: _unchanged,
    Kind.STRING: _unchanged,
    Kind.COLLATED_STRING: _unchanged,
    Kind.ENUM: _unchanged,
    Kind.BIT: _unchanged,
    Kind.OID: int,
    Kind.BYTES: _bytes,
    Kind.UUID: uuid.UUID,
    Kind.INET: ipaddress.ip_interface,
    Kind.DATE: _days,
    Kind.TIME: lambda text: _nanos(text) // 1000,
    Kind.TIMETZ: _timetz,
    Kind.TIMESTAMP: _timestamp,
    Kind.TIMESTAMPTZ: _timestamptz,
    Kind.INTERVAL: _interval,
    Kind.PG_LSN: _lsn,
    Kind.BOX2D: _box,
    Kind.TSVECTOR: _tsvector,
    Kind.VECTOR: _vector,
}
