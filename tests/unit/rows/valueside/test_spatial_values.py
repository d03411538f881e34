"""Values of the types beyond the plain ones: their bytes, and what is refused.

The bytes follow from CockroachDB's pkg/util/encoding, pkg/geo/geopb, pkg/util/tsearch and pkg/util/vector.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.rows.searches import QUERY, VECTOR_OF_WORDS
from tests.unit.rows.shapes import GEOGRAPHY_POINT, GEOMETRY_POINT
from tidegate.errors import EncodingError
from tidegate.rows import (
    Box2D,
    SqlType,
    TsOperand,
    TsOperation,
    TsOperator,
    TsPosition,
    TsQuery,
    TsTerm,
    TsVector,
    parse_sql_type,
)
from tidegate.rows.keyside.datums import key_codec
from tidegate.rows.value_frame import ValueTag
from tidegate.rows.valueside.bare import bare_codec
from tidegate.rows.valueside.datums import value_codec
from tidegate.rows.valueside.tags import WireType

GEOMETRY_OBJECT = "0802" + "1215" + GEOMETRY_POINT + "2001"
GEOGRAPHY_OBJECT = "0801" + "1219" + GEOGRAPHY_POINT + "18e621" + "2001"
ONE, TWO = "053ff0000000000000", "054000000000000000"
MINUS_HALF, MINUS_ONE, MINUS_TWO = "03401fffffffffffff", "03400fffffffffffff", "033fffffffffffffff"

#: Type, datum, wire type and bytes in tuples.
VALUES: list[tuple[str, Any, WireType, str]] = [
    ("GEOMETRY", bytes.fromhex(GEOMETRY_POINT), WireType.GEO, "1b" + GEOMETRY_OBJECT),
    ("GEOGRAPHY", bytes.fromhex(GEOGRAPHY_POINT), WireType.GEO, "22" + GEOGRAPHY_OBJECT),
    ("BOX2D", Box2D(0.0, 1.0, -0.5, 2.0), WireType.BOX2D, "04" + ONE + MINUS_HALF + TWO),
    ("PG_LSN", 0xA_0000_0000, WireType.INT, "80808080c002"),
    ("PG_LSN", 2**64 - 1, WireType.INT, "01"),
    ("PG_LSN", 2**63, WireType.INT, "ffffffffffffffffff01"),
    (
        "TSVECTOR",
        VECTOR_OF_WORDS,
        WireType.TS_VECTOR,
        "1a"
        + "00000003"
        + "03666174"
        + "0001"
        + "0002"
        + "03726174"
        + "0002"
        + "c003"
        + "0007"
        + "0178"
        + "0000",
    ),
    (
        "TSQUERY",
        QUERY,
        WireType.TS_QUERY,
        "1d"
        + "00000006"
        + "0202"
        + "010801"
        + "03666174"
        + "0201"
        + "02040002"
        + "0100000161"
        + "0101000162",
    ),
    (
        "VECTOR(3)",
        (1.0, -0.5, 0.0),
        WireType.PG_VECTOR,
        "10000000033f800000bf00000000000000",
    ),
]


@pytest.mark.parametrize(("sql", "datum", "wire_type", "data"), VALUES)
def test_a_datum_has_these_bytes_in_a_tuple(sql: str, datum: Any, wire_type: WireType, data: str) -> None:
    codec = value_codec(parse_sql_type(sql))
    written = codec.encode(datum)
    assert (written[0], written[1].hex()) == (wire_type, data)
    assert codec.decoders[wire_type](bytes.fromhex(data), 0) == (datum, len(data) // 2)


@pytest.mark.parametrize(
    ("sql", "datum", "tag", "data"),
    [
        ("GEOMETRY", bytes.fromhex(GEOMETRY_POINT), ValueTag.GEO, GEOMETRY_OBJECT),
        ("PG_LSN", 1, ValueTag.INT, "02"),
        ("BOX2D", Box2D(0.0, 1.0, 0.0, 2.0), ValueTag.BOX2D, f"{0:016x}{ONE[2:]}{0:016x}{TWO[2:]}"),
        ("VECTOR", (1.0,), ValueTag.BYTES, "000000013f800000"),
    ],
)
def test_a_bare_datum_has_these_bytes(sql: str, datum: Any, tag: ValueTag, data: str) -> None:
    codec = bare_codec(parse_sql_type(sql))
    assert (codec.tag, codec.encode(datum).hex()) == (tag, data)
    assert codec.decode(bytes.fromhex(data)) == datum


def test_a_bounding_box_in_a_spatial_object_is_passed_over() -> None:
    box = "2a24" + "".join(f"{field}000000000000f03f" for field in ("09", "11", "19", "21"))
    codec = bare_codec(parse_sql_type("GEOMETRY"))
    assert codec.decode(bytes.fromhex(GEOMETRY_OBJECT + box)).hex() == GEOMETRY_POINT


@pytest.mark.parametrize(
    ("sql", "datum", "descending", "data"),
    [
        ("PG_LSN", 109, False, "f5"),
        ("PG_LSN", 0xA_0000_0000, False, "fa0a00000000"),
        ("PG_LSN", 2**64 - 1, False, "fdffffffffffffffff"),
        ("PG_LSN", 1, True, "87fe"),
        ("BOX2D", Box2D(0.0, 1.0, 0.0, 2.0), False, "4104" + ONE + "04" + TWO),
        (
            "BOX2D",
            Box2D(0.0, 1.0, 0.0, 2.0),
            True,
            f"4104{MINUS_ONE}04{MINUS_TWO}",
        ),
    ],
)
def test_a_datum_has_these_bytes_in_a_key(sql: str, datum: Any, descending: bool, data: str) -> None:
    codec = key_codec(parse_sql_type(sql), descending)
    assert codec.encode(datum).hex() == data
    assert codec.decode(bytes.fromhex(data), 0) == (datum, len(data) // 2)


@pytest.mark.parametrize(
    ("sql", "data"),
    [
        ("GEOMETRY", ""),  # no shape
        ("GEOMETRY", "0802"),
        ("GEOMETRY", "12ff"),
        ("BOX2D", "00" * 31),
        ("TSVECTOR", "ffffffff"),
        ("TSVECTOR", "00000001" + "01ff" + "0000"),  # not UTF-8
        ("TSVECTOR", "0000000000"),
        ("TSQUERY", "00000000"),
        ("TSQUERY", "ffffffff"),
        ("TSQUERY", "000000010200"),  # no such operator
        ("TSQUERY", "000000010300"),  # no such token
        ("TSQUERY", "000000010201"),  # a NOT of nothing
        ("TSQUERY", "00000001" + "01100000"),  # a weight that there is not
        ("TSQUERY", "00000002" + "01000000" + "01000000"),  # two queries
        ("TSQUERY", "00000001" + "01000000" + "00"),
        ("VECTOR", "00000002" + "00000000"),
        ("VECTOR", "00000000" + "00"),
    ],
)
def test_a_malformed_value_is_refused(sql: str, data: str) -> None:
    with pytest.raises(EncodingError):
        bare_codec(parse_sql_type(sql)).decode(bytes.fromhex(data))


@pytest.mark.parametrize(
    ("sql", "datum"),
    [
        ("GEOMETRY", b"no shape"),
        ("PG_LSN", -1),
        ("PG_LSN", 2**64),
        ("VECTOR", (1e39,)),
        ("TSVECTOR", TsVector((TsTerm("x", (TsPosition(16_384),)),))),
        ("TSVECTOR", TsVector((TsTerm("x", (TsPosition(1, 4),)),))),
        ("TSQUERY", TsQuery(())),
        ("TSQUERY", TsQuery((TsOperation(TsOperator.AND), TsOperand("a")))),
    ],
)
def test_a_datum_beyond_the_encoding_is_refused(sql: str, datum: Any) -> None:
    sql_type: SqlType = parse_sql_type(sql)
    for encode in (value_codec(sql_type).encode, bare_codec(sql_type).encode):
        with pytest.raises(EncodingError):
            encode(datum)
