"""Rows of about n bytes, of every type: arrays of the smallest elements, and values of one large datum.

An array of the smallest elements has the most of them in a byte, so it takes the most time.
"""

from __future__ import annotations

import ipaddress
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, NamedTuple

from tests.unit.rows.strategies import SEASONS
from tidegate.changefeed.definition.options import Envelope, FeedOptions, Format, InitialScan
from tidegate.changefeed.encoding.encoder import compile_encoder
from tidegate.errors import UnsupportedTable
from tidegate.hlc import Timestamp
from tidegate.rows import (
    Box2D,
    Column,
    Family,
    Interval,
    Json,
    KeyPart,
    Kind,
    Row,
    SqlType,
    TableCodec,
    TableDescriptor,
    TimeTz,
    TsOperand,
    TsOperation,
    TsOperator,
    TsQuery,
    TsTerm,
    TsVector,
)
from tidegate.rows.keyside.datums import has_key_form

_ID: Final = Column(1, "id", SqlType(Kind.INT, 64), nullable=False)
_REGISTRY: Final = "http://registry"
_EMPTY_POINTS: Final = bytes.fromhex("010400000000000000")  # nine bytes: the least of a shape
_AT: Final = Timestamp(5, 1)

#: The feeds that rows are written for: one of each encoder.
ENCODERS: Final = {
    "json": FeedOptions(),
    "json connect debezium": FeedOptions(envelope=Envelope.DEBEZIUM, connect_schema=True),
    "avro": FeedOptions(format=Format.AVRO, confluent_schema_registry=_REGISTRY),
    "json enriched": FeedOptions(envelope=Envelope.ENRICHED, enriched_properties="schema,source"),
    "avro connect": FeedOptions(
        format=Format.AVRO, envelope=Envelope.UPSERT, confluent_schema_registry=_REGISTRY
    ),
    "csv": FeedOptions(format=Format.CSV, initial_scan=InitialScan.ONLY),
}

#: Of each type a datum of few bytes, and how many.
SMALL: Final[dict[Kind, tuple[Any, int]]] = {
    Kind.BOOL: (True, 1),
    Kind.INT: (0, 1),
    Kind.FLOAT: (1.5e300, 8),
    Kind.DECIMAL: (Decimal(0), 2),
    Kind.STRING: ("", 1),
    Kind.COLLATED_STRING: ("", 1),
    Kind.BYTES: (b"", 1),
    Kind.UUID: (uuid.UUID(int=5), 16),
    Kind.INET: (ipaddress.ip_interface("1.2.3.4/8"), 6),
    Kind.DATE: (0, 1),
    Kind.TIME: (0, 1),
    Kind.TIMETZ: (TimeTz(0, 0), 2),
    Kind.TIMESTAMP: (0, 2),
    Kind.TIMESTAMPTZ: (0, 2),
    Kind.INTERVAL: (Interval(1, 1, 1000), 4),
    Kind.BIT: ("", 1),
    Kind.JSONB: (Json(None), 9),
    Kind.OID: (0, 1),
    Kind.PG_LSN: (0, 1),
    Kind.BOX2D: (Box2D(0.0, 0.0, 0.0, 0.0), 4),
    Kind.GEOMETRY: (_EMPTY_POINTS, 18),
    Kind.GEOGRAPHY: (_EMPTY_POINTS, 18),
    Kind.TSVECTOR: (TsVector(()), 5),
    Kind.TSQUERY: (TsQuery((TsOperand(""),)), 9),
    Kind.VECTOR: ((), 5),
}


class GrowingRow(NamedTuple):
    """A column's type, and its datum of about n bytes."""

    name: str
    type: SqlType
    datum: Callable[[int], Any]
    in_key: bool = False


