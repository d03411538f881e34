"""Column types of Kafka Connect: for each SQL type a schema, and the conversion of a datum to its value.

| SQL | Connect | meaning |
|---|---|---|
| BOOL | boolean | |
| INT2, INT4, INT8 | int16, int32, int64 | |
| OID | int64 | |
| FLOAT4, FLOAT8 | float32, float64 | |
| STRING, COLLATE, BIT | string | |
| INET | string | |
| ENUM | string | ``io.debezium.data.Enum`` |
| UUID | string | ``io.debezium.data.Uuid`` |
| JSONB | string | ``io.debezium.data.Json`` |
| BYTES | bytes | |
| DECIMAL(p,s) | bytes | ``org.apache.kafka.connect.data.Decimal`` |
| DECIMAL | string | |
| DATE | int32 | ``io.debezium.time.Date``: days |
| TIME | int64 | ``io.debezium.time.MicroTime`` |
| TIMETZ | string | ``io.debezium.time.ZonedTime`` |
| TIMESTAMP | int64 | ``io.debezium.time.MicroTimestamp`` |
| TIMESTAMPTZ | string | ``io.debezium.time.ZonedTimestamp`` |
| INTERVAL | string | ``io.debezium.time.Interval`` |
| PG_LSN, BOX2D, TSVECTOR, TSQUERY, VECTOR | string | SQL's own text |
| GEOMETRY, GEOGRAPHY | bytes | EWKB |
| ARRAY | array | of the element's type, or of strings; items may be null |

Sources: Debezium's documentation of its PostgreSQL connector (the meanings), and the types that
``debezium-connector-jdbc`` 3.4 registers for PostgreSQL. When the meaning alone does not tell the sink which
PostgreSQL type to make, Debezium's own parameter (`_SOURCE_TYPE`) names the source's type.

This sink passes an array's items to PostgreSQL as they are, and ignores their meaning. So the items of BYTES,
DATE, DECIMAL, TIME, TIMETZ, TIMESTAMP, TIMESTAMPTZ, GEOMETRY and GEOGRAPHY arrays are strings: SQL's own
text.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

from tidegate.changefeed.encoding.connect import datum_values as values
from tidegate.changefeed.encoding.connect.schema import Schema, semantic
from tidegate.changefeed.text.datum_text import (
    box2d_text,
    date_text,
    inet_text,
    lsn_text,
    shape_text,
    time_text,
    timestamp_text,
    vector_text,
)
from tidegate.changefeed.text.interval_text import iso_interval
from tidegate.changefeed.text.search_text import tsquery_text, tsvector_text
from tidegate.errors import UnsupportedTable
from tidegate.rows.types import Kind, SqlType

Convert: TypeAlias = Callable[[Any], Any]

DECIMAL_NAME: Final = "org.apache.kafka.connect.data.Decimal"
#: The parameter by which Debezium tells a sink the column's type (``column.propagate.source.type``).
_SOURCE_TYPE: Final = "__debezium.source.column.type"
#: Parameters of a decimal.
SCALE: Final = "scale"
PRECISION: Final = "connect.decimal.precision"


class ColumnType(NamedTuple):
    """A column's schema.

    ``convert`` makes the value of a datum that is not NULL; ``None`` leaves it as it is.
    """

    schema: Schema
    convert: Convert | None = None


def _told(of: str, source_type: str) -> Schema:
    return Schema(of, parameters={_SOURCE_TYPE: source_type})


_STRING: Final = ColumnType(Schema("string"))
_BY_KIND: Final[dict[Kind, ColumnType]] = {
    Kind.BOOL: ColumnType(Schema("boolean")),
    Kind.STRING: _STRING,
    Kind.COLLATED_STRING: _STRING,
    # The sink reads Debezium's Bits in another byte order than Debezium's connectors write.
    Kind.BIT: _STRING,
    Kind.BYTES: ColumnType(Schema("bytes")),
    Kind.UUID: ColumnType(semantic("string", "io.debezium.data.Uuid"), uuid.UUID.__str__),
    Kind.INET: ColumnType(_told("string", "INET"), inet_text),
    Kind.DATE: ColumnType(semantic("int32", "io.debezium.time.Date"), values.days),
    Kind.TIME: ColumnType(semantic("int64", "io.debezium.time.MicroTime")),
    Kind.TIMETZ: ColumnType(semantic("string", "io.debezium.time.ZonedTime"), values.zoned_time),
    Kind.TIMESTAMP: ColumnType(semantic("int64", "io.debezium.time.MicroTimestamp"), values.micros),
    Kind.TIMESTAMPTZ: ColumnType(
        semantic("string", "io.debezium.time.ZonedTimestamp"), values.zoned_timestamp
    ),
    Kind.INTERVAL: ColumnType(semantic("string", "io.debezium.time.Interval"), iso_interval),
    Kind.JSONB: ColumnType(
        semantic("string", "io.debezium.data.Json", **{_SOURCE_TYPE: "JSONB"}), values.json_string_of
    ),
    Kind.OID: ColumnType(_told("int64", "OID")),
    # Plain types, for which a PostgreSQL without extensions has columns.
    Kind.PG_LSN: ColumnType(Schema("string"), lsn_text),
    Kind.BOX2D: ColumnType(Schema("string"), box2d_text),
    Kind.GEOMETRY: ColumnType(Schema("bytes")),
    Kind.GEOGRAPHY: ColumnType(Schema("bytes")),
    Kind.TSVECTOR: ColumnType(Schema("string"), tsvector_text),
    Kind.TSQUERY: ColumnType(Schema("string"), tsquery_text),
    Kind.VECTOR: ColumnType(Schema("string"), vector_text),
}
#: Types of items that need another form than a column: in the column's form they would be wrong in the sink,
#: or stop it.
_ITEMS: Final[dict[Kind, ColumnType]] = {
    Kind.BYTES: ColumnType(Schema("string"), values.hex_string),
    Kind.DATE: ColumnType(Schema("string"), date_text),
    Kind.DECIMAL: ColumnType(Schema("string"), values.decimal_string),
    Kind.TIME: ColumnType(Schema("string"), time_text),
    Kind.TIMETZ: ColumnType(Schema("string"), values.zoned_time),
    Kind.TIMESTAMP: ColumnType(Schema("string"), timestamp_text),
    Kind.TIMESTAMPTZ: ColumnType(Schema("string"), values.zoned_timestamp),
    Kind.GEOMETRY: ColumnType(Schema("string"), shape_text),
    Kind.GEOGRAPHY: ColumnType(Schema("string"), shape_text),
}
_INTEGERS: Final = {
    16: ColumnType(Schema("int16"), values.BoundedInt(16)),
    32: ColumnType(Schema("int32"), values.BoundedInt(32)),
}
_INT64: Final = ColumnType(Schema("int64"))
_FLOAT32: Final = ColumnType(Schema("float32"), values.float32)
_FLOAT64: Final = ColumnType(Schema("float64"))
_KEY_ITEMS: Final = {**_ITEMS, Kind.DECIMAL: ColumnType(Schema("string"), values.key_decimal_string)}


def column_type(sql_type: SqlType) -> ColumnType:
    """Return the Connect type of a column. Raises ``UnsupportedTable`` for a type that has none."""
    match sql_type.kind:
        case Kind.INT:
            return _INTEGERS.get(sql_type.width, _INT64)
        case Kind.FLOAT:
            return _FLOAT32 if sql_type.width == 32 else _FLOAT64
        case Kind.DECIMAL:
            return _decimal(sql_type.width, sql_type.scale)
        case Kind.ENUM:
            allowed = ",".join(member.label for member in sql_type.members)
            return ColumnType(semantic("string", "io.debezium.data.Enum", allowed=allowed))
        case Kind.ARRAY if sql_type.element is not None:
            return _array(_ITEMS.get(sql_type.element.kind) or column_type(sql_type.element))
    try:
        return _BY_KIND[sql_type.kind]
    except KeyError:
        raise UnsupportedTable(f"columns of type {sql_type.kind.value} have no Kafka Connect type") from None


def key_column_type(sql_type: SqlType) -> ColumnType:
    """Return the Connect type of a column of a key, in which equal values have one form.

    Equal datums that rows distinguish, such as 1.5 and 1.50, are one key. Raises ``UnsupportedTable`` for a
    type that Kafka Connect has no type for.
    """
    schema, convert = column_type(sql_type)
    match sql_type.kind:
        case Kind.DECIMAL if not sql_type.width:
            return ColumnType(schema, values.key_decimal_string)
        case Kind.FLOAT if convert is None:
            return ColumnType(schema, values.key_float)
        case Kind.FLOAT:
            return ColumnType(schema, lambda value: values.float32(value) + 0.0)
        case Kind.ARRAY if sql_type.element is not None:
            return _array(_KEY_ITEMS.get(sql_type.element.kind) or key_column_type(sql_type.element))
    return ColumnType(schema, convert)


def _decimal(precision: int, scale: int) -> ColumnType:
    if not precision:
        return ColumnType(Schema("string"), values.decimal_string)
    parameters = {SCALE: str(scale), PRECISION: str(precision)}
    return ColumnType(semantic("bytes", DECIMAL_NAME, **parameters), values.UnscaledDecimal(precision, scale))


def _array(element: ColumnType) -> ColumnType:
    convert = values.Items(element.convert) if element.convert is not None else list
    return ColumnType(Schema("array", items=element.schema), convert)
