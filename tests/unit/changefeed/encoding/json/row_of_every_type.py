"""A row with a column of every type."""

from __future__ import annotations

import math
import uuid
from decimal import Decimal
from ipaddress import IPv4Interface, IPv6Interface

from tests.unit.rows.searches import QUERY, VECTOR_OF_WORDS
from tests.unit.rows.shapes import GEOGRAPHY_POINT
from tidegate.rows.ewkb import Shape, ShapeType, write_ewkb
from tidegate.rows.types import Box2D, Datum, Interval, Json, Kind, SqlType, TimeTz

HOUR_NANOS = 3_600_000_000_000
POLYGON = write_ewkb(
    Shape(ShapeType.POLYGON, (((0.0, 0.0), (1e-7, 0.0), (0.1, 123_456_789.25), (0.0, 0.0)),), srid=26918)
)

EVERY_TYPE: dict[str, tuple[SqlType, Datum]] = {
    "array": (SqlType(Kind.ARRAY, element=SqlType(Kind.STRING)), ("a", None, 'q"')),
    "bit": (SqlType(Kind.BIT, varying=True), "010"),
    "bool": (SqlType(Kind.BOOL), True),
    "bytes": (SqlType(Kind.BYTES), b"foo\x00"),
    "collated": (SqlType(Kind.COLLATED_STRING, locale="fr"), "Bonjour"),
    "date": (SqlType(Kind.DATE), 17_898),
    "decimal": (SqlType(Kind.DECIMAL, width=10, scale=2), Decimal("26.30")),
    "Enum": (SqlType(Kind.ENUM, name="status"), "open"),
    "float": (SqlType(Kind.FLOAT), 100.0),
    "float_nan": (SqlType(Kind.FLOAT), math.nan),
    "inet4": (SqlType(Kind.INET), IPv4Interface("190.0.0.0/24")),
    "inet6": (SqlType(Kind.INET), IPv6Interface("::ffff:192.168.0.1/24")),
    "int": (SqlType(Kind.INT), -(2**63)),
    "interval": (SqlType(Kind.INTERVAL), Interval(14, 3, 4 * HOUR_NANOS + 5_500_000_000)),
    "jsonb": (SqlType(Kind.JSONB), Json({"b": [Decimal("1E+2"), None], "B": "<\u2028>", "_": {}})),
    "null": (SqlType(Kind.STRING), None),
    "oid": (SqlType(Kind.OID), 26),
    "string": (SqlType(Kind.STRING), 't\tn\nb\bq"\\ 100% é🍦'),
    "time": (SqlType(Kind.TIME), 86_400_000_000),
    "timestamp": (SqlType(Kind.TIMESTAMP), 1_743_530_146_812_942_000),
    "timestamptz": (SqlType(Kind.TIMESTAMPTZ), 1_746_825_629_000_000_000),
    "timetz": (SqlType(Kind.TIMETZ), TimeTz(11_045_600_000, -7200)),
    "box2d": (SqlType(Kind.BOX2D), Box2D(1.0, 3.0, 2.0, 4.5)),
    "geography": (SqlType(Kind.GEOGRAPHY), bytes.fromhex(GEOGRAPHY_POINT)),
    "geometry": (SqlType(Kind.GEOMETRY), POLYGON),
    "lsn": (SqlType(Kind.PG_LSN), 0x16_B374_D848),
    "tsquery": (SqlType(Kind.TSQUERY), QUERY),
    "tsvector": (SqlType(Kind.TSVECTOR), VECTOR_OF_WORDS),
    "vector": (SqlType(Kind.VECTOR), (1.0, -0.5, 1e6)),
    "uuid": (SqlType(Kind.UUID), uuid.UUID("27f4f4c9-e35a-45dd-9b79-5ff0f9b5fbb0")),
}
KEY = ("string", "float", "timestamp")
