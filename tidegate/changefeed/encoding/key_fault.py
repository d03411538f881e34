"""Refuses keys that would make two different rows look like one."""

from __future__ import annotations

from tidegate.errors import RowError, UnsupportedTable
from tidegate.rows.descriptor import TableDescriptor


def not_utf8(table_name: str, column: str) -> RowError:
    """Return the error of a row whose key has text in ``column`` that is not UTF-8.

    Such bytes become U+FFFD. Two keys that differ only in such bytes would become the same key, and a sink or
    compaction would keep only one of their rows.
    """
    return RowError(
        f"table {table_name}, column {column}: its text is not UTF-8, and written as UTF-8 the keys of "
        "different rows would be the same; the feed fails. Correct the row in the source and create the feed "
        "again, or create it with format=json and envelope=wrapped, where keys are as CockroachDB writes them"
    )


def require_names_of_rows(table: TableDescriptor) -> None:
    """Raise ``UnsupportedTable`` if a sink could not find the table's rows by their keys.

    The log names a row by the sort key of a collated string. Texts with one sort key are one row. So an
    update can change the text, and a deletion does not tell the text: a sink would keep the former row.
    """
    by_id = {column.id: column for column in table.columns}
    for part in table.primary_key:
        column = by_id[part.column_id]
        if column.type.is_collated:
            raise UnsupportedTable(
                f"table {table.name}, column {column.name}: a sink cannot find rows by a collated string of "
                "their key, because texts that are written differently can be one row; use "
                "envelope='wrapped', or leave the table out"
            )
