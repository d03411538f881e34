"""Columns that mean the same in all rows of a topic.

Rows have names of columns, and no ids. A table whose columns were renamed, or dropped and added again, has
rows in which one name means two columns, or one column has two names: such rows are no table together.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from tidegate.changefeed.definition.feed import TableName
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.encoding.columns import shown_columns
from tidegate.errors import SchemaMismatch
from tidegate.hlc import Timestamp
from tidegate.rows.descriptor import TableDescriptor

_BEGIN_ANEW: Final = "Create a new feed WITH initial_scan on topics of its own, and subscribe to that"


def versions_since(versions: Sequence[TableDescriptor], since: Timestamp) -> Sequence[TableDescriptor]:
    """Return the versions that rows at or above a timestamp may have. ``versions`` has the newest last."""
    return versions[max(bisect_right(versions, since, key=lambda each: each.modified) - 1, 0) :]


def require_stable_columns(
    table: TableName, versions: Sequence[TableDescriptor], options: FeedOptions
) -> None:
    """Raise ``SchemaMismatch`` if the versions show a column under two names, or two under one name."""
    ids: dict[str, int] = {}
    names: dict[int, str] = {}
    for version in versions:
        for column in shown_columns(version, options):
            if names.setdefault(column.id, column.name) != column.name:
                fault = f"The column {names[column.id]} of {table} was renamed to {column.name}"
                raise _unstable(fault, version)
            if ids.setdefault(column.name, column.id) != column.id:
                raise _unstable(f"The column {column.name} of {table} was dropped and added again", version)


def _unstable(fault: str, since: TableDescriptor) -> SchemaMismatch:
    return SchemaMismatch(
        f"{fault}, by version {since.version} of the table at {since.modified}. The topic has rows of both "
        f"versions, which cannot be told apart by the names of their columns. {_BEGIN_ANEW}"
    )
