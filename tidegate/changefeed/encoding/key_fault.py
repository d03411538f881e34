"""Refuses keys that would make two different rows look like one."""

from __future__ import annotations

from tidegate.errors import RowError


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
