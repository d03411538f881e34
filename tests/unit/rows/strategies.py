"""Types, datums and tables for property tests."""

from __future__ import annotations

import ipaddress
import uuid
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from tests.unit.rows.searches import tsqueries, tsvectors
from tests.unit.rows.shapes import ewkb
from tidegate.hlc import Timestamp
from tidegate.rows import (
    Box2D,
    Column,
    EnumMember,
    Family,
    Interval,
    Json,
    KeyPart,
    Kind,
    SqlType,
    TableDescriptor,
    TimeTz,
)
from tidegate.rows.keyside.datums import has_key_form

SEASONS = SqlType(
    Kind.ENUM,
    name="season",
    members=(EnumMember(b"\x40", "spring"), EnumMember(b"\x80", "summer"), EnumMember(b"\xc0", "autumn")),
)
#: Types whose datums can be written in keys.
KEY_TYPES = (
    *(
        SqlType(kind)
        for kind in Kind
        if kind not in (Kind.ARRAY, Kind.ENUM, Kind.COLLATED_STRING) and has_key_form(SqlType(kind))
    ),
    SEASONS,
    SqlType(Kind.ARRAY, element=SqlType(Kind.INT)),
    SqlType(Kind.ARRAY, element=SqlType(Kind.STRING)),
    SqlType(Kind.ARRAY, element=SqlType(Kind.DECIMAL)),
)
#: Types whose datums can be written in values.
VALUE_TYPES = (
    *KEY_TYPES,
    SqlType(Kind.COLLATED_STRING, locale="en"),
    *(SqlType(kind) for kind in Kind if kind is not Kind.ARRAY and not has_key_form(SqlType(kind))),
    *(SqlType(Kind.ARRAY, element=SqlType(kind)) for kind in Kind if kind not in (Kind.ARRAY, Kind.ENUM)),
    SqlType(Kind.ARRAY, element=SEASONS),
)

#: Without negative zeros, which no form of a box keeps.
_sides = st.floats(allow_nan=False, allow_infinity=False).map(lambda side: side + 0.0)
_floats32 = st.floats(width=32, allow_nan=False, allow_infinity=False)
_int64 = st.integers(-(2**63), 2**63 - 1)
_micros_of_day = st.integers(0, 24 * 3600 * 1_000_000)


def _nanos(micros: int) -> int:
    return micros * 1000


def _decimal(sign: int, coefficient: int, exponent: int) -> Decimal:
    return Decimal((sign, tuple(map(int, str(coefficient))), exponent))


decimals = st.builds(
    _decimal, st.integers(0, 1), st.integers(0, 10**25) | st.integers(0, 20), st.integers(-50, 50)
) | st.sampled_from([Decimal("NaN"), Decimal("Infinity"), Decimal("-Infinity")])
#: Small enough that the total fits the key form's 64 bits of nanoseconds.
intervals = st.builds(
    Interval, st.integers(-1000, 1000), st.integers(-30_000, 30_000), st.integers(-(10**18), 10**18)
)
_finite = st.builds(_decimal, st.integers(0, 1), st.integers(0, 10**12), st.integers(-20, 20))
json_values = st.recursive(
    st.none() | st.booleans() | _finite | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=20,
)

_SCALARS: dict[Kind, st.SearchStrategy[Any]] = {
    Kind.BOOL: st.booleans(),
    Kind.INT: _int64 | st.integers(-300, 300),
    Kind.FLOAT: st.floats(),
    Kind.DECIMAL: decimals,
    Kind.STRING: st.text(),
    Kind.COLLATED_STRING: st.text(),
    Kind.BYTES: st.binary(),
    Kind.UUID: st.builds(uuid.UUID, int=st.integers(0, 2**128 - 1)),
    Kind.INET: st.builds(
        lambda address, mask: ipaddress.ip_interface(f"{address}/{mask % (address.max_prefixlen + 1)}"),
        st.ip_addresses(),
        st.integers(0, 128),
    ),
    Kind.DATE: st.integers(-2_451_545, 106_751_991),
    Kind.TIME: _micros_of_day,
    Kind.TIMETZ: st.builds(TimeTz, _micros_of_day, st.integers(-57_599, 57_599)),
    Kind.TIMESTAMP: st.integers(-(2**67), 2**67),
    Kind.TIMESTAMPTZ: st.integers(-(2**67), 2**67),
    Kind.INTERVAL: intervals,
    Kind.BIT: st.text("01", max_size=140),
    Kind.JSONB: st.builds(Json, json_values),
    Kind.OID: st.integers(0, 2**32 - 1),
    Kind.PG_LSN: st.integers(0, 2**64 - 1) | st.integers(0, 300),
    Kind.BOX2D: st.builds(Box2D, _sides, _sides, _sides, _sides),
    Kind.GEOMETRY: ewkb(),
    Kind.GEOGRAPHY: ewkb(srid=4326),
    Kind.TSVECTOR: tsvectors,
    Kind.TSQUERY: tsqueries,
    Kind.VECTOR: st.lists(_floats32, max_size=20).map(tuple),
}


