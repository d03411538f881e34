"""Forms of the ``key.*`` kinds that go both ways."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from tests.conformance.case import Case
from tests.conformance.form import Form, FormOf, always, whole
from tests.conformance.literals import (
    bytes_of,
    datum_of,
    decimal_in,
    interval_of,
    nanos_of,
    timetz_of,
    type_in,
    type_of,
)
from tidegate.rows import SqlType
from tidegate.rows.keyside import bit_strings, byte_strings, decimals, floats, integers, temporal
from tidegate.rows.keyside.datums import key_codec, nullable
from tidegate.rows.take import Decode, Encode

ASC: Final = ".asc"
DESC: Final = ".desc"


def _integer(case: Case) -> int:
    return int(case["value"])


_Reader = Callable[[Case], Any]
_KEY_FORMS: Final[dict[str, tuple[_Reader, Encode, Decode, Encode, Decode]]] = {
    "key.uint32": (
        _integer,
        integers.encode_uint32_asc,
        integers.decode_uint32_asc,
        integers.encode_uint32_desc,
        integers.decode_uint32_desc,
    ),
    "key.uint64": (
        _integer,
        integers.encode_uint64_asc,
        integers.decode_uint64_asc,
        integers.encode_uint64_desc,
        integers.decode_uint64_desc,
    ),
    "key.uvarint": (
        _integer,
        integers.encode_uvarint_asc,
        integers.decode_uvarint_asc,
        integers.encode_uvarint_desc,
        integers.decode_uvarint_desc,
    ),
    "key.varint": (
        _integer,
        integers.encode_varint_asc,
        integers.decode_varint_asc,
        integers.encode_varint_desc,
        integers.decode_varint_desc,
    ),
    "key.bytes": (
        bytes_of,
        byte_strings.encode_bytes_asc,
        byte_strings.decode_bytes_asc,
        byte_strings.encode_bytes_desc,
        byte_strings.decode_bytes_desc,
    ),
    "key.string": (
        lambda case: str(case["value"]),
        byte_strings.encode_string_asc,
        byte_strings.decode_string_asc,
        byte_strings.encode_string_desc,
        byte_strings.decode_string_desc,
    ),
    "key.float": (
        lambda case: float(case["value"]),
        floats.encode_float_asc,
        floats.decode_float_asc,
        floats.encode_float_desc,
        floats.decode_float_desc,
    ),
    "key.decimal": (
        decimal_in,
        decimals.encode_decimal_asc,
        decimals.decode_decimal_asc,
        decimals.encode_decimal_desc,
        decimals.decode_decimal_desc,
    ),
    "key.bitarray": (
        lambda case: str(case["value"]),
        bit_strings.encode_bits_asc,
        bit_strings.decode_bits_asc,
        bit_strings.encode_bits_desc,
        bit_strings.decode_bits_desc,
    ),
    "key.time": (
        lambda case: nanos_of(case["value"]),
        temporal.encode_timestamp_asc,
        temporal.decode_timestamp_asc,
        temporal.encode_timestamp_desc,
        temporal.decode_timestamp_desc,
    ),
    "key.timetz": (
        lambda case: timetz_of(case["value"]),
        temporal.encode_timetz_asc,
        temporal.decode_timetz_asc,
        temporal.encode_timetz_desc,
        temporal.decode_timetz_desc,
    ),
    "key.duration": (
        lambda case: interval_of(case["value"]),
        temporal.encode_interval_asc,
        temporal.decode_interval_asc,
        temporal.encode_interval_desc,
        temporal.decode_interval_desc,
    ),
}
#: Kinds that are named for a SQL type, whose key codec is taken as it stands.
_KEY_TYPES: Final = ("bool", "int", "date", "uuid", "inet", "oid", "interval", "timestamp", "timestamptz")


def key_forms() -> Iterator[tuple[str, FormOf]]:
    """Kind and form of every key encoding, in both directions."""
    for kind, (read, encode_asc, decode_asc, encode_desc, decode_desc) in _KEY_FORMS.items():
        yield kind + ASC, always(Form(encode_asc, whole(decode_asc), read))
        yield kind + DESC, always(Form(encode_desc, whole(decode_desc), read))
    for name in _KEY_TYPES:
        yield f"key.{name}{ASC}", always(_typed_key(type_of(name), descending=False))
        yield f"key.{name}{DESC}", always(_typed_key(type_of(name), descending=True))
    for name in ("array", "datum"):
        yield f"key.{name}{ASC}", lambda case: _typed_key(type_in(case), descending=False)
        yield f"key.{name}{DESC}", lambda case: _typed_key(type_in(case), descending=True)


def _typed_key(sql_type: SqlType, descending: bool) -> Form:
    codec = nullable(key_codec(sql_type, descending), descending)
    return Form(codec.encode, whole(codec.decode), lambda case: datum_of(sql_type, case["value"]))
