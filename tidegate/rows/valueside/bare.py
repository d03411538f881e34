"""Bare values: the only column of a family, with a tag of its own type, and in no tuple.

A family has this form if it is not the first one, and if the descriptor names a default column for it.
Source: CockroachDB pkg/sql/rowenc/valueside/legacy.go, pkg/roachpb/data.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from tidegate.errors import EncodingError
from tidegate.rows.enum_labels import label_of, physical_of
from tidegate.rows.inet import encode_inet, inet_of
from tidegate.rows.keyside import temporal
from tidegate.rows.keyside.byte_strings import utf8
from tidegate.rows.take import Decode, Encode
from tidegate.rows.types import Json, Kind, SqlType
from tidegate.rows.value_frame import ValueTag
from tidegate.rows.valueside import scalars, spatial
from tidegate.rows.valueside.arrays import decode_array, encode_array
from tidegate.rows.valueside.datums import element_codec, value_codec
from tidegate.rows.valueside.decimals import decode_decimal_body, encode_decimal_body
from tidegate.rows.valueside.jsonb import decode_jsonb, encode_jsonb
from tidegate.rows.valueside.tags import WireType
from tidegate.rows.valueside.text_search import encode_tsquery, encode_tsvector, tsquery_of, tsvector_of
from tidegate.rows.valueside.varints import decode_zigzag, encode_zigzag
from tidegate.rows.valueside.vectors import encode_vector, vector_of


class BareCodec(NamedTuple):
    """The codec of one SQL type as a bare value. The value is a tag and a payload, which goes to the end."""

    tag: ValueTag
    encode: Encode
    decode: Callable[[bytes], Any]


def bare_codec(sql_type: SqlType) -> BareCodec:
    """Return the codec for datums of ``sql_type``; ``decode`` raises `EncodingError`."""
    if sql_type.kind is Kind.ENUM:
        return BareCodec(ValueTag.BYTES, physical_of(sql_type), label_of(sql_type))
    if sql_type.kind is Kind.ARRAY:
        return _array(sql_type)
    return _CODECS[sql_type.kind]


def _whole(decode: Decode) -> Callable[[bytes], Any]:
    """Return a reader of a whole payload, from a reader of one datum, which must end with the payload."""

    def decode_whole(payload: bytes) -> Any:
        datum, end = decode(payload, 0)
        if end != len(payload):
            raise EncodingError(f"{len(payload) - end} bytes follow a bare value")
        return datum

    return decode_whole


def _array(sql_type: SqlType) -> BareCodec:
    if sql_type.element is None:
        raise EncodingError("an array type needs an element type")
    wire_type, encode, decode = element_codec(sql_type.element)
    return BareCodec(
        ValueTag.BYTES,
        lambda elements: encode_array(elements, wire_type, encode),
        lambda payload: decode_array(payload, wire_type, decode),
    )


def _tagged(kind: Kind, wire_type: WireType) -> tuple[Encode, Callable[[bytes], Any]]:
    """Return the codec of a type whose bare form is its form in tuples without the tag."""
    codec = value_codec(SqlType(kind))
    return lambda datum: codec.encode(datum)[1], _whole(codec.decoders[wire_type])


def _encode_bool(value: bool) -> bytes:
    return encode_zigzag(int(value))


def _decode_bool(payload: bytes) -> bool:
    value: int = _whole(decode_zigzag)(payload)
    if value not in (0, 1):
        raise EncodingError(f"a bare boolean is {value}, and only 0 and 1 are possible")
    return value == 1


_INTEGER: Final = BareCodec(ValueTag.INT, encode_zigzag, _whole(decode_zigzag))
_STRING: Final = BareCodec(ValueTag.BYTES, str.encode, lambda payload: utf8(payload, 0))
_TIMESTAMP: Final = BareCodec(
    ValueTag.TIME, temporal.encode_timestamp_asc, _whole(temporal.decode_timestamp_asc)
)
_CODECS: Final[dict[Kind, BareCodec]] = {
    Kind.BOOL: BareCodec(ValueTag.INT, _encode_bool, _decode_bool),
    Kind.INT: _INTEGER,
    Kind.DATE: _INTEGER,
    Kind.TIME: _INTEGER,
    Kind.OID: _INTEGER,
    Kind.FLOAT: BareCodec(ValueTag.FLOAT, *_tagged(Kind.FLOAT, WireType.FLOAT)),
    Kind.DECIMAL: BareCodec(ValueTag.DECIMAL, encode_decimal_body, decode_decimal_body),
    Kind.STRING: _STRING,
    Kind.COLLATED_STRING: _STRING,
    Kind.BYTES: BareCodec(ValueTag.BYTES, bytes, bytes),
    Kind.UUID: BareCodec(ValueTag.BYTES, *_tagged(Kind.UUID, WireType.UUID)),
    Kind.INET: BareCodec(ValueTag.BYTES, encode_inet, inet_of),
    Kind.JSONB: BareCodec(
        ValueTag.BYTES, lambda datum: encode_jsonb(datum.value), lambda payload: Json(decode_jsonb(payload))
    ),
    Kind.TIMESTAMP: _TIMESTAMP,
    Kind.TIMESTAMPTZ: _TIMESTAMP,
    Kind.TIMETZ: BareCodec(ValueTag.TIME_TZ, temporal.encode_timetz_asc, _whole(temporal.decode_timetz_asc)),
    Kind.INTERVAL: BareCodec(
        ValueTag.DURATION, temporal.encode_interval_asc, _whole(temporal.decode_interval_asc)
    ),
    Kind.BIT: BareCodec(ValueTag.BIT_ARRAY, *_tagged(Kind.BIT, WireType.BIT_ARRAY)),
    Kind.PG_LSN: BareCodec(ValueTag.INT, scalars.encode_lsn, _whole(scalars.decode_lsn)),
    Kind.BOX2D: BareCodec(ValueTag.BOX2D, spatial.encode_bare_box, spatial.bare_box_of),
    Kind.GEOMETRY: BareCodec(ValueTag.GEO, spatial.shape_writer(spatial.GEOMETRY), spatial.shape_of),
    Kind.GEOGRAPHY: BareCodec(ValueTag.GEO, spatial.shape_writer(spatial.GEOGRAPHY), spatial.shape_of),
    Kind.TSVECTOR: BareCodec(ValueTag.BYTES, encode_tsvector, tsvector_of),
    Kind.TSQUERY: BareCodec(ValueTag.BYTES, encode_tsquery, tsquery_of),
    Kind.VECTOR: BareCodec(ValueTag.BYTES, encode_vector, vector_of),
}
