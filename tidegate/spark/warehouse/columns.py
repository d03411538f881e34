"""The columns of loaded tables: their names, their Arrow types, and the conversion of records' values.

The types and the conversion are those of `tidegate.changefeed.encoding.arrow_types`.

A value without a form stops the load with a sentence. With ``as_text`` a column of a JSON feed is loaded as a
string instead.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from tidegate.changefeed.definition.options import FeedOptions, Format, VirtualColumns
from tidegate.changefeed.encoding.arrow_types import (
    MAX_DECIMAL_DIGITS,
    TEXT_FORM,
    ArrowForm,
    arrow_array,
    arrow_form,
    parsed_type,
)
from tidegate.changefeed.encoding.envelopes.registry import form_of
from tidegate.errors import InputError, UnsupportedTable
from tidegate.rows.descriptor import Column, TableDescriptor
from tidegate.rows.sql_type import sql_type_text
from tidegate.rows.types import Kind

#: The columns of every table of changes, beside those of its rows.
BUCKET, WALL, LOGICAL = "_bucket", "_wall", "_logical"
DELETED, MVCC, PARTITION, OFFSET = "_deleted", "_mvcc_timestamp", "_partition", "_offset"
META: Final = (
    pa.field(BUCKET, pa.timestamp("us", "UTC")),
    pa.field(WALL, pa.int64()),
    pa.field(LOGICAL, pa.int32()),
    pa.field(DELETED, pa.bool_()),
    pa.field(MVCC, pa.string()),
    pa.field(PARTITION, pa.int32()),
    pa.field(OFFSET, pa.int64()),
)
_META_NAMES: Final = frozenset(field.name for field in META)
#: Types whose equal values have one form, in a row as well as in the key of a deletion.
_KEYS: Final = frozenset(
    {Kind.BOOL, Kind.INT, Kind.STRING, Kind.BYTES, Kind.ENUM, Kind.UUID, Kind.INET, Kind.DATE, Kind.TIME}
    | {Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.DECIMAL, Kind.PG_LSN}
)
#: Types of these kinds have one form whatever their width or precision, so one column can hold all of them.
_OF_ANY_WIDTH: Final = frozenset(
    {Kind.BIT, Kind.ENUM, Kind.INT, Kind.INTERVAL, Kind.STRING, Kind.TIME, Kind.TIMETZ}
    | {Kind.TIMESTAMP, Kind.TIMESTAMPTZ}
)
_TEXT: Final = "text"
#: The advice for a column whose values have no form in a loaded table; ``column`` is its name.
_BY_LOAD: Final = "begin a new load in another directory, with --as-text {table}.{column}"


@dataclass(frozen=True, slots=True)
class LoadedColumn:
    """A column of a loaded table.

    ``type`` is the text of its SQL type, or ``text`` for a column that is loaded as the feed prints it.
    """

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a table's rows, in table order.

    ``key`` names the columns of its primary key, in the order in which records have their values.
    """

    key: tuple[str, ...]
    columns: tuple[LoadedColumn, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all columns."""
        return tuple(column.name for column in self.columns)

    @property
    def texts(self) -> frozenset[str]:
        """The names of the columns that are loaded as text."""
        return frozenset(column.name for column in self.columns if column.type == _TEXT)

    def schema(self, record_format: Format) -> pa.Schema:
        """Return the Arrow schema of a table of current rows, without the commit times."""
        return pa.schema([pa.field(column.name, _form(column, record_format)[0]) for column in self.columns])

    def grown(self, others: Columns, table: str, advice: str = _BY_LOAD) -> Columns:
        """Return these columns and the new ones among ``others``.

        Raises ``InputError`` for a column whose type has become one with another form, and for another
        primary key.
        """
        known = {column.name: column.type for column in self.columns}
        for column in others.columns:
            was = known.setdefault(column.name, column.type)
            if not _holds(was, column.type):
                raise InputError(
                    f"The column {column.name} of {table} was {was} and is {column.type}: one table cannot"
                    f" hold both. To have both as text, {advice.format(table=table, column=column.name)}."
                )
        if self.key != others.key:
            raise InputError(
                f"The primary key of {table} was {', '.join(self.key)} and is {', '.join(others.key)}: begin"
                " a new load in another directory, from a new feed with an initial scan."
            )
        _require_names(table, known)
        return Columns(self.key, tuple(LoadedColumn(*each) for each in known.items()))


def _holds(was: str, new: str) -> bool:
    """Return whether a column of the type ``was`` can hold values of ``new``, with the same meaning.

    A column that was text when the load began stays so.
    """
    if was in (new, _TEXT) or new == _TEXT:
        return was in (new, _TEXT)
    before, after = parsed_type(was), parsed_type(new)
    if before.element is not None and after.element is not None:
        before, after = before.element, after.element
    return before.kind is after.kind and before.kind in _OF_ANY_WIDTH


def columns_of(
    versions: Sequence[TableDescriptor],
    options: FeedOptions,
    as_text: Collection[str] = (),
    advice: str = _BY_LOAD,
) -> Columns:
    """Return the columns of a feed's records of a table, over all versions of its descriptor.

    ``advice`` says how to have a column as text. Raises ``UnsupportedTable`` for a table that cannot be
    loaded, ``InputError`` for a column of several types.
    """
    found: Columns | None = None
    for version in versions:
        columns = _columns_of(version, options, as_text)
        found = columns if found is None else found.grown(columns, version.name, advice)
    if found is None:
        raise UnsupportedTable("a table without a descriptor")
    return found


def _columns_of(table: TableDescriptor, options: FeedOptions, as_text: Collection[str]) -> Columns:
    by_id = {column.id: column for column in table.columns}
    key = [by_id[part.column_id] for part in table.primary_key]
    for column in key:
        _require_key(table, column)
    in_key = {column.id for column in key}
    shown = [
        LoadedColumn(column.name, _TEXT if column.name in as_text else sql_type_text(column.type))
        for column in table.columns
        if column.id in in_key or (column.public and _in_payload(column, options))
    ]
    _require_names(table.name, [column.name for column in shown])
    for each in shown:
        _require_form(table.name, each, options.format)
    names = [column.name for column in key]
    if options.format is Format.JSON and form_of(options.envelope).keys.is_object:
        names.sort(key=str.encode)  # keys are JSON objects there, whose members are sorted
    return Columns(tuple(names), tuple(shown))


def _in_payload(column: Column, options: FeedOptions) -> bool:
    if column.name == options.headers_json_column_name:
        return False
    return not column.virtual or options.virtual_columns is VirtualColumns.NULL


def _require_key(table: TableDescriptor, column: Column) -> None:
    exact = column.type.kind is not Kind.DECIMAL or 0 < column.type.width <= MAX_DECIMAL_DIGITS
    if column.type.kind not in _KEYS or not exact:
        raise UnsupportedTable(
            f"{table.name} has {column.name} in its primary key, of type {sql_type_text(column.type)}: a row"
            " and its deletion may print such a value in two ways, so its rows cannot be told apart. Load the"
            " other tables of the feed without it."
        )


def _require_names(table: str, names: Iterable[str]) -> None:
    seen: dict[str, str] = {name: name for name in _META_NAMES}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if name in _META_NAMES or other != name:
            raise UnsupportedTable(
                f"{table} has a column {name}, and tables that are loaded have {other}: Spark and Delta do"
                " not tell names apart by case. Rename it, or load the other tables of the feed without it."
            )


def _require_form(table: str, column: LoadedColumn, record_format: Format) -> None:
    try:
        _form(column, record_format)
    except UnsupportedTable as error:
        raise UnsupportedTable(f"{table} has a column {column.name} that {error}") from None


def rows_to_arrays(
    columns: Columns, record_format: Format, rows: Sequence[tuple[tuple[Any, ...], Mapping[str, Any] | None]]
) -> list[pa.Array]:
    """Return the columns of these rows.

    A row is given as its key and its members, a deletion as its key and ``None``. Raises ``RowError`` for a
    value that has no form.
    """
    at = {name: position for position, name in enumerate(columns.key)}
    return columns_to_arrays(
        columns, record_format, [_values(name, at.get(name), rows) for name in columns.names]
    )


def columns_to_arrays(
    columns: Columns, record_format: Format, values: Sequence[Sequence[Any]], advice: str = _BY_LOAD
) -> list[pa.Array]:
    """Return the values of each column as an array. Raises ``RowError`` for a value that has no form."""
    return [
        arrow_array(
            column.name,
            column.type,
            _form(column, record_format),
            each,
            advice.format(table="<topic>", column=column.name),
        )
        for column, each in zip(columns.columns, values, strict=True)
    ]


def _values(
    name: str, position: int | None, rows: Sequence[tuple[tuple[Any, ...], Mapping[str, Any] | None]]
) -> list[Any]:
    """Return the values of a column. A deletion has values in the columns of its key only.

    A row may lack a virtual column of its key, or have NULL there, so such values are taken from the key.
    """
    if position is None:
        return [None if row is None else row.get(name) for _, row in rows]
    return [key[position] for key, _ in rows]


def _form(column: LoadedColumn, record_format: Format) -> ArrowForm:
    if column.type == _TEXT and record_format is Format.AVRO:
        raise UnsupportedTable("cannot be loaded as text: only a JSON feed has a text of every value")
    if column.type == _TEXT:
        return TEXT_FORM
    return arrow_form(parsed_type(column.type), record_format)
