"""SQL types as Avro types: what a column's schema says, and how a datum is written.

| SQL | Avro, each in a union with null |
|---|---|
| INT | long |
| FLOAT | double |
| BOOL | boolean |
| BYTES | bytes |
| GEOMETRY, GEOGRAPHY | bytes: EWKB |
| STRING, COLLATED STRING, ENUM, UUID, INET, TIMETZ | string |
| PG_LSN, BOX2D, TSVECTOR, TSQUERY | string |
| JSONB | string: its JSON text |
| INTERVAL | string: ISO 8601 |
| DATE | int, ``date``; an infinite one has no form |
| TIME | long, ``time-micros`` |
| TIMESTAMP, TIMESTAMPTZ | long, ``timestamp-micros`` |
| DECIMAL(p,s) | bytes, ``decimal``; or string for NaN and the infinities |
| BIT, VARBIT | array of long: bits used in the last word, then words of 64 bits from the left |
| ARRAY | array of the same unions |

DECIMAL without a precision, OID and VECTOR have no Avro form. Source: CockroachDB
``pkg/ccl/changefeedccl/avro/avro.go``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple, TypeAlias

from tidegate.changefeed.encoding.avro.body import NULL, Branch
from tidegate.changefeed.encoding.avro.schema_text import AvroType
from tidegate.changefeed.text import datum_text
from tidegate.changefeed.text.interval_text import iso_interval
from tidegate.changefeed.text.json_text import json_value, utf8
from tidegate.changefeed.text.row_bytes import ROW_BYTES_MAX, too_large
from tidegate.changefeed.text.search_text import tsquery_text, tsvector_text
from tidegate.changefeed.text.unscaled import DIGITS_MAX, Unscaler
from tidegate.errors import RowError, UnsupportedTable
from tidegate.rows.sql_type import sql_type_text
from tidegate.rows.types import Json, Kind, SqlType

#: Turns a datum that is not NULL into the branch and datum that fastavro writes.
Convert: TypeAlias = Callable[[Any], Branch]

_INFINITE_DAYS: Final = (2**63 - 1, -(2**63))
_MICROS_PER_DAY: Final = 86_400_000_000
_WORD_BITS: Final = 64


class FieldType(NamedTuple):
    """The branches of a column's union beside null, and the converter of its datums."""

    branches: tuple[AvroType, ...]
    convert: Convert


def field_type(sql_type: SqlType, where: str) -> FieldType:
    """Return the Avro form of a type; ``where`` names table and column in errors.

    Raises ``UnsupportedTable`` for a type without an Avro form. The converter raises ``RowError`` for a datum
    without one.
    """
    match sql_type.kind:
        case Kind.ARRAY if sql_type.element is not None:
            return _array(sql_type, sql_type.element, where)
        case Kind.DECIMAL:
            return _decimal(sql_type, where)
    make = _BY_KIND.get(sql_type.kind)
    if make is None:
        raise UnsupportedTable(f"{where}: type {sql_type_text(sql_type)} not yet supported with avro")
    return make(f"{where}: {sql_type.kind.value}")


def _text(text: Callable[[Any], str]) -> Callable[[str], FieldType]:
    return lambda _: FieldType(("string",), lambda datum: ("string", text(datum)))


def _as_it_is(branch: str) -> Callable[[str], FieldType]:
    return lambda _: FieldType((branch,), lambda datum: (branch, datum))


def _int(what: str) -> FieldType:
    return FieldType(("long",), lambda datum: ("long", _int64(datum, datum, what)))


def _date(what: str) -> FieldType:
    def convert(days: int) -> Branch:
        if -(2**31) <= days < 2**31:
            return "int", days
        if days in _INFINITE_DAYS:
            raise RowError(f"{what}: infinite date not yet supported with avro; the feed fails")
        raise RowError(f"{what} of {days} days does not fit 32 bits; the feed fails")

    return FieldType(({"type": "int", "logicalType": "date"},), convert)


def _time(what: str) -> FieldType:
    def convert(micros: int) -> Branch:
        if 0 <= micros <= _MICROS_PER_DAY:
            return "long", micros
        raise RowError(f"{what} of {micros} microseconds is not in a day; the feed fails")

    return FieldType(({"type": "long", "logicalType": "time-micros"},), convert)


