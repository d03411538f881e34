"""A table's columns as members of an object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.encoding.columns import public_columns, shown_columns
from tidegate.changefeed.encoding.json.template import NULL, constant, datum
from tidegate.changefeed.encoding.row_templates import Member
from tidegate.changefeed.text.json_text import TextEncoder, text_encoder
from tidegate.errors import UnsupportedTable
from tidegate.rows.descriptor import Column, TableDescriptor
from tidegate.rows.types import Kind

#: The text of JSON null where it must not look like SQL NULL.
JSON_NULL_OBJECT: Final = '{"__crdb_json_null__": true}'


def row_members(table: TableDescriptor, options: FeedOptions, first: int = 0) -> list[Member]:
    """Return the members of a whole row whose first datum has the position ``first``.

    A column for headers is left out. Raises ``UnsupportedTable`` for a column that has no JSON text.
    """
    positions = {column.id: at for at, column in enumerate(public_columns(table), start=first)}
    return _members(table, options, positions)


def key_only_members(table: TableDescriptor, options: FeedOptions) -> list[Member]:
    """Return the members of a deleted row, whose datums are those of its primary key.

    The members of all other columns are null.
    """
    positions = {part.column_id: position for position, part in enumerate(table.primary_key)}
    return _members(table, options, positions)


def _members(table: TableDescriptor, options: FeedOptions, positions: Mapping[int, int]) -> list[Member]:
    """Return a member for each column that the feed shows.

    ``positions`` has the position of each column's datum, by the column's id. A column that is not there is
    null.
    """
    return [
        datum(column.name, positions[column.id], column_text(table, column, options))
        if column.id in positions and not column.virtual
        else constant(column.name, NULL)
        for column in shown_columns(table, options)
    ]


def column_text(table: TableDescriptor, column: Column, options: FeedOptions) -> TextEncoder:
    """Return a printer of a column's datums.

    Raises ``UnsupportedTable`` with the names of table and column.
    """
    try:
        text = text_encoder(column.type)
    except UnsupportedTable as error:
        raise UnsupportedTable(f"table {table.name}, column {column.name}: {error}") from None
    if options.encode_json_value_null_as_object and column.type.kind is Kind.JSONB:
        return _json_null_as_object(text)
    return text


def _json_null_as_object(text: TextEncoder) -> TextEncoder:
    """Return a printer that distinguishes JSON null from SQL NULL.

    A null inside an array or an object needs no such printer: it differs from SQL NULL already. JSON null and
    a document that is exactly ``JSON_NULL_OBJECT`` are printed alike. CockroachDB logs a warning for such a
    document; source: ``pkg/ccl/changefeedccl/encoder_json.go``, ``datumToJSON``.
    """
    return lambda datum: JSON_NULL_OBJECT if datum.value is None else text(datum)
