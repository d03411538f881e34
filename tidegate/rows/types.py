"""SQL column types, and the Python types of their datums.

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
| JSONB | ``Json``, so that JSON ``null`` and SQL NULL are distinct |
| ARRAY | ``tuple`` of datums |
| OID | ``int`` |
| PG_LSN | ``int`` (64 bits, unsigned) |
| BOX2D | ``Box2D`` |
| GEOMETRY, GEOGRAPHY | ``bytes``: the shape in EWKB (`tidegate.rows.ewkb` reads and writes it) |
| TSVECTOR | ``TsVector`` |
| TSQUERY | ``TsQuery`` |
| VECTOR | ``tuple`` of 32-bit ``float`` |
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
    PG_LSN = "PG_LSN"
    BOX2D = "BOX2D"
    GEOMETRY = "GEOMETRY"
    GEOGRAPHY = "GEOGRAPHY"
    TSVECTOR = "TSVECTOR"
    TSQUERY = "TSQUERY"
    VECTOR = "VECTOR"


class TimeTz(NamedTuple):
    """A TIMETZ: microseconds of the local day, and the zone's offset in seconds, positive *west* of UTC."""

    micros: int
    offset_seconds: int


class Interval(NamedTuple):
    """An INTERVAL. It has three parts; for example, 30 days never become a month."""

    months: int
    days: int
    nanos: int


class Box2D(NamedTuple):
    """A BOX2D: the least and greatest coordinates of a box."""

    lo_x: float
    hi_x: float
    lo_y: float
    hi_y: float


class TsPosition(NamedTuple):
    """The position of a lexeme in a document (1 to 16383), and its weight: 0 to 3 for D, C, B, A."""

    position: int
    weight: int = 0


class TsTerm(NamedTuple):
    """A lexeme of a document, and its positions there."""

    lexeme: str
    positions: tuple[TsPosition, ...] = ()


@dataclass(frozen=True, slots=True)
class TsVector:
    """A TSVECTOR: the lexemes of a document in the order of their bytes."""

    terms: tuple[TsTerm, ...]


class TsOperator(enum.IntEnum):
    """An operator between the operands of a TSQUERY. The number is the one in stored values."""

    NOT = 1
    AND = 2
    OR = 3
    FOLLOWED_BY = 4


class TsOperand(NamedTuple):
    """A lexeme to search for.

    ``weights`` is a sum: 1 for D, 2 for C, 4 for B, 8 for A, and 16 if the lexeme is a prefix. If none of the
    four letters is in the sum, every weight fits.
    """

    lexeme: str
    weights: int = 0


class TsOperation(NamedTuple):
    """An operator, whose operands follow it. ``distance`` counts lexemes between operands (FOLLOWED_BY)."""

    operator: TsOperator
    distance: int = 0


@dataclass(frozen=True, slots=True)
class TsQuery:
    """A TSQUERY in prefix notation: an operator, then its operands, the left one first.

    It is a flat sequence, as in its stored form, so that a query of any depth can be read and printed.
    """

    tokens: tuple[TsOperand | TsOperation, ...]


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
    | Box2D
    | TsVector
    | TsQuery
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

    ``width`` is the declared width of INT (16, 32, 64), FLOAT (32, 64), STRING and BIT, the precision of
    DECIMAL and of times, the dimensions of VECTOR, or the SRID of GEOMETRY and GEOGRAPHY. It is 0 if none was
    declared. ``scale`` is that of a DECIMAL. ``varying`` marks VARBIT. ``locale`` is that of a collation,
    ``members`` are those of an enum, ``element`` is that of an array. ``name`` is the name of an enum, the
    declared spelling of a STRING (VARCHAR, CHAR, NAME, REFCURSOR), or the declared shape of GEOMETRY and
    GEOGRAPHY (POINT, POLYGONZ).
    """

    kind: Kind
    width: int = 0
    scale: int = 0
    varying: bool = False
    locale: str = ""
    name: str = ""
    members: tuple[EnumMember, ...] = ()
    element: SqlType | None = None

    @property
    def is_collated(self) -> bool:
        """Whether the type is a collated string, or an array of collated strings. Keys hold only the sort
        keys of such strings.
        """
        return self.kind is Kind.COLLATED_STRING or (self.element is not None and self.element.is_collated)
