"""The columns of loaded tables: their names, their Arrow types, and the conversion of records' values.

| SQL | Arrow, and Parquet |
|---|---|
| BOOL | boolean |
| INT | 64-bit integer |
| FLOAT | double |
| DECIMAL(p,s) with p at most 38 | decimal(p,s); NaN and the infinities have no form |
| BYTES | binary |
| DATE | date; those outside the years 1 to 9999 have no form |
| TIMESTAMP | timestamp in microseconds, without a zone; the same years |
| TIMESTAMPTZ | timestamp in microseconds, UTC; the same years |
| ARRAY | a list of these |
| GEOMETRY, GEOGRAPHY with Avro | binary: EWKB |
| BIT with Avro | refused |
| JSONB | string: JSON text, strings in quotes |
| everything else | string: the text that a JSON feed has |

A value without a form stops the load with a sentence. With ``as_text`` a column of a JSON feed is loaded as a
string instead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from operator import index
from typing import Any, Final, TypeAlias

import pyarrow as pa

from tidegate.changefeed.definition.options import FeedOptions, Format, VirtualColumns
from tidegate.changefeed.encoding.envelopes.registry import form_of
from tidegate.changefeed.text.datum_text import time_text
from tidegate.changefeed.text.json_text import json_value
from tidegate.errors import InputError, RowError, UnsupportedTable
from tidegate.rows.descriptor import Column, TableDescriptor
from tidegate.rows.sql_type import parse_sql_type, sql_type_text
from tidegate.rows.types import Kind, SqlType

#: Converts a record's value to the column's type; ``None`` when no conversion is needed. Never called for
#: NULL.
Convert: TypeAlias = Callable[[Any], Any] | None

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
_MAX_DECIMAL_DIGITS: Final = 38
#: Types whose equal values have one form, in a row as well as in the key of a deletion.
_KEYS: Final = frozenset(
    {Kind.BOOL, Kind.INT, Kind.STRING, Kind.BYTES, Kind.ENUM, Kind.UUID, Kind.INET, Kind.DATE, Kind.TIME}
    | {Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.DECIMAL, Kind.PG_LSN}
)
_TEXT: Final = "text"
_EPOCH: Final = datetime(1970, 1, 1)
_MICROSECOND: Final = timedelta(microseconds=1)


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

    def schema(self, record_format: Format) -> pa.Schema:
        """Return the Arrow schema of a table of current rows, without the commit times."""
        return pa.schema([pa.field(column.name, _form(column, record_format)[0]) for column in self.columns])

    def grown(self, others: Columns, table: str) -> Columns:
        """Return these columns and the new ones among ``others``.

        Raises ``InputError`` for a column whose type has changed, and for another primary key.
        """
        known = {column.name: column.type for column in self.columns}
        for column in others.columns:
            was = known.setdefault(column.name, column.type)
            if was != column.type:
                raise InputError(
                    f"The column {column.name} of {table} was {was} and is {column.type}: one table cannot"
                    " hold both. Begin a new load in another directory, with"
                    f" `--as-text {table}.{column.name}` to have both as text."
                )
        if self.key != others.key:
            raise InputError(
                f"The primary key of {table} was {', '.join(self.key)} and is {', '.join(others.key)}: begin"
                " a new load in another directory, from a new feed with an initial scan."
            )
        return Columns(self.key, tuple(LoadedColumn(*each) for each in known.items()))


def columns_of(
    versions: Sequence[TableDescriptor], options: FeedOptions, as_text: Collection[str] = ()
) -> Columns:
    """Return the columns of a feed's records of a table, over all versions of its descriptor.

    Raises ``UnsupportedTable`` for a table that cannot be loaded, ``InputError`` for a column of several
    types.
    """
    found: Columns | None = None
    for version in versions:
        columns = _columns_of(version, options, as_text)
        found = columns if found is None else found.grown(columns, version.name)
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
    exact = column.type.kind is not Kind.DECIMAL or 0 < column.type.width <= _MAX_DECIMAL_DIGITS
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
    return [
        _array(column, _values(column.name, at.get(column.name), rows), record_format)
        for column in columns.columns
    ]


def _values(
    name: str, position: int | None, rows: Sequence[tuple[tuple[Any, ...], Mapping[str, Any] | None]]
) -> list[Any]:
    """Return the values of a column. A deletion has values in the columns of its key only."""
    if position is None:
        return [None if row is None else row.get(name) for _, row in rows]
    return [key[position] if row is None else row.get(name, key[position]) for key, row in rows]


def _array(column: LoadedColumn, values: Sequence[Any], record_format: Format) -> pa.Array:
    form, convert = _form(column, record_format)
    if convert is None:
        return _converted(column, values, form)
    value: Any = None
    converted = []
    try:
        for value in values:
            converted.append(None if value is None else convert(value))
    except (ValueError, TypeError, ArithmeticError) as error:
        raise _formless(column, value, error) from None
    return _converted(column, converted, form)


def _converted(column: LoadedColumn, values: Sequence[Any], form: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, form)
    except (pa.ArrowException, OverflowError) as error:  # the error does not say which value it is
        for value in values:
            try:
                pa.array([value], form)
            except (pa.ArrowException, OverflowError):
                raise _formless(column, value, error) from None
        raise


def _formless(column: LoadedColumn, value: Any, error: Exception) -> RowError:
    return RowError(
        f"the column {column.name} of type {column.type} has the value {value!r}, which has no form in the"
        f" table ({error}): begin a new load in another directory that loads it with --as-text"
    )


def _form(column: LoadedColumn, record_format: Format) -> tuple[pa.DataType, Convert]:
    if column.type == _TEXT and record_format is Format.AVRO:
        raise UnsupportedTable("is to be loaded as text, which JSON feeds alone have of everything")
    if column.type == _TEXT:
        return pa.string(), _text
    return _form_of(_parsed(column.type), record_format)


def _parsed(text: str) -> SqlType:
    if text.endswith("[]"):
        return SqlType(Kind.ARRAY, element=_parsed(text[:-2]))
    try:
        return parse_sql_type(text)
    except InputError:
        return SqlType(Kind.ENUM, name=text)  # only the name of a type: an enum


def _form_of(sql_type: SqlType, record_format: Format) -> tuple[pa.DataType, Convert]:
    match sql_type.kind:
        case Kind.ARRAY if sql_type.element is not None:
            item, convert = _form_of(sql_type.element, record_format)
            return pa.list_(item), None if convert is None else partial(_items, convert)
        case Kind.DECIMAL if 0 < sql_type.width <= _MAX_DECIMAL_DIGITS:
            return pa.decimal128(sql_type.width, sql_type.scale), Decimal
        case Kind.GEOMETRY | Kind.GEOGRAPHY if record_format is Format.AVRO:
            return pa.binary(), bytes
        case Kind.JSONB if record_format is Format.JSON:
            return pa.string(), _json_text
        case Kind.BIT if record_format is Format.AVRO:
            raise UnsupportedTable(
                f"is of type {sql_type_text(sql_type)}, which is loaded of JSON feeds alone"
            )
    return _FORMS.get(sql_type.kind, (pa.string(), _text))


def _items(convert: Callable[[Any], Any], values: Sequence[Any]) -> list[Any]:
    return [None if each is None else convert(each) for each in values]


def _text(value: Any) -> str:
    """Return a value as a JSON feed prints it, strings without quotes. Avro's values are texts already."""
    return value if isinstance(value, str) else _json_text(value)


