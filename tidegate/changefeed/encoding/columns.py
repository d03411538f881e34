"""Chooses which of a table's columns a record shows, and finds the column that an option names."""

from __future__ import annotations

from tidegate.changefeed.definition.options import FeedOptions, VirtualColumns
from tidegate.errors import UnsupportedTable
from tidegate.rows.descriptor import Column, TableDescriptor


def public_columns(table: TableDescriptor) -> list[Column]:
    """Return the columns that a row has datums for, in the order of ``Row.values``."""
    return [column for column in table.columns if column.in_rows]


def shown_columns(table: TableDescriptor, options: FeedOptions) -> list[Column]:
    """Return the columns that a row's record shows, in table order.

    Virtual columns, which are always null, are shown if the feed asks for them. The column that
    ``headers_json_column_name`` names is not shown.
    """
    virtual = options.virtual_columns is VirtualColumns.NULL
    hidden = options.headers_json_column_name or None  # a column may have no name
    return [
        column
        for column in table.columns
        if (column.in_rows or (virtual and column.public)) and column.name != hidden
    ]


def index_in_key(table: TableDescriptor, column: Column) -> int | None:
    """Return the place of a column in the primary key; ``None`` for a column that is not there."""
    return next((at for at, part in enumerate(table.primary_key) if part.column_id == column.id), None)


def named_column(table: TableDescriptor, name: str, option: str) -> tuple[int, Column]:
    """Return the column that an option names, with its position in a row's datums.

    Raises ``UnsupportedTable`` with the names of the columns that exist. The text begins as CockroachDB's
    does.
    """
    columns = public_columns(table)
    for position, column in enumerate(columns):
        if column.name == name:
            return position, column
    if any(column.name == name and column.virtual for column in table.columns):
        raise UnsupportedTable(
            f"table {table.name}, column {name}, which {option} names: it is virtual, so the log holds no "
            "value of it; name a stored column"
        )
    raise UnsupportedTable(
        f"required column {name} not present on table {table.name}, which {option} names; its columns are "
        f"{', '.join(column.name for column in columns)}"
    )
