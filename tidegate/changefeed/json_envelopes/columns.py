"""A table's columns as members of an object."""

from __future__ import annotations

from tidegate.changefeed.json_envelopes.template import NULL, Member, constant, datum
from tidegate.changefeed.json_text import TextEncoder, text_encoder
from tidegate.changefeed.options import FeedOptions
from tidegate.errors import UnsupportedTable
from tidegate.rows.descriptor import Column, TableDescriptor


def public_columns(table: TableDescriptor) -> list[Column]:
    """The columns that a row has datums for, in the order of ``Row.values``."""
    return [column for column in table.columns if column.public]


def row_members(table: TableDescriptor, options: FeedOptions, offset: int = 0) -> list[Member]:
    """The members of a whole row whose first datum stands at ``offset``; what goes into headers is left out.

    Raises ``UnsupportedTable`` for a column that has no JSON text.
    """
    return [
        datum(column.name, position, column_text(table, column))
        for position, column in enumerate(public_columns(table), start=offset)
        if column.name != options.headers_json_column_name
    ]


def key_only_members(table: TableDescriptor, options: FeedOptions) -> list[Member]:
    """The members of a deleted row whose datums are those of its primary key; all others are null."""
    positions = {part.column_id: position for position, part in enumerate(table.primary_key)}
    return [
        datum(column.name, positions[column.id], column_text(table, column))
        if column.id in positions
        else constant(column.name, NULL)
        for column in public_columns(table)
        if column.name != options.headers_json_column_name
    ]


def column_text(table: TableDescriptor, column: Column) -> TextEncoder:
    """What prints a column's datums. Raises ``UnsupportedTable`` with the names of table and column."""
    try:
        return text_encoder(column.type)
    except UnsupportedTable as error:
        raise UnsupportedTable(f"table {table.name}, column {column.name}: {error}") from None


def named_column(table: TableDescriptor, name: str, option: str) -> tuple[int, Column]:
    """The column that an option names, with its position in a row's datums.

    Raises ``UnsupportedTable`` with the names that there are.
    """
    columns = public_columns(table)
    for position, column in enumerate(columns):
        if column.name == name:
            return position, column
    raise UnsupportedTable(
        f"table {table.name} has no column {name}, which {option} names; its columns are "
        f"{', '.join(column.name for column in columns)}"
    )
