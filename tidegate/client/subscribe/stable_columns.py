"""Checks that columns and the primary key mean the same in all rows of a topic.

Rows have names of columns, and no ids. A table whose columns were renamed, or dropped and added again, has
rows in which one name means two columns, or one column has two names: such rows do not make one table.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from tidegate.changefeed.definition.feed import TableName
from tidegate.changefeed.definition.options import FeedOptions, Format
from tidegate.changefeed.encoding.avro.column_definition import column_definition
from tidegate.changefeed.encoding.columns import shown_columns
from tidegate.changefeed.encoding.envelopes.registry import form_of
from tidegate.errors import SchemaMismatch
from tidegate.hlc import Timestamp
from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.types import Kind, SqlType

#: The types whose equal values may have several forms in records (composite types), if a reader of records
#: can reduce these to one form.
_COMPOSITE: Final = {
    Format.JSON: frozenset({Kind.DECIMAL, Kind.FLOAT}),
    Format.AVRO: frozenset({Kind.FLOAT}),
    Format.CSV: frozenset[Kind](),
}
_BEGIN_ANEW: Final = "Create a new feed WITH initial_scan on topics of its own, and subscribe to that"


def versions_since(versions: Sequence[TableDescriptor], since: Timestamp) -> Sequence[TableDescriptor]:
    """Return the versions that rows at or above a timestamp may have. ``versions`` has the newest last."""
    return versions[max(bisect_right(versions, since, key=lambda each: each.modified) - 1, 0) :]


def require_stable_columns(
    table: TableName,
    versions: Sequence[TableDescriptor],
    options: FeedOptions,
    advice: str = _BEGIN_ANEW,
) -> None:
    """Raise ``SchemaMismatch`` if the versions show a column under two names, or two under one name.

    ``advice`` says what to do then, without a full stop.
    """
    ids: dict[str, int] = {}
    names: dict[int, str] = {}
    for version in versions:
        for column in shown_columns(version, options):
            if names.setdefault(column.id, column.name) != column.name:
                fault = f"The column {names[column.id]} of {table} was renamed to {column.name}"
                raise _unstable(fault, version, advice)
            if ids.setdefault(column.name, column.id) != column.id:
                fault = f"The column {column.name} of {table} was dropped and added again"
                raise _unstable(fault, version, advice)


def require_stable_key(
    table: TableName,
    versions: Sequence[TableDescriptor],
    options: FeedOptions,
    advice: str = _BEGIN_ANEW,
) -> None:
    """Raise ``SchemaMismatch`` if the versions have several primary keys.

    Nobody can tell whether a row of the older key and one of the newer key are the same row.
    """
    shows_names = options.format is Format.AVRO or form_of(options.envelope).keys.is_object
    keys: dict[tuple[int | str, ...], list[str]] = {}
    for version in versions:
        names = {column.id: column.name for column in version.columns}
        ids = [part.column_id for part in version.primary_key]
        named = [names[each] for each in ids]
        keys[(*ids, *named) if shows_names else tuple(ids)] = named
        if len(keys) > 1:
            was, new = keys.values()
            fault = f"The primary key of {table} was {', '.join(was)} and is {', '.join(new)}"
            raise _unstable(fault, version, advice, "by their keys")


def require_key_types(table: TableName, versions: Sequence[TableDescriptor], options: FeedOptions) -> None:
    """Raise ``SchemaMismatch`` if keys are in Avro, and a column of the primary key has several types.

    A reader that tells rows apart by the bytes of their keys needs one type: an Avro key begins with the
    number of its schema, which has the columns' types.
    """
    types: dict[int, str] = {}
    for version in versions if options.format is Format.AVRO else ():
        key = {part.column_id for part in version.primary_key}
        for column in (each for each in version.columns if each.id in key):
            now = column_definition(column)
            if (was := types.setdefault(column.id, now)) != now:
                fault = f"The column of the primary key of {table} was {was} and is {now}"
                raise _unstable(fault, version, _BEGIN_ANEW, "by their keys")


def require_stable(
    table: TableName, versions: Sequence[TableDescriptor], options: FeedOptions, advice: str
) -> None:
    """Raise ``SchemaMismatch`` as `require_stable_columns` and `require_stable_key` do."""
    require_stable_columns(table, versions, options, advice)
    require_stable_key(table, versions, options, advice)


def composite_key(table: TableDescriptor, options: FeedOptions) -> list[str]:
    """Return the columns of the primary key whose values may differ in form between a row and its deletion.

    In JSON, only records of rows have the trailing zeros of a DECIMAL and the sign of a negative zero. An
    Avro ``decimal`` has the scale of its column in both.
    """
    kinds = _COMPOSITE[options.format]
    key = {part.column_id for part in table.primary_key}
    return [each.name for each in table.columns if each.id in key and _number_kind(each.type) in kinds]


def _number_kind(sql_type: SqlType) -> Kind:
    """Return the kind of a column, or of its elements."""
    return sql_type.kind if sql_type.element is None else sql_type.element.kind


def _unstable(
    fault: str, since: TableDescriptor, advice: str, what: str = "by the names of their columns"
) -> SchemaMismatch:
    return SchemaMismatch(
        f"{fault}, by version {since.version} of the table at {since.modified}. The topic has rows of both "
        f"versions, which cannot be put together {what}. {advice}"
    )