def _timestamp(what: str) -> FieldType:
    # Rounds down, before 1970 too, as a timestamp's fraction is cut.
    return FieldType(
        ({"type": "long", "logicalType": "timestamp-micros"},),
        lambda nanos: ("long", _int64(nanos // 1000, nanos, what)),
    )


def _int64(number: int, datum: int, what: str) -> int:
    if -(2**63) <= number < 2**63:
        return number
    raise RowError(f"{what} {datum} does not fit 64 bits; the feed fails")


def _jsonb(what: str) -> FieldType:
    def convert(datum: Json) -> Branch:
        try:
            return "string", utf8(json_value(datum.value)).decode()
        except RowError as error:
            raise RowError(f"{what}: {error}") from None

    return FieldType(("string",), convert)


def _bit(_: str) -> FieldType:
    def convert(bits: str) -> Branch:
        words = -(-len(bits) // _WORD_BITS)
        if not words:
            return "array", [0]
        data = int(bits.ljust(words * _WORD_BITS, "0"), 2).to_bytes(words * 8, "big")
        return "array", [(len(bits) - 1) % _WORD_BITS + 1, *struct.unpack(f">{words}q", data)]

    return FieldType(({"type": "array", "items": "long"},), convert)


def _decimal(sql_type: SqlType, where: str) -> FieldType:
    precision, scale = sql_type.width, sql_type.scale
    if not precision:
        raise UnsupportedTable(f"{where}: decimal with no precision not yet supported with avro")
    # Pads zeros up to the scale. 1.50 for a scale of 1 is refused, as in CockroachDB.
    unscaled = Unscaler(precision, scale, cuts_zeros=False)

    def convert(value: Decimal) -> Branch:
        if not value.is_finite():
            return "string", str(value)
        number = unscaled(value)
        if number is None:
            raise RowError(f"{where}: {_misfit(value, sql_type)}; the feed fails")
        return "bytes", _signed_bytes(number)

    logical = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
    return FieldType((logical, "string"), convert)


def _misfit(value: Decimal, sql_type: SqlType) -> str:
    """Return why a decimal has no form. For digits beyond the scale the text is CockroachDB's."""
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    beyond = f"{value} will not roundtrip at scale {sql_type.scale}: " if -exponent > sql_type.scale else ""
    if not beyond and value.adjusted() < sql_type.width - sql_type.scale:
        return f"DECIMAL {value} needs more than {DIGITS_MAX} digits, which is as many as are written"
    return f"{beyond}DECIMAL {value} does not fit {sql_type_text(sql_type)}"


def _array(sql_type: SqlType, element: SqlType, where: str) -> FieldType:
    try:
        branches, convert = field_type(element, where)
    except UnsupportedTable as error:
        raise UnsupportedTable(f"{error} (as the item of {sql_type_text(sql_type)})") from None
    return FieldType(
        ({"type": "array", "items": ["null", *branches]},),
        lambda datum: ("array", _items(datum, convert)),
    )


def _items(datum: Sequence[Any], convert: Convert) -> list[Branch]:
    """Convert the items of an array. Raises ``RowError`` once they have too many bytes (`row_bytes`)."""
    room = ROW_BYTES_MAX
    items: list[Branch] = []
    for each in datum:
        item = NULL if each is None else convert(each)
        if isinstance(item[1], str | bytes):
            room -= len(item[1])
            if room < 0:
                raise too_large("an array of it")
        items.append(item)
    return items


def _signed_bytes(number: int) -> bytes:
    """Return two's complement, big-endian, in as few bytes as hold the number: 127 is ``7f``, 128 is
    ``0080``.
    """
    magnitude = ~number if number < 0 else number
    return number.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)


_BY_KIND: Final[dict[Kind, Callable[[str], FieldType]]] = {
    Kind.BOOL: _as_it_is("boolean"),
    Kind.INT: _int,
    Kind.FLOAT: _as_it_is("double"),
    Kind.STRING: _as_it_is("string"),
    Kind.COLLATED_STRING: _as_it_is("string"),
    Kind.ENUM: _as_it_is("string"),
    Kind.BYTES: _as_it_is("bytes"),
    Kind.UUID: _text(str),
    Kind.INET: _text(datum_text.inet_text),
    Kind.DATE: _date,
    Kind.TIME: _time,
    Kind.TIMETZ: _text(datum_text.timetz_text),
    Kind.TIMESTAMP: _timestamp,
    Kind.TIMESTAMPTZ: _timestamp,
    Kind.INTERVAL: _text(iso_interval),
    Kind.BIT: _bit,
    Kind.JSONB: _jsonb,
    Kind.PG_LSN: _text(datum_text.lsn_text),
    Kind.BOX2D: _text(datum_text.box2d_text),
    Kind.GEOMETRY: _as_it_is("bytes"),
    Kind.GEOGRAPHY: _as_it_is("bytes"),
    Kind.TSVECTOR: _text(tsvector_text),
    Kind.TSQUERY: _text(tsquery_text),
}
