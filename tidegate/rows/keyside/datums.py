"""Datums in keys: for each SQL type and direction, the functions that write and read its order-preserving
form.

Source: CockroachDB pkg/sql/rowenc/keyside.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from tidegate.errors import EncodingError
from tidegate.rows.enum_labels import label_of, physical_of
from tidegate.rows.inet import encode_inet, inet_of
from tidegate.rows.keyside import bit_strings, boxes, byte_strings, decimals, floats, integers, temporal
from tidegate.rows.keyside.arrays import array_decoder, array_encoder
from tidegate.rows.take import Decode, Encode
from tidegate.rows.types import Kind, SqlType

NULL_ASC: Final = 0x00
NULL_DESC: Final = 0xFF


class KeyCodec(NamedTuple):
    """The writer and the reader of one SQL type in keys, in one direction."""

    encode: Encode
    decode: Decode


def has_key_form(sql_type: SqlType) -> bool:
    """Return whether columns of ``sql_type`` can be in a primary key. CockroachDB refuses the same types."""
    if sql_type.kind is Kind.ARRAY:
        return sql_type.element is not None and has_key_form(sql_type.element)
    return sql_type.kind is Kind.ENUM or sql_type.kind in _CODECS


def key_codec(sql_type: SqlType, descending: bool) -> KeyCodec:
    """Return the codec for datums of ``sql_type`` in that direction, without NULL.

    The key form of a collated string is its collation key. The codec cannot write it, and reads it as
    ``None``.
    """
    if sql_type.kind is Kind.ARRAY:
        return _array(sql_type, descending)
    if sql_type.kind is Kind.ENUM:
        return _through_bytes(physical_of(sql_type), label_of(sql_type), descending)
    asc, desc = _CODECS[sql_type.kind]
    return desc if descending else asc


def nullable(codec: KeyCodec, descending: bool) -> KeyCodec:
    """Return the codec extended by NULL, which sorts first in ascending and last in descending keys."""
    null = NULL_DESC if descending else NULL_ASC
    encode_datum, decode_datum = codec

    def encode(datum: Any) -> bytes:
        return bytes((null,)) if datum is None else encode_datum(datum)

    def decode(buffer: bytes, position: int) -> tuple[Any, int]:
        if buffer[position : position + 1] == bytes((null,)):
            return None, position + 1
        return decode_datum(buffer, position)

    return KeyCodec(encode, decode)


def _array(sql_type: SqlType, descending: bool) -> KeyCodec:
    if sql_type.element is None:
        raise EncodingError("an array type needs an element type")
    element = key_codec(sql_type.element, descending)
    return KeyCodec(array_encoder(element.encode, descending), array_decoder(element.decode, descending))


def _through_bytes(
    to_bytes: Callable[[Any], bytes], from_bytes: Callable[[bytes], Any], descending: bool
) -> KeyCodec:
    """Return the codec of a type whose datums are written as byte strings. ``to_bytes`` returns these."""
    write = byte_strings.encode_bytes_desc if descending else byte_strings.encode_bytes_asc
    read = byte_strings.decode_bytes_desc if descending else byte_strings.decode_bytes_asc

    def decode(buffer: bytes, position: int) -> tuple[Any, int]:
        data, end = read(buffer, position)
        return from_bytes(data), end

    return KeyCodec(lambda datum: write(to_bytes(datum)), decode)


def _both_through_bytes(
    to_bytes: Callable[[Any], bytes], from_bytes: Callable[[bytes], Any]
) -> tuple[KeyCodec, KeyCodec]:
    return _through_bytes(to_bytes, from_bytes, False), _through_bytes(to_bytes, from_bytes, True)


def _uuid_of(data: bytes) -> uuid.UUID:
    if len(data) != 16:
        raise EncodingError(f"a UUID has {len(data)} bytes instead of 16")
    return uuid.UUID(bytes=data)


def _decode_bool(integer: Decode) -> Decode:
    def decode(buffer: bytes, position: int) -> tuple[bool, int]:
        value, end = integer(buffer, position)
        if value not in (0, 1):
            raise EncodingError(f"the boolean at offset {position} is {value}")
        return value == 1, end

    return decode


def _no_collation_key(_text: str) -> bytes:
    raise EncodingError(
        "keys of collated strings cannot be written: tidegate does not carry the collation tables"
    )


def _no_text(_collation_key: bytes) -> None:
    return None


_INTEGER: Final = (
    KeyCodec(integers.encode_varint_asc, integers.decode_varint_asc),
    KeyCodec(integers.encode_varint_desc, integers.decode_varint_desc),
)
_TIMESTAMP: Final = (
    KeyCodec(temporal.encode_timestamp_asc, temporal.decode_timestamp_asc),
    KeyCodec(temporal.encode_timestamp_desc, temporal.decode_timestamp_desc),
)
_CODECS: Final[dict[Kind, tuple[KeyCodec, KeyCodec]]] = {
    Kind.BOOL: (
        KeyCodec(integers.encode_varint_asc, _decode_bool(integers.decode_varint_asc)),
        KeyCodec(integers.encode_varint_desc, _decode_bool(integers.decode_varint_desc)),
    ),
    Kind.INT: _INTEGER,
    Kind.DATE: _INTEGER,
    Kind.TIME: _INTEGER,
    Kind.OID: _INTEGER,
    Kind.FLOAT: (
        KeyCodec(floats.encode_float_asc, floats.decode_float_asc),
        KeyCodec(floats.encode_float_desc, floats.decode_float_desc),
    ),
    Kind.DECIMAL: (
        KeyCodec(decimals.encode_decimal_asc, decimals.decode_decimal_asc),
        KeyCodec(decimals.encode_decimal_desc, decimals.decode_decimal_desc),
    ),
    Kind.STRING: (
        KeyCodec(byte_strings.encode_string_asc, byte_strings.decode_string_asc),
        KeyCodec(byte_strings.encode_string_desc, byte_strings.decode_string_desc),
    ),
    Kind.BYTES: (
        KeyCodec(byte_strings.encode_bytes_asc, byte_strings.decode_bytes_asc),
        KeyCodec(byte_strings.encode_bytes_desc, byte_strings.decode_bytes_desc),
    ),
    Kind.COLLATED_STRING: _both_through_bytes(_no_collation_key, _no_text),
    Kind.UUID: _both_through_bytes(lambda value: value.bytes, _uuid_of),
    Kind.INET: _both_through_bytes(encode_inet, inet_of),
    Kind.TIMETZ: (
        KeyCodec(temporal.encode_timetz_asc, temporal.decode_timetz_asc),
        KeyCodec(temporal.encode_timetz_desc, temporal.decode_timetz_desc),
    ),
    Kind.TIMESTAMP: _TIMESTAMP,
    Kind.TIMESTAMPTZ: _TIMESTAMP,
    Kind.INTERVAL: (
        KeyCodec(temporal.encode_interval_asc, temporal.decode_interval_asc),
        KeyCodec(temporal.encode_interval_desc, temporal.decode_interval_desc),
    ),
    Kind.BIT: (
        KeyCodec(bit_strings.encode_bits_asc, bit_strings.decode_bits_asc),
        KeyCodec(bit_strings.encode_bits_desc, bit_strings.decode_bits_desc),
    ),
    Kind.PG_LSN: (
        KeyCodec(integers.encode_uvarint_asc, integers.decode_uvarint_asc),
        KeyCodec(integers.encode_uvarint_desc, integers.decode_uvarint_desc),
    ),
    Kind.BOX2D: (
        KeyCodec(boxes.encode_box_asc, boxes.decode_box_asc),
        KeyCodec(boxes.encode_box_desc, boxes.decode_box_desc),
    ),
}
