"""Datums in values: for each SQL type, the functions that write it after its tag, and read it back.

Source: CockroachDB pkg/sql/rowenc/valueside, pkg/util/encoding/encoding.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from tidegate.errors import EncodingError
from tidegate.rows.enum_labels import label_of, physical_of
from tidegate.rows.inet import decode_inet, encode_inet
from tidegate.rows.take import Decode, Encode
from tidegate.rows.types import Kind, SqlType
from tidegate.rows.valueside import scalars, spatial
from tidegate.rows.valueside.arrays import decode_array, encode_array
from tidegate.rows.valueside.decimals import decode_decimal, encode_decimal
from tidegate.rows.valueside.tags import WireType
from tidegate.rows.valueside.text_search import encode_tsquery, encode_tsvector, tsquery_of, tsvector_of
from tidegate.rows.valueside.varints import decode_zigzag, encode_zigzag
from tidegate.rows.valueside.vectors import encode_vector, vector_of

Tagged: TypeAlias = tuple[WireType, bytes]
_Plain: TypeAlias = tuple[WireType, Encode, Decode]


class ValueCodec(NamedTuple):
    """The codec of one SQL type in values: a reader for each wire type that it may have, and one writer."""

    decoders: Mapping[WireType, Decode]
    encode: Callable[[Any], Tagged]


def value_codec(sql_type: SqlType) -> ValueCodec:
    """Return the codec for datums of ``sql_type``; the reader of NULL is included."""
    if sql_type.kind is Kind.BOOL:
        return _BOOL
    wire_type, encode, decode = _plain(sql_type)
    return ValueCodec(
        {wire_type: decode, WireType.NULL: _read_null},
        lambda datum: (wire_type, encode(datum)),
    )


def element_codec(sql_type: SqlType) -> _Plain:
    """Return the codec for array elements of ``sql_type``. They have no tags, and a boolean is one byte."""
    if sql_type.kind is Kind.BOOL:
        return WireType.TRUE, scalars.encode_bool_element, scalars.decode_bool_element
    return _plain(sql_type)


def _read_null(_buffer: bytes, position: int) -> tuple[None, int]:
    return None, position


def _read_true(_buffer: bytes, position: int) -> tuple[bool, int]:
    return True, position


def _read_false(_buffer: bytes, position: int) -> tuple[bool, int]:
    return False, position


def _write_bool(value: bool) -> Tagged:
    return WireType.TRUE if value else WireType.FALSE, b""


_BOOL: Final = ValueCodec(
    {WireType.TRUE: _read_true, WireType.FALSE: _read_false, WireType.NULL: _read_null}, _write_bool
)
_INTEGER: Final = (WireType.INT, encode_zigzag, decode_zigzag)
_STRING: Final = (WireType.BYTES, scalars.encode_string, scalars.decode_string)
_TIMESTAMP: Final = (WireType.TIME, scalars.encode_timestamp, scalars.decode_timestamp)


def _sized(wire_type: WireType, encode: Encode, whole: Callable[[bytes], Any]) -> _Plain:
    """Return the codec of a type whose datums stand after their length."""

    def decode(buffer: bytes, position: int) -> tuple[Any, int]:
        data, end = scalars.decode_sized(buffer, position)
        return whole(data), end

    return wire_type, lambda datum: scalars.encode_sized(encode(datum)), decode


_PLAIN: Final[dict[Kind, _Plain]] = {
    Kind.INT: _INTEGER,
    Kind.DATE: _INTEGER,
    Kind.TIME: _INTEGER,
    Kind.OID: _INTEGER,
    Kind.FLOAT: (WireType.FLOAT, scalars.encode_float, scalars.decode_float),
    Kind.DECIMAL: (WireType.DECIMAL, encode_decimal, decode_decimal),
    Kind.STRING: _STRING,
    Kind.COLLATED_STRING: _STRING,
    Kind.BYTES: (WireType.BYTES, scalars.encode_sized, scalars.decode_sized),
    Kind.UUID: (WireType.UUID, scalars.encode_uuid, scalars.decode_uuid),
    Kind.INET: (WireType.IP_ADDRESS, encode_inet, decode_inet),
    Kind.TIMETZ: (WireType.TIME_TZ, scalars.encode_timetz, scalars.decode_timetz),
    Kind.TIMESTAMP: _TIMESTAMP,
    Kind.TIMESTAMPTZ: _TIMESTAMP,
    Kind.INTERVAL: (WireType.DURATION, scalars.encode_interval, scalars.decode_interval),
    Kind.BIT: (WireType.BIT_ARRAY, scalars.encode_bits, scalars.decode_bits),
    Kind.JSONB: (WireType.JSON, scalars.encode_json, scalars.decode_json),
    Kind.PG_LSN: (WireType.INT, scalars.encode_lsn, scalars.decode_lsn),
    Kind.BOX2D: (WireType.BOX2D, spatial.encode_box, spatial.decode_box),
    Kind.GEOMETRY: _sized(WireType.GEO, spatial.shape_writer(spatial.GEOMETRY), spatial.shape_of),
    Kind.GEOGRAPHY: _sized(WireType.GEO, spatial.shape_writer(spatial.GEOGRAPHY), spatial.shape_of),
    Kind.TSVECTOR: _sized(WireType.TS_VECTOR, encode_tsvector, tsvector_of),
    Kind.TSQUERY: _sized(WireType.TS_QUERY, encode_tsquery, tsquery_of),
    Kind.VECTOR: _sized(WireType.PG_VECTOR, encode_vector, vector_of),
}


def _plain(sql_type: SqlType) -> _Plain:
    if sql_type.kind is Kind.ENUM:
        return _enum(sql_type)
    if sql_type.kind is Kind.ARRAY:
        return _array(sql_type)
    return _PLAIN[sql_type.kind]


def _enum(sql_type: SqlType) -> _Plain:
    physical, label = physical_of(sql_type), label_of(sql_type)

    def decode(buffer: bytes, position: int) -> tuple[str, int]:
        data, end = scalars.decode_sized(buffer, position)
        return label(data), end

    return WireType.BYTES, lambda datum: scalars.encode_sized(physical(datum)), decode


def _array(sql_type: SqlType) -> _Plain:
    if sql_type.element is None:
        raise EncodingError("an array type needs an element type")
    wire_type, encode_element, decode_element = element_codec(sql_type.element)

    def decode(buffer: bytes, position: int) -> tuple[tuple[Any, ...], int]:
        data, end = scalars.decode_sized(buffer, position)
        return decode_array(data, wire_type, decode_element), end

    return (
        WireType.ARRAY,
        lambda datum: scalars.encode_sized(encode_array(datum, wire_type, encode_element)),
        decode,
    )
