"""SQL column types, and the Python values that stand for their datums.

| SQL | Python value of a datum |
|---|---|
| BOOL | ``bool`` |
| INT | ``int`` (64 bits, signed) |
| FLOAT | ``float`` |
| DECIMAL | ``decimal.Decimal``, scale kept |
| STRING, COLLATED STRING, ENUM | ``str`` (an enum's label) |
| BYTES | ``bytes`` |
| UUID | ``uuid.UUID`` |
| INET | ``ipaddress.IPv4Interface`` or ``IPv6Interface`` |
| DATE | ``int``: days since 1970-01-01 |
| TIME | ``int``: microseconds of the day, 24:00 included |
| TIMETZ | ``TimeTz`` |
| TIMESTAMP, TIMESTAMPTZ | ``int``: nanoseconds since 1970-01-01 00:00 UTC |
| INTERVAL | ``Interval`` |
| BIT | ``str`` of ``0`` and ``1`` |
| JSONB | ``Json``, so that JSON ``null`` and SQL NULL stay apart |
| ARRAY | ``tuple`` of datums |
| NULL of any type | ``None`` |
"""

from __future__ import annotations

import enum
import ipaddress
import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple, TypeAlias, Union


class Kind(enum.Enum):
    """The family of a SQL type; the value is its SQL name."""

    BOOL = "BOOL"
    INT = "INT"
    FLOAT = "FLOAT"
    DECIMAL = "DECIMAL"
    STRING = "STRING"
    COLLATED_STRING = "COLLATED STRING"
    ENUM = "ENUM"
    BYTES = "BYTES"
    UUID = "UUID"
    INET = "INET"
    DATE = "DATE"
    TIME = "TIME"
    TIMETZ = "TIMETZ"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMPTZ = "TIMESTAMPTZ"
    INTERVAL = "INTERVAL"
    BIT = "BIT"
    JSONB = "JSONB"
    ARRAY = "ARRAY"
    OID = "OID"


class TimeTz(NamedTuple):
    """A TIMETZ: microseconds of the local day, and the zone's offset in seconds, positive *west* of UTC."""

    micros: int
    offset_seconds: int


class Interval(NamedTuple):
    """An INTERVAL: three parts that do not carry over into each other."""

    months: int
    days: int
    nanos: int


JsonValue: TypeAlias = Union[bool, Decimal, str, "list[JsonValue]", "dict[str, JsonValue]", None]


@dataclass(frozen=True, slots=True)
class Json:
    """A JSONB datum; numbers are ``Decimal``."""

    value: JsonValue


Datum: TypeAlias = (
    bool
    | int
    | float
    | Decimal
    | str
    | bytes
    | uuid.UUID
    | ipaddress.IPv4Interface
    | ipaddress.IPv6Interface
    | TimeTz
    | Interval
    | Json
    | tuple["Datum", ...]
    | None
)


@dataclass(frozen=True, slots=True)
class EnumMember:
    """One label of an ENUM and the bytes that stand for it in keys and values."""

    physical: bytes
    label: str


@dataclass(frozen=True, slots=True)
class SqlType:
    """A column's type.

    ``width`` is the declared width of INT (16, 32, 64), FLOAT (32, 64), STRING and BIT, or the precision of
    DECIMAL and of times; 0 where none was declared. ``scale`` is a DECIMAL's. ``varying`` marks VARBIT.
    ``locale`` is a collation's, ``members`` an enum's, ``element`` an array's. ``name`` is an enum's, or
    the declared spelling of a STRING (VARCHAR, CHAR, NAME).
    """

    kind: Kind
    width: int = 0
    scale: int = 0
    varying: bool = False
    locale: str = ""
    name: str = ""
    members: tuple[EnumMember, ...] = ()
    element: SqlType | None = None
