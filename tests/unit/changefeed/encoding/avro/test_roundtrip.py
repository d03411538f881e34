"""fastavro's own reader reads the row back, for any table and row."""

from __future__ import annotations

import ipaddress
import json
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Context, Decimal
from io import BytesIO
from typing import Any, Final

from fastavro import parse_schema, schemaless_reader
from hypothesis import given

from tests.unit.changefeed.encoding.avro.tables_of_types import AVRO, tables_with_rows
from tests.unit.changefeed.tables import row
from tests.unit.rows.sameness import exact
from tidegate.changefeed.definition.names import sql_name
from tidegate.changefeed.definition.options import Envelope
from tidegate.changefeed.encoding.encoder import compile_encoder
from tidegate.changefeed.text.json_text import json_string, text_encoder
from tidegate.hlc import Timestamp
from tidegate.rows.types import Interval, Json, Kind, SqlType, TimeTz

AT = Timestamp(5)
WIDE = Context(prec=100)
#: Compared as the text that a JSON feed has.
AS_TEXT: Final = (Kind.PG_LSN, Kind.BOX2D, Kind.TSVECTOR, Kind.TSQUERY)
_INTERVAL: Final = re.compile(
    r"P(?:(-?\d+)Y)?(?:(-?\d+)M)?(?:(-?\d+)D)?(?:T(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?[\d.]+)S)?)?"
)
_TIMETZ: Final = re.compile(r"(\d\d):(\d\d):(\d\d(?:\.\d+)?)([+-])(\d\d):(\d\d):(\d\d)")


def read(text: str, body: bytes) -> Any:
    """Read by fastavro, with dates and times as the numbers that they are."""
    schema = json.loads(text, object_hook=_without_calendar)
    buffer = BytesIO(body)
    datum = schemaless_reader(buffer, parse_schema(schema), None)
    assert buffer.read() == b""
    return datum


def _without_calendar(schema: dict[str, Any]) -> Any:
    return schema["type"] if schema.get("logicalType") not in (None, "decimal") else schema


def as_datum(sql_type: SqlType, value: Any) -> Any:
    """The datum that an Avro value stands for."""
    if value is None:
        return None
    if sql_type.element is not None:
        return tuple(as_datum(sql_type.element, item) for item in value)
    return _READERS.get(sql_type.kind, lambda same: same)(value)


def bits(words: list[int]) -> str:
    used, *rest = words
    text = "".join(f"{word % 2**64:064b}" for word in rest)
    return text[: 64 * (len(rest) - 1) + used] if rest else ""


def interval(text: str) -> Interval:
    match = _INTERVAL.fullmatch(text)
    assert match is not None, text
    years, months, days, hours, minutes, seconds = (Decimal(part or 0) for part in match.groups())
    nanos = ((hours * 60 + minutes) * 60 + seconds) * 10**9
    return Interval(int(years * 12 + months), int(days), int(nanos))


def timetz(text: str) -> TimeTz:
    match = _TIMETZ.fullmatch(text)
    assert match is not None, text
    hour, minute, second, sign, *zone = match.groups()
    micros = ((int(hour) * 60 + int(minute)) * 60 + Decimal(second)) * 10**6
    offset = (int(zone[0]) * 60 + int(zone[1])) * 60 + int(zone[2])
    return TimeTz(int(micros), -offset if sign == "+" else offset)


#: Of kinds whose datums are not what Avro has for them.
_READERS: Final[dict[Kind, Callable[[Any], Any]]] = {
    Kind.DECIMAL: Decimal,
    Kind.UUID: uuid.UUID,
    Kind.INET: ipaddress.ip_interface,
    Kind.JSONB: lambda text: Json(json.loads(text, parse_float=Decimal, parse_int=Decimal)),
    Kind.BIT: bits,
    Kind.INTERVAL: interval,
    Kind.TIMETZ: timetz,
    **dict.fromkeys(AS_TEXT, json_string),
}


def as_kept(sql_type: SqlType, datum: Any) -> Any:
    """The datum as far as Avro keeps it: microseconds, decimals with their column's scale."""
    if datum is None:
        return None
    match sql_type.kind:
        case Kind.ARRAY:
            assert sql_type.element is not None
            return tuple(as_kept(sql_type.element, item) for item in datum)
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            return datum // 1000
        case kind if kind in AS_TEXT:
            return text_encoder(sql_type)(datum)
        case Kind.INTERVAL:
            sign = -1 if datum.nanos < 0 else 1
            return datum._replace(nanos=abs(datum.nanos) // 1000 * 1000 * sign)
        case Kind.DECIMAL if datum.is_finite():
            # A whole number has no zero with a sign.
            whole = int(datum.scaleb(sql_type.scale, WIDE))
            return Decimal(whole).scaleb(-sql_type.scale, WIDE)
    return datum


def assert_same(
    columns: Mapping[str, SqlType], record: Mapping[str, Any], expected: Mapping[str, Any]
) -> None:
    datums = {sql_name(name): as_datum(columns[sql_name(name)], value) for name, value in record.items()}
    kept = {name: as_kept(columns[name], expected[name]) for name in datums}
    assert {name: exact(each) for name, each in datums.items()} == {
        name: exact(each) for name, each in kept.items()
    }


@given(tables_with_rows())
def test_what_fastavro_reads_is_the_row(example: tuple[Any, Mapping[str, Any]]) -> None:
    table, datums = example
    types = {column.name: column.type for column in table.columns}
    encoder = compile_encoder(table, replace(AVRO, diff=True, updated=True))
    assert encoder.schemas is not None
    version = row(table, **datums)
    key, value = encoder.encode(version._replace(previous=version.values), AT)
    assert value is not None
    envelope = read(encoder.schemas.value.text, value)
    assert list(envelope) == ["before", "after", "updated"]
    assert envelope["updated"] == AT.decimal()
    key_record = read(encoder.schemas.key.text, key)
    by_id = {column.id: column.name for column in table.columns}
    assert [sql_name(name) for name in key_record] == [by_id[part.column_id] for part in table.primary_key]
    assert_same(types, key_record, datums)
    for member in ("before", "after"):
        assert [sql_name(name) for name in envelope[member]] == [column.name for column in table.columns]
        assert_same(types, envelope[member], datums)


@given(tables_with_rows())
def test_a_bare_deletion_is_the_key_and_nulls(example: tuple[Any, Mapping[str, Any]]) -> None:
    table, datums = example
    types = {column.name: column.type for column in table.columns}
    encoder = compile_encoder(table, replace(AVRO, envelope=Envelope.BARE))
    assert encoder.schemas is not None
    gone = row(table, **datums)._replace(values=None)
    _, value = encoder.encode(gone, AT)
    assert value is not None
    ids = {part.column_id for part in table.primary_key}
    left = {column.name: datums[column.name] if column.id in ids else None for column in table.columns}
    assert_same(types, read(encoder.schemas.value.text, value)["record"], left)
