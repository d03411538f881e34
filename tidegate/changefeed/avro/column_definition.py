"""The definition of a column in SQL, which a field's schema carries along as ``__crdb__``.

Source: CockroachDB ``ColumnDescriptor.SQLStringNotHumanReadable`` (``pkg/sql/catalog/descpb/column.go``),
``T.SQLString`` (``pkg/sql/types``), and ``pkg/sql/lexbase`` for names. Default and computed expressions,
which it adds, are not in our descriptors.
"""

from __future__ import annotations

import re
from typing import Final
from unicodedata import normalize

from tidegate.rows.descriptor import Column
from tidegate.rows.sql_type import sql_type_text
from tidegate.rows.types import Kind, SqlType

_BARE: Final = re.compile(r"[a-z_\u0080-\U0010ffff][a-z0-9_$\u0080-\U0010ffff]*")
#: Words that a name must be quoted to be: reserved, or in need of a second word to be understood.
_RESERVED: Final = frozenset(
    """
    all analyse analyze and annotate_type any array as asc asymmetric authorization between bigint bit boolean
    both box2d case cast char character characteristics check coalesce cockroachdb_extra_reserved_keyword
    collate collation column concurrently constraint create cross current_catalog current_date current_role
    current_schema current_time current_timestamp current_user dec decimal default deferrable desc distinct do
    else end except exists extract extract_duration false family fetch float for foreign from full generated
    geography geometry grant greatest group grouping having if iferror ifnull ilike in index initially inner
    int integer intersect interval into is iserror isnull join lateral leading least left like limit localtime
    localtimestamp natural none not nothing notnull null nullif numeric of offset on only or order ordinality
    out outer overlaps overlay placing point polygon position precision primary real references reset
    returning right role row select session_user set similar smallint some string substring symmetric table
    tenant then time timestamp timestamptz timetz to trailing treat trim true union unique user using values
    varbit varchar variadic virtual when where window with work
    """.split()  # noqa: SIM905 - a list of words reads better
)


def column_definition(column: Column) -> str:
    """``b STRING NULL``, ``"Total" DECIMAL(10,2) NOT NULL``."""
    nullability = "NULL" if column.nullable else "NOT NULL"
    return f"{sql_identifier(column.name)} {_type_text(column.type)} {nullability}"


def sql_identifier(name: str) -> str:
    """The name as SQL reads it: quoted unless it is plain, in lower case, and no reserved word."""
    folded = normalize("NFC", name.lower())
    if name == folded and name not in _RESERVED and _BARE.fullmatch(name):
        return name
    return '"' + name.replace('"', '""') + '"'


def _type_text(sql_type: SqlType) -> str:
    element = sql_type.element
    if sql_type.kind is Kind.ARRAY and element is not None and element.kind is Kind.COLLATED_STRING:
        # The brackets belong to the string, not to its collation.
        string, collate, locale = sql_type_text(element).partition(" COLLATE ")
        return f"{string}[]{collate}{locale}"
    return sql_type_text(sql_type)
