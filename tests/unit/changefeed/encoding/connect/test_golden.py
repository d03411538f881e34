"""A row of every type in each of the four forms, byte for byte, and the schemas of the Avro ones.

The golden file has one line a record: form, what happened, key and value, separated by tabs; Avro bodies are
hexadecimal, and before them stand their schemas. A change of it is a change of the output format.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from decimal import Decimal
from ipaddress import ip_interface
from pathlib import Path
from typing import Final

import fastavro

from tests.unit.changefeed.encoding.connect.forms import AT, FORMS
from tests.unit.changefeed.tables import row, table
from tests.unit.rows.searches import QUERY, VECTOR_OF_WORDS
from tests.unit.rows.shapes import GEOGRAPHY_POINT
from tidegate.changefeed.encoding.encoder import compile_encoder
from tidegate.hlc import Timestamp
from tidegate.rows.ewkb import Shape, ShapeType, write_ewkb
from tidegate.rows.sql_type import parse_sql_type
from tidegate.rows.types import Box2D, Datum, Interval, Json, Kind, TimeTz

GOLDEN: Final = Path(__file__).parent / "golden" / "every_type.tsv"
SCAN: Final = Timestamp(1_743_530_147_000_000_000, 1)
HOUR_NANOS: Final = 3_600_000_000_000
KEY: Final = ("id", "uuid")
POLYGON: Final = write_ewkb(
    Shape(ShapeType.POLYGON, (((0.0, 0.0), (1e-7, 0.0), (0.1, 123_456_789.25), (0.0, 0.0)),), srid=26918)
)
EVERY_TYPE: Final[dict[str, tuple[str, Datum]]] = {
    "id": ("INT8", -(2**63)),
    "array": ("STRING[]", ("a", None, 'q"')),
    "array_of_bytes": ("BYTES[]", (b"\x00\xff", None)),
    "bit": ("BIT(3)", "010"),
    "bool": ("BOOL", True),
    "bytes": ("BYTES", b"foo\x00"),
    "collated": ("STRING COLLATE fr", "Bonjour"),
    "date": ("DATE", 17_898),
    "decimal": ("DECIMAL(10,2)", Decimal("-26.30")),
    "decimal_bare": ("DECIMAL", Decimal("1E+3")),
    "Enum": ("status('open','closed')", "open"),
    "float4": ("FLOAT4", 0.5),
    "float8": ("FLOAT8", 100.0),
    "inet": ("INET", ip_interface("190.0.0.0/24")),
    "int2": ("INT2", -3),
    "int4": ("INT4", 70_000),
    "interval": ("INTERVAL", Interval(14, 3, 4 * HOUR_NANOS + 5_500_000_000)),
    "jsonb": ("JSONB", Json({"b": [Decimal("1E+2"), None], "B": "<\u2028>"})),
    "null": ("STRING", None),
    "oid": ("OID", 26),
    "string": ("STRING", 't\tn\nb\bq"\\ 100% é🍦'),
    "time": ("TIME", 11_045_600_001),
    "timestamp": ("TIMESTAMP", 1_743_530_146_812_942_000),
    "timestamptz": ("TIMESTAMPTZ", 1_746_825_629_000_000_000),
    "timetz": ("TIMETZ", TimeTz(11_045_600_000, -7200)),
    "box2d": ("BOX2D", Box2D(1.0, 3.0, 2.0, 4.5)),
    "geography": ("GEOGRAPHY", bytes.fromhex(GEOGRAPHY_POINT)),
    "geometry": ("GEOMETRY", POLYGON),
    "lsn": ("PG_LSN", 0x16_B374_D848),
    "tsquery": ("TSQUERY", QUERY),
    "tsvector": ("TSVECTOR", VECTOR_OF_WORDS),
    "vector": ("VECTOR", (1.0, -0.5, 1e6)),
    "shapes": ("GEOMETRY[]", (POLYGON, None)),
    "uuid": ("UUID", uuid.UUID("27f4f4c9-e35a-45dd-9b79-5ff0f9b5fbb0")),
    "varbit": ("VARBIT", "0010"),
}


def lines() -> Iterator[bytes]:
    types = {name: parse_sql_type(sql_type) for name, (sql_type, _) in EVERY_TYPE.items()}
    wide = table("wide", types, key=KEY)
    full = row(wide, **{name: datum for name, (_, datum) in EVERY_TYPE.items()})
    empty = row(wide, **{name: datum if name in KEY else None for name, (_, datum) in EVERY_TYPE.items()})
    versions = {
        "created": full._replace(previous=()),
        "updated": full._replace(previous=empty.values),
        "deleted": full._replace(values=None, previous=full.values),
        "deleted nothing": full._replace(values=None, previous=()),
        "scanned": full._replace(previous=None, scanned_at=SCAN),
    }
    for form, options in FORMS.items():
        encoder = compile_encoder(wide, options)
        if encoder.schemas is not None:
            for schema in encoder.schemas:
                yield f"{form}\t{schema.subject}\t{schema.text}".encode()
        for happened, version in versions.items():
            record = ["none" if part is None else part for part in encoder.encode(version, AT)]
            shown = [
                part.encode()
                if isinstance(part, str)
                else part
                if encoder.schemas is None
                else part.hex().encode()
                for part in record
            ]
            yield b"\t".join((form.encode(), happened.encode(), *shown))


def test_the_bytes_of_every_type_do_not_change() -> None:
    assert b"\n".join([*lines(), b""]) == GOLDEN.read_bytes()


def test_every_kind_of_type_has_an_example() -> None:
    assert {parse_sql_type(sql_type).kind for sql_type, _ in EVERY_TYPE.values()} == set(Kind)


def test_the_golden_file_is_json_and_avro_that_others_can_read() -> None:
    for line in GOLDEN.read_bytes().splitlines():
        form, second, *parts = line.decode().split("\t")
        if form.startswith("json"):
            assert all(set(json.loads(part)) == {"payload", "schema"} for part in parts if part != "none")
        elif second.endswith(("-key", "-value")):
            fastavro.parse_schema(json.loads(parts[0]))
        else:
            assert len(parts) == 2
