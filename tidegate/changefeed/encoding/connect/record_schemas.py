"""The schemas of a table's records in Kafka Connect: key, row, and Debezium's envelope of rows.

Names are as Debezium gives them, with the topic as the namespace: ``<topic>.Key``, ``<topic>.Value``,
``<topic>.Envelope``. Debezium's sinks distinguish a change from a row by the ending ``.Envelope``. The
columns of a key are never null, because sinks make a primary key of them. All columns of a row may be null,
so that columns can be added and dropped. Source: Debezium ``Envelope``, ``TopicNamingStrategy`` and
``KafkaDebeziumSinkRecord``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from tidegate.changefeed.definition.feed import TableName
from tidegate.changefeed.definition.names import avro_name
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.definition.table_topics import table_topic
from tidegate.changefeed.encoding.columns import index_in_key, named_column, public_columns
from tidegate.changefeed.encoding.connect.schema import Field, Schema, struct
from tidegate.changefeed.encoding.connect.types import ColumnType, Convert, column_type, key_column_type
from tidegate.changefeed.encoding.key_fault import require_names_of_rows
from tidegate.changefeed.encoding.key_precision import CONNECT_KEYS, of_whole_keys
from tidegate.errors import RowError, UnsupportedTable
from tidegate.rows.descriptor import Column, TableDescriptor
from tidegate.rows.row import Row
from tidegate.rows.types import Datum, SqlType

_INT64: Final = Schema("int64")
_STRING: Final = Schema("string")
#: What an envelope says of the origin of a row.
SOURCE: Final = struct(
    "tidegate.Source",
    *(Field(name, _STRING, optional=False) for name in ("version", "connector", "name", "snapshot")),
    *(Field(name, _STRING, optional=False) for name in ("db", "schema", "table", "ts_hlc")),
    *(Field(name, _INT64, optional=False) for name in ("ts_ms", "ts_ns")),
)


class ConnectColumn(NamedTuple):
    """A column of a struct: the position of its datum, its name, and its Connect type."""

    position: int
    name: str
    type: ColumnType

    def field(self, *, optional: bool = True) -> Field:
        """Return the column as a field."""
        return Field(self.name, self.type.schema, optional)


class Key(NamedTuple):
    """A record's key: its columns, with their positions in what ``datums`` returns for a row."""

    columns: tuple[ConnectColumn, ...]
    datums: Callable[[Row], tuple[Datum, ...]]
    schema: Schema


def key_of(table: TableDescriptor, options: FeedOptions) -> Key:
    """Return the primary key in index order, or the column that ``key_column`` names.

    Raises ``UnsupportedTable`` for a column that Kafka Connect has no type for, or that the table does not
    have, and for a collated string in the primary key.
    """
    if options.key_column:
        return _column_key(table, options)
    require_names_of_rows(table)
    by_id = {column.id: column for column in table.columns}
    parts = [by_id[part.column_id] for part in table.primary_key]
    columns = tuple(
        ConnectColumn(at, part.name, _type(table, part, key_column_type)) for at, part in enumerate(parts)
    )
    datums = of_whole_keys(table, CONNECT_KEYS, attrgetter("key"))
    return Key(columns, datums, _key_schema(table, options, columns))


def _column_key(table: TableDescriptor, options: FeedOptions) -> Key:
    """Return the key of ``key_column``.

    A deletion has the column's value only if the column is in the primary key.
    """
    position, column = named_column(table, options.key_column, "key_column")
    columns = (ConnectColumn(0, column.name, _type(table, column, key_column_type)),)
    index = index_in_key(table, column)
    if index is not None:
        return Key(columns, lambda row: (row.key[index],), _key_schema(table, options, columns))
    schema = _key_schema(table, options, columns, optional=True)
    return Key(columns, lambda row: (None if row.values is None else row.values[position],), schema)


def _key_schema(
    table: TableDescriptor,
    options: FeedOptions,
    columns: Sequence[ConnectColumn],
    *,
    optional: bool = False,
) -> Schema:
    return struct(
        f"{_namespace(table, options)}.Key", *(column.field(optional=optional) for column in columns)
    )


def row_columns(table: TableDescriptor, options: FeedOptions) -> list[ConnectColumn]:
    """Return the columns of a row by their positions in ``Row.values``. A column for headers is left out.

    Raises ``UnsupportedTable`` for a column that Kafka Connect has no type for.
    """
    return [
        ConnectColumn(position, column.name, _type(table, column, column_type))
        for position, column in enumerate(public_columns(table))
        if column.name != options.headers_json_column_name
    ]


def value_schema(
    table: TableDescriptor, options: FeedOptions, columns: Sequence[ConnectColumn], *, change: bool
) -> Schema:
    """Return the schema of a record's value: that of the row, or of the ``change`` around it."""
    namespace = _namespace(table, options)
    row = struct(f"{namespace}.Value", *(column.field() for column in columns))
    if not change:
        return row
    return struct(
        f"{namespace}.Envelope",
        Field("before", row),
        Field("after", row),
        Field("source", SOURCE, optional=False),
        Field("op", _STRING, optional=False),
        Field("ts_ms", _INT64),
    )


def compile_before(table: TableDescriptor) -> Callable[[Row, tuple[Datum, ...]], tuple[Datum, ...]]:
    """Return a function that returns the datums of ``before``, empty if there is no row before.

    It takes a row, and the datums that the row replaced. The deletion of a row that was not there shows the
    columns of its key. Debezium's connectors write such a deletion when they know no more of the row.
    Debezium's sink stops at a deletion without ``before``.
    """
    index = {part.column_id: at for at, part in enumerate(table.primary_key)}
    places = [index.get(column.id) for column in public_columns(table)]

    def before(row: Row, previous: tuple[Datum, ...]) -> tuple[Datum, ...]:
        if previous or row.values is not None:
            return previous
        return tuple(None if at is None else row.key[at] for at in places)

    return before


def namespace_of(topic: str) -> str:
    """Return the topic's name as the namespace of schemas, in characters that every format accepts."""
    parts = topic.split(".")
    return ".".join(map(avro_name, parts)) if all(parts) else avro_name(topic)


def located(
    table_name: str,
    columns: Sequence[ConnectColumn],
    converts: Sequence[Convert | None],
    datums: Sequence[Datum],
    error: RowError,
) -> RowError:
    """Return the error of a row that could not be converted, with the names of table and column.

    Conversion does not keep track of the column. So a row that failed is converted again, column by column,
    to find the column.
    """
    for column, convert in zip(columns, converts, strict=True):
        datum = datums[column.position]
        try:
            if datum is not None and convert is not None:
                convert(datum)
        except RowError as cause:
            return RowError(f"table {table_name}, column {column.name}: {cause}; the feed fails")
    return error


def _namespace(table: TableDescriptor, options: FeedOptions) -> str:
    return namespace_of(table_topic(TableName.of(table), options))


def _type(table: TableDescriptor, column: Column, type_of: Callable[[SqlType], ColumnType]) -> ColumnType:
    try:
        return type_of(column.type)
    except UnsupportedTable as error:
        raise UnsupportedTable(f"table {table.name}, column {column.name}: {error}") from None
