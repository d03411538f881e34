"""A column's definition in SQL, which the schema of the column's field has as ``__crdb__``.

Source: CockroachDB ``ColumnDescriptor.SQLStringNotHumanReadable`` (``pkg/sql/catalog/descpb/column.go``),
``T.SQLString`` (``pkg/sql/types``). In CockroachDB, default and computed expressions follow; tidegate's
descriptors do not have these.
"""

from __future__ import annotations

from tidegate.changefeed.definition.sql_identifier import sql_identifier
from tidegate.rows.descriptor import Column
from tidegate.rows.sql_type import sql_type_text
from tidegate.rows.types import Kind, SqlType


def column_definition(column: Column) -> str:
    """Return a column's definition: ``b STRING NULL``, ``"Total" DECIMAL(10,2) NOT NULL``."""
    nullability = "NULL" if column.nullable else "NOT NULL"
    return f"{sql_identifier(column.name)} {_type_text(column.type)} {nullability}"


def _type_text(sql_type: SqlType) -> str:
    element = sql_type.element
    if sql_type.kind is Kind.ARRAY and element is not None and element.kind is Kind.COLLATED_STRING:
        # The brackets belong to the string, not to its collation.
        string, collate, locale = sql_type_text(element).partition(" COLLATE ")
        return f"{string}[]{collate}{locale}"
    return sql_type_text(sql_type)
