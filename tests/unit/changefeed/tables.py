"""Table descriptors for tests, from column names and SQL type names."""

from __future__ import annotations

from dataclasses import replace

from tidegate.changefeed.definition.options import Envelope, FeedOptions
from tidegate.hlc import Timestamp
from tidegate.rows.descriptor import Column, Family, KeyPart, TableDescriptor
from tidegate.rows.row import Row, Unreadable
from tidegate.rows.types import Datum, Kind, SqlType

MODIFIED = Timestamp(1)


def table(
    name: str, columns: dict[str, SqlType], key: tuple[str, ...], hidden: tuple[str, ...] = ()
) -> TableDescriptor:
    """A single-family table with these columns in this order."""
    ids = {column: number for number, column in enumerate(columns, start=1)}
    return TableDescriptor(
        id=104,
        name=name,
        version=1,
        modified=MODIFIED,
        columns=tuple(
            Column(ids[column], column, sql_type, nullable=column not in key, hidden=column in hidden)
            for column, sql_type in columns.items()
        ),
        primary_key=tuple(KeyPart(ids[column]) for column in key),
        families=(Family(0, "primary", tuple(ids.values())),),
    )


def with_virtual(descriptor: TableDescriptor, name: str) -> TableDescriptor:
    """The table with this column virtual."""
    columns = [replace(each, virtual=True) if each.name == name else each for each in descriptor.columns]
    return replace(descriptor, columns=tuple(columns))


def row(descriptor: TableDescriptor, **values: Datum) -> Row:
    """A new row with every column given by name."""
    by_id = {column.id: values[column.name] for column in descriptor.columns}
    key = tuple(by_id[part.column_id] for part in descriptor.primary_key)
    datums = tuple(by_id[column.id] for column in descriptor.columns if column.in_rows)
    return Row(descriptor, key, datums, previous=())


def update(before: Row, after: Row) -> Row:
    """The change of one row into another of the same key."""
    assert before.key == after.key
    return after._replace(previous=before.values)


def deletion(descriptor: TableDescriptor, *key: Datum) -> Row:
    """The deletion of a row with this primary key that was not there."""
    return Row(descriptor, key, None, previous=())


def deletion_of(before: Row) -> Row:
    """The deletion of a row."""
    return before._replace(values=None, previous=before.values)


INT = SqlType(Kind.INT)
STRING = SqlType(Kind.STRING)
FOO = table("foo", {"a": INT, "b": STRING}, key=("a",))


def shown_previous(row: Row, options: FeedOptions) -> tuple[Datum, ...] | None:
    """Return what a record shows of the row before: in the debezium envelope a deletion of nothing shows its
    key."""
    previous = row.previous
    assert not isinstance(previous, Unreadable)
    if previous != () or row.values is not None or options.envelope is not Envelope.DEBEZIUM:
        return previous
    key = dict(zip((part.column_id for part in row.table.primary_key), row.key, strict=True))
    return tuple(key.get(column.id) for column in row.table.columns)
