"""Datums as cases spell them: JSON values that mean something by their SQL type."""

from __future__ import annotations

import ipaddress
import re
import struct
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

from tests.conformance.case import Case, MinusZero
from tests.conformance.interval_literals import interval_of as interval_text_of
from tests.conformance.search_literals import tsquery_of, tsvector_of
from tests.conformance.shape_literals import box_of, geography_of, geometry_of
from tidegate.hlc import NANOS_PER_SECOND
from tidegate.rows import Datum, Interval, Json, JsonValue, Kind, SqlType, TimeTz, parse_sql_type
from tidegate.rows.valueside.tags import WireType

_TYPE_ALIASES: Final = {"DURATION": "INTERVAL", "IPADDR": "INET", "BITARRAY": "VARBIT", "NULL": "INT"}
_ELEMENT_TYPES: Final[dict[int, SqlType]] = {
    WireType.INT: SqlType(Kind.INT),
    WireType.FLOAT: SqlType(Kind.FLOAT),
    WireType.DECIMAL: SqlType(Kind.DECIMAL),
    WireType.BYTES: SqlType(Kind.STRING),
    WireType.TIME: SqlType(Kind.TIMESTAMP),
    WireType.DURATION: SqlType(Kind.INTERVAL),
    WireType.TRUE: SqlType(Kind.BOOL),
    WireType.FALSE: SqlType(Kind.BOOL),
    WireType.UUID: SqlType(Kind.UUID),
    WireType.IP_ADDRESS: SqlType(Kind.INET),
    WireType.JSON: SqlType(Kind.JSONB),
    WireType.BIT_ARRAY: SqlType(Kind.BIT),
    WireType.TIME_TZ: SqlType(Kind.TIMETZ),
}
_INSTANT: Final = re.compile(r"(\d+-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:Z|\+00:00)?")
_CLOCK: Final = re.compile(r"(\d+):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?")


def type_of(text: str) -> SqlType:
    """The type that a case names, by its SQL name or that of its encoding."""
    return parse_sql_type(_TYPE_ALIASES.get(text.upper(), text))


def type_in(case: Case) -> SqlType:
    """The type that a case names, or else the array type of its element tag."""
    if "sql_type" in case:
        return type_of(case["sql_type"])
    return SqlType(Kind.ARRAY, element=_ELEMENT_TYPES[case.get("element_tag", WireType.INT)])


def decimal_in(case: Case) -> Decimal:
    """A case's decimal."""
    return Decimal(str(case["value"]))


def datum_of(sql_type: SqlType, value: Any) -> Datum:
    """The datum that ``value`` spells for that type; ``None`` is NULL."""
    if value is None and sql_type.kind is not Kind.JSONB:
        return None
    if sql_type.kind is Kind.ARRAY:
        assert sql_type.element is not None
        return tuple(datum_of(sql_type.element, element) for element in value)
    return _READERS[sql_type.kind](value)


def bytes_of(case: Case) -> bytes:
    """A case's byte string, which is hex unless it cannot be."""
    return _bytes(case["value"])


def json_of(value: Any) -> JsonValue:
    """A JSON document with every number a ``Decimal``."""
    if isinstance(value, list):
        return [json_of(element) for element in value]
    if isinstance(value, dict):
        return {name: json_of(member) for name, member in value.items()}
    if isinstance(value, MinusZero):
        return Decimal("-0")
    if isinstance(value, int) and not isinstance(value, bool):
        return Decimal(value)
    assert value is None or isinstance(value, bool | Decimal | str)
    return value


def nanos_of(value: Any) -> int:
    """Nanoseconds since 1970: a number of them, an object of seconds and nanoseconds, or ISO text."""
    if isinstance(value, dict):
        return int(value["unix_seconds"]) * NANOS_PER_SECOND + int(value["nanos"])
    if isinstance(value, int):
        return value
    match = _INSTANT.fullmatch(value)
    assert match is not None, value
    moment = datetime.fromisoformat(f"{match[1]}T{match[2]}").replace(tzinfo=UTC)
    return int(moment.timestamp()) * NANOS_PER_SECOND + int((match[3] or "").ljust(9, "0"))


def interval_of(value: Any) -> Interval:
    """An interval out of its three parts, or of SQL's text."""
    if isinstance(value, str):
        return interval_text_of(value)
    return Interval(int(value.get("months", 0)), int(value.get("days", 0)), int(value.get("nanos", 0)))


def timetz_of(value: Any) -> TimeTz:
    """A time with zone: micros and an offset west of UTC by name, or text such as ``10:11:12-05:00``."""
    if isinstance(value, str):
        clock, sign, zone = re.split(r"([+-])", value, maxsplit=1)
        offset = _micros(zone) // 1_000_000
        return TimeTz(_micros(clock), offset if sign == "-" else -offset)
    micros = next(number for name, number in value.items() if "micros" in name)
    offset = next(number for name, number in value.items() if "offset" in name)
    return TimeTz(int(micros), int(offset))


def _bytes(value: str) -> bytes:
    try:
        return bytes.fromhex(value.removeprefix("0x").removeprefix("\\x"))
    except ValueError:
        return value.encode()


def _bits(value: str) -> str:
    """The digits of ``B'0110'``, of ``B0110`` as keys are printed, or of ``0110``."""
    return value.removeprefix("B").strip("'")


def _days(value: Any) -> int:
    if isinstance(value, str) and value.count("-") >= 2:
        return (date.fromisoformat(value) - date(1970, 1, 1)).days
    return int(value)


def _micros(value: Any) -> int:
    match = _CLOCK.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return int(value["micros"] if isinstance(value, dict) else value)
    hours, minutes, seconds = int(match[1]), int(match[2]), int(match[3] or 0)
    fraction = int((match[4] or "").ljust(6, "0"))
    return (hours * 3600 + minutes * 60 + seconds) * 1_000_000 + fraction


def _lsn(value: str | int) -> int:
    if isinstance(value, int):
        return value
    high, low = value.split("/")
    return int(high, 16) << 32 | int(low, 16)


def _vector(value: str) -> tuple[float, ...]:
    numbers = [float(number) for number in value.strip()[1:-1].split(",")]
    return struct.unpack(f"<{len(numbers)}f", struct.pack(f"<{len(numbers)}f", *numbers))


_READERS: Final[dict[Kind, Callable[[Any], Datum]]] = {
    Kind.BOOL: bool,
    Kind.INT: int,
    Kind.OID: int,
    Kind.FLOAT: float,
    Kind.DECIMAL: lambda value: Decimal(str(value)),
    Kind.STRING: str,
    Kind.COLLATED_STRING: str,
    Kind.ENUM: str,
    Kind.BYTES: _bytes,
    Kind.UUID: uuid.UUID,
    Kind.INET: ipaddress.ip_interface,
    Kind.DATE: _days,
    Kind.TIME: _micros,
    Kind.TIMETZ: timetz_of,
    Kind.TIMESTAMP: nanos_of,
    Kind.TIMESTAMPTZ: nanos_of,
    Kind.INTERVAL: interval_of,
    Kind.BIT: _bits,
    Kind.JSONB: lambda value: Json(json_of(value)),
    Kind.PG_LSN: _lsn,
    Kind.BOX2D: box_of,
    Kind.GEOMETRY: geometry_of,
    Kind.GEOGRAPHY: geography_of,
    Kind.TSVECTOR: tsvector_of,
    Kind.TSQUERY: tsquery_of,
    Kind.VECTOR: _vector,
}
