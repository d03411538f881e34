"""Tables for Avro tests: columns out of SQL texts, and strategies for tables that have an Avro form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from tests.unit.changefeed.tables import table
from tests.unit.rows.strategies import SEASONS, datums, key_datums
from tidegate.changefeed.definition.options import FeedOptions, Format
from tidegate.changefeed.encoding.avro.row_record import PRIMITIVES
from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.sql_type import parse_sql_type
from tidegate.rows.types import Kind, SqlType

AVRO = FeedOptions(format=Format.AVRO)


def sql_table(name: str, key: tuple[str, ...], /, **columns: str) -> TableDescriptor:
    """A table out of SQL types by column name."""
    return table(name, {column: parse_sql_type(text) for column, text in columns.items()}, key)


def one_column(sql_type: SqlType) -> TableDescriptor:
    """A table ``t`` with the one column ``c``, which is its key."""
    return table("t", {"c": sql_type}, ("c",))


_PLAIN = tuple(
    SqlType(kind)
    for kind in Kind
    if kind not in (Kind.ARRAY, Kind.ENUM, Kind.DECIMAL, Kind.OID, Kind.VECTOR, Kind.COLLATED_STRING)
)
_decimal_types = st.integers(1, 40).flatmap(
    lambda precision: st.builds(
        SqlType, st.just(Kind.DECIMAL), width=st.just(precision), scale=st.integers(0, precision)
    )
)
_scalar_types = (
    st.sampled_from((*_PLAIN, SEASONS, SqlType(Kind.COLLATED_STRING, locale="en"))) | _decimal_types
)
types = _scalar_types | st.builds(SqlType, st.just(Kind.ARRAY), element=_scalar_types)


def _decimals(sql_type: SqlType) -> st.SearchStrategy[Decimal]:
    """Decimals that fit: as many zeros as the scale has may be missing."""
    width, scale = sql_type.width, sql_type.scale

    def fitting(number: int, missing: int) -> Decimal:
        sign, digits, _ = Decimal(number).as_tuple()
        fewer = min(missing, width - len(digits), scale)
        return Decimal((sign, digits, fewer - scale))

    finite = st.builds(fitting, st.integers(1 - 10**width, 10**width - 1), st.integers(0, 40))
    return finite | st.sampled_from([Decimal("NaN"), Decimal("Infinity"), Decimal("-Infinity")])


def fitting_datums(sql_type: SqlType) -> st.SearchStrategy[Any]:
    """Datums of a type that have an Avro form."""
    if sql_type.kind is Kind.DECIMAL:
        return _decimals(sql_type)
    if sql_type.element is not None and sql_type.element.kind is Kind.DECIMAL:
        return st.lists(st.none() | _decimals(sql_type.element), max_size=5).map(tuple)
    return datums(sql_type)


def _fitting_keys(sql_type: SqlType) -> st.SearchStrategy[Any]:
    """The same as databases store them in keys."""
    of = sql_type if sql_type.element is None else sql_type.element
    return fitting_datums(sql_type) if of.kind is Kind.DECIMAL else key_datums(sql_type)


@st.composite
def tables_with_rows(draw: st.DrawFn) -> tuple[TableDescriptor, Mapping[str, Any]]:
    """A table of one to three key columns and up to six others, and a row of it by column name."""
    key_types = draw(st.lists(types, min_size=1, max_size=3))
    other_types = draw(st.lists(types, max_size=6))
    names = draw(
        st.lists(
            st.text(min_size=1, max_size=8),
            unique=True,
            min_size=(size := len(key_types) + len(other_types)),
            max_size=size,
        )
    )
    columns = dict(zip(names, [*key_types, *other_types], strict=True))
    key = tuple(names[: len(key_types)])
    name = draw(st.text(min_size=1, max_size=8).filter(lambda text: text not in PRIMITIVES))
    described = table(name, columns, key)
    row = {
        name: draw(_fitting_keys(each) if name in key else st.none() | fitting_datums(each))
        for name, each in columns.items()
    }
    shuffled = replace(described, columns=tuple(draw(st.permutations(described.columns))))
    return shuffled, row