def datums(sql_type: SqlType) -> st.SearchStrategy[Any]:
    """Datums of a type, NULL left out (but for array elements)."""
    if sql_type.kind is Kind.ENUM:
        return st.sampled_from([member.label for member in sql_type.members])
    if sql_type.kind is Kind.ARRAY:
        assert sql_type.element is not None
        return st.lists(st.none() | datums(sql_type.element), max_size=12).map(tuple)
    return _SCALARS[sql_type.kind]


_WHOLE: dict[Kind, st.SearchStrategy[Any]] = {
    Kind.TIMESTAMP: st.integers(-(2**57), 2**57).map(_nanos),
    Kind.TIMESTAMPTZ: st.integers(-(2**57), 2**57).map(_nanos),
    Kind.INTERVAL: intervals.map(lambda each: each._replace(nanos=each.nanos // 1000 * 1000)),
}


def key_datums(sql_type: SqlType) -> st.SearchStrategy[Any]:
    """Datums of a type as databases store them in keys: no time is finer than a microsecond, and no FLOAT4
    has more than 32 bits. Records refuse keys that are finer (`key_precision.py`).
    """
    if sql_type.kind is Kind.ARRAY:
        assert sql_type.element is not None
        return st.lists(st.none() | key_datums(sql_type.element), max_size=12).map(tuple)
    if sql_type.kind is Kind.FLOAT and sql_type.width == 32:
        return _floats32
    return _WHOLE[sql_type.kind] if sql_type.kind in _WHOLE else datums(sql_type)


@st.composite
def tables(draw: st.DrawFn) -> TableDescriptor:
    """Tables with one family, any types, and a primary key of up to three columns in any direction."""
    key_types = draw(st.lists(st.sampled_from(KEY_TYPES), min_size=1, max_size=3))
    value_types = draw(st.lists(st.sampled_from(VALUE_TYPES), max_size=6))
    ids = draw(st.permutations(range(1, 1 + len(key_types) + len(value_types))))
    columns = [
        Column(column_id, f"c{column_id}", sql_type, nullable=position >= len(key_types))
        for position, (column_id, sql_type) in enumerate(zip(ids, [*key_types, *value_types], strict=True))
    ]
    parts = [KeyPart(column.id, draw(st.booleans())) for column in columns[: len(key_types)]]
    return TableDescriptor(
        id=draw(st.integers(50, 2**32)),
        name="generated",
        version=1,
        modified=Timestamp(1),
        columns=tuple(draw(st.permutations(columns))),
        primary_key=tuple(parts),
        families=(Family(0, "primary", tuple(sorted(ids))),),
        primary_index_id=draw(st.integers(1, 300)),
    )


def rows(table: TableDescriptor) -> st.SearchStrategy[tuple[Any, ...]]:
    """Datums of all columns of a table in table order."""
    key_ids = {part.column_id for part in table.primary_key}
    return st.tuples(
        *(
            key_datums(column.type) if column.id in key_ids else st.none() | datums(column.type)
            for column in table.columns
        )
    )


def tables_with_rows() -> st.SearchStrategy[tuple[TableDescriptor, tuple[Any, ...]]]:
    """A table and one of its rows."""
    return tables().flatmap(lambda table: st.tuples(st.just(table), rows(table)))