def growing_rows() -> Iterator[GrowingRow]:
    """Every type alone and in arrays, in values and in keys."""
    for kind, (datum, size) in SMALL.items():
        element = SqlType(kind, locale="de" if kind is Kind.COLLATED_STRING else "")
        array = SqlType(Kind.ARRAY, element=element)
        yield GrowingRow(f"{kind.value}[]", array, _repeated(datum, size))
        if has_key_form(element) and kind is not Kind.COLLATED_STRING:
            yield GrowingRow(f"{kind.value}[] in the key", array, _repeated(datum, size + 1), in_key=True)
    seasons = SqlType(Kind.ARRAY, element=SEASONS)
    yield GrowingRow("ENUM[]", seasons, _repeated("summer", 2))
    nulls = SqlType(Kind.ARRAY, element=SqlType(Kind.INT, 64))
    yield GrowingRow("NULLs", nulls, lambda n: (None,) * (8 * n))
    yield GrowingRow("NULLs between", nulls, lambda n: (None, 0) * (8 * n // 9))
    yield from _LARGE


def _repeated(datum: Any, size: int) -> Callable[[int], Any]:
    return lambda n: (datum,) * (n // size)


def _nested(n: int) -> Json:
    """Arrays of 64 levels, side by side."""
    value: Any = Decimal(1)
    for _ in range(64):
        value = [value]
    return Json([value] * (n // 1_000))


def _ands(n: int) -> TsQuery:
    count = n // 7
    return TsQuery((TsOperation(TsOperator.AND),) * count + (TsOperand("a"),) * (count + 1))


def _brackets(n: int) -> TsQuery:
    count = n // 16
    pair = (TsOperation(TsOperator.AND), TsOperation(TsOperator.OR))
    return TsQuery(pair * count + (TsOperand("a"),) * (2 * count + 1))


def _points(n: int) -> bytes:
    import struct

    count = n // 16
    return struct.pack("<BII", 1, 2, count) + struct.pack("<dd", 1e300, -1e-300) * count


_ZEROS: Final = Decimal("0E-1999")
_TEXT: Final = SqlType(Kind.STRING)
_LARGE: Final = (
    GrowingRow("STRING", _TEXT, lambda n: "x" * n),
    GrowingRow("STRING of quotes", _TEXT, lambda n: '"' * n),
    GrowingRow("STRING of control characters", _TEXT, lambda n: "\x01\x08" * (n // 2)),
    GrowingRow("STRING of commas", _TEXT, lambda n: ",\n" * (n // 2)),
    GrowingRow("STRING[] of other letters", SqlType(Kind.ARRAY, element=_TEXT), lambda n: ("é" * (n // 2),)),
    GrowingRow("STRING in the key", _TEXT, lambda n: "x" * n, in_key=True),
    GrowingRow("STRING of zeros in the key", _TEXT, lambda n: "\0" * (n // 2), in_key=True),
    GrowingRow("BYTES", SqlType(Kind.BYTES), lambda n: b"\xff" * n),
    GrowingRow("BIT", SqlType(Kind.BIT), lambda n: "1" * (8 * n)),
    GrowingRow("BIT in the key", SqlType(Kind.BIT), lambda n: "0" * (64 * (n // 4)), in_key=True),
    GrowingRow("DECIMAL in the key", SqlType(Kind.DECIMAL), lambda n: Decimal("9" * (2 * n)), in_key=True),
    GrowingRow(
        "DECIMAL[] of zeros",
        SqlType(Kind.ARRAY, element=SqlType(Kind.DECIMAL)),
        lambda n: (_ZEROS,) * (n // 20),
    ),
    GrowingRow(
        "DECIMAL(4000)[]",
        SqlType(Kind.ARRAY, element=SqlType(Kind.DECIMAL, 4_000)),
        lambda n: (Decimal("1E+3999"),) * (n // 5),
    ),
    GrowingRow(
        "DECIMAL(60)[]",
        SqlType(Kind.ARRAY, element=SqlType(Kind.DECIMAL, 60)),
        lambda n: (Decimal("1E+59"),) * (n // 4),
    ),
    GrowingRow(
        "DECIMAL[] of long ones",
        SqlType(Kind.ARRAY, element=SqlType(Kind.DECIMAL)),
        lambda n: (Decimal("9" * 4_000),) * (n // 1_670),
    ),
    GrowingRow("JSONB of nulls", SqlType(Kind.JSONB), lambda n: Json([None] * (n // 4))),
    GrowingRow("JSONB of numbers", SqlType(Kind.JSONB), lambda n: Json([Decimal(1)] * (n // 7))),
    GrowingRow("JSONB of zeros", SqlType(Kind.JSONB), lambda n: Json([_ZEROS] * (n // 40))),
    GrowingRow(
        "JSONB of members", SqlType(Kind.JSONB), lambda n: Json({f"{i:x}": None for i in range(n // 13)})
    ),
    GrowingRow("JSONB of arrays", SqlType(Kind.JSONB), lambda n: Json([[]] * (n // 8))),
    GrowingRow("JSONB nested", SqlType(Kind.JSONB), _nested),
    GrowingRow("JSONB of one string", SqlType(Kind.JSONB), lambda n: Json("x" * n)),
    GrowingRow("TSVECTOR", SqlType(Kind.TSVECTOR), lambda n: TsVector((TsTerm("", ()),) * (n // 3))),
    GrowingRow("TSQUERY of ANDs", SqlType(Kind.TSQUERY), _ands),
    GrowingRow(
        "TSQUERY of NOTs",
        SqlType(Kind.TSQUERY),
        lambda n: TsQuery((TsOperation(TsOperator.NOT),) * (n // 2) + (TsOperand("a"),)),
    ),
    GrowingRow("TSQUERY of brackets", SqlType(Kind.TSQUERY), _brackets),
    GrowingRow("VECTOR", SqlType(Kind.VECTOR), lambda n: (0.1, -(2.0**-100)) * (n // 8)),
    GrowingRow("GEOMETRY of points", SqlType(Kind.GEOMETRY), _points),
    GrowingRow(
        "GEOMETRY of shapes",
        SqlType(Kind.GEOMETRY),
        lambda n: b"\x01\x07\x00\x00\x00" + (n // 9).to_bytes(4, "little") + _EMPTY_POINTS * (n // 9),
    ),
)


def table_of(row: GrowingRow) -> TableDescriptor:
    """A table with that column behind its id."""
    columns = (_ID, Column(2, "v", row.type, nullable=not row.in_key))
    key = (KeyPart(1), KeyPart(2, descending=True)) if row.in_key else (KeyPart(1),)
    return TableDescriptor(104, "t", 1, Timestamp(1), columns, key, (Family(0, "primary", (1, 2)),))


def encoded(row: GrowingRow, size: int) -> tuple[bytes, bytes]:
    """Key and value of the row of about that size."""
    return TableCodec(table_of(row)).encode({"id": 1, "v": row.datum(size)})


def decoder(row: GrowingRow, size: int) -> Callable[[], object]:
    """Return what reads the row, as the processor does."""
    codec, (key, value) = TableCodec(table_of(row)), encoded(row, size)
    return lambda: codec.decode(key, value)


def encoder(row: GrowingRow, options: FeedOptions, size: int) -> Callable[[], object] | None:
    """Return what writes the row for a feed; ``None`` where such a feed takes no such column."""
    table = table_of(row)
    try:
        encode = compile_encoder(table, options).encode
    except UnsupportedTable:
        return None
    with_previous = _read(row, size)
    return lambda: encode(with_previous, _AT)


@lru_cache(maxsize=4)  # one after the other, feeds of all formats write it
def _read(row: GrowingRow, size: int) -> Row:
    """The row as the processor has it, which was the same before."""
    read = TableCodec(table_of(row)).decode(*encoded(row, size))
    assert read is not None
    return read._replace(previous=read.values or ())