def _json_text(value: Any) -> str:
    return json_value(_exact(value))


def _exact(value: Any) -> Any:
    """Return a JSON value with every number as a ``Decimal``."""
    match value:
        case None | bool() | str() | Decimal():
            return value
        case int():
            return Decimal(value)
        case list():
            return [_exact(each) for each in value]
        case dict():
            return {name: _exact(each) for name, each in value.items()}
    raise TypeError("not a value of JSON")


def _binary(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str) or not value.startswith("\\x"):
        raise ValueError("bytes begin with \\x")
    return bytes.fromhex(value[2:])


def _date(value: Any) -> date:
    """Return a date from its text, from an Avro date, or from a number of days since 1970-01-01.

    An Avro record has numbers for all of its dates and times when one of them is outside Python's calendar.
    """
    if isinstance(value, int):
        return _EPOCH.date() + timedelta(days=value)
    return value if isinstance(value, date) else date.fromisoformat(value)


def _time(value: Any) -> str:
    """Return the text of a time of day.

    Avro's record may have microseconds since midnight instead of a time.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, time):
        since = timedelta(hours=value.hour, minutes=value.minute, seconds=value.second)
        value = since // _MICROSECOND + value.microsecond
    return time_text(value)


def _timestamp(value: Any) -> datetime:
    """Return a timestamp without a zone. Avro's are in UTC, or numbers of microseconds since 1970-01-01."""
    if isinstance(value, int):
        return _EPOCH + value * _MICROSECOND
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    return datetime.fromisoformat(value)


def _timestamptz(value: Any) -> datetime:
    """Return a timestamp in UTC. Its text ends in ``Z``."""
    if isinstance(value, int):
        return _timestamp(value).replace(tzinfo=UTC)
    return value if isinstance(value, datetime) else datetime.fromisoformat(value)


_FORMS: Final[dict[Kind, tuple[pa.DataType, Convert]]] = {
    Kind.BOOL: (pa.bool_(), None),
    Kind.INT: (pa.int64(), index),  # pyarrow would cut a fraction off
    Kind.STRING: (pa.string(), None),
    Kind.FLOAT: (pa.float64(), float),
    Kind.BYTES: (pa.binary(), _binary),
    Kind.DATE: (pa.date32(), _date),
    Kind.TIME: (pa.string(), _time),
    Kind.TIMESTAMP: (pa.timestamp("us"), _timestamp),
    Kind.TIMESTAMPTZ: (pa.timestamp("us", "UTC"), _timestamptz),
}
