"""Keys as Avro: a record of the primary key's columns, or of the column that ``key_column`` names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tidegate.changefeed.definition.feed import TableName
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.definition.table_topics import key_subject
from tidegate.changefeed.encoding.avro.body import key_writer
from tidegate.changefeed.encoding.avro.row_record import RowRecordType, row_record
from tidegate.changefeed.encoding.avro.schema_text import label_name, namespace_of, schema_text
from tidegate.changefeed.encoding.columns import index_in_key, named_column
from tidegate.changefeed.encoding.confluent import SubjectSchema
from tidegate.changefeed.encoding.key_precision import AVRO_KEYS, of_whole_keys
from tidegate.changefeed.encoding.row_templates import Body, RowPart
from tidegate.rows.descriptor import Column, TableDescriptor
from tidegate.rows.row import Row
from tidegate.rows.types import Datum

WriteKey: TypeAlias = Callable[[Row], bytes]
_KeyDatums: TypeAlias = Callable[[Row], tuple[Datum, ...]]


def key_templates(table: TableDescriptor, options: FeedOptions) -> tuple[Body, Body]:
    """Return the template of the key of a present row, and that of the key of a deletion."""
    pieces = _record(table, options).pieces
    if not options.key_column:
        primary = Body(pieces(RowPart.KEY, range(len(table.primary_key))))
        return primary, primary
    position, column = named_column(table, options.key_column, "key_column")
    return Body(pieces(RowPart.VALUES, [position])), Body(pieces(RowPart.KEY, [index_in_key(table, column)]))


def compile_key(table: TableDescriptor, options: FeedOptions) -> tuple[SubjectSchema, WriteKey]:
    """Return the schema of a table's keys, and their writer.

    Raises ``UnsupportedTable`` for a table whose key has no Avro form.

    The writer raises ``RowError`` for keys that would become the same as others.
    """
    name = TableName.of(table)
    columns, datums = _columns(table, options)
    record = _record(table, options)
    schema = SubjectSchema(key_subject(name, options), schema_text(record.schema))
    names = [column.name for column in columns]
    write, fill = key_writer(schema.text, table.name, names), record.fill

    def encode(row: Row) -> bytes:
        return write(fill(datums(row)))

    return schema, encode if options.key_column else of_whole_keys(table, AVRO_KEYS, encode)


def _record(table: TableDescriptor, options: FeedOptions) -> RowRecordType:
    name, (columns, _) = TableName.of(table), _columns(table, options)
    return row_record(table, columns, label_name(name, options), namespace_of(name, options))


def _columns(table: TableDescriptor, options: FeedOptions) -> tuple[list[Column], _KeyDatums]:
    if options.key_column:
        return _named_column(table, options.key_column)
    by_id = {column.id: column for column in table.columns}
    return [by_id[part.column_id] for part in table.primary_key], lambda row: row.key


def _named_column(table: TableDescriptor, name: str) -> tuple[list[Column], _KeyDatums]:
    """Return the column, and a function that gives its datum.

    The datum of a deletion is known only if the column is in the primary key; otherwise it is null.
    """
    position, column = named_column(table, name, "key_column")
    index = index_in_key(table, column)

    def datums(row: Row) -> tuple[Datum, ...]:
        if row.values is not None:
            return (row.values[position],)
        return (None if index is None else row.key[index],)

    return [column], datums
