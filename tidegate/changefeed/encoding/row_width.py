"""Estimates how long the records of a table's rows are, so that not too many are made at the same time."""

from __future__ import annotations

from typing import Final, NamedTuple

from tidegate.changefeed.definition.options import Envelope, FeedOptions, Format
from tidegate.changefeed.text.json_text import json_string
from tidegate.rows import Kind, SqlType, TableDescriptor

#: The bytes that JSON writes around a column beside its name: a colon, ``null``, a comma.
_COLUMN_BYTES: Final = 6
#: The bytes that a schema in a record has for a column beside its name.
_SCHEMA_COLUMN_BYTES: Final = 120
#: The bytes that a record has beside its columns.
_RECORD_BYTES: Final = 60
#: How many times a record with a ``source`` has the names of the table, its schema and its database: two
#: times in its value. Its key and its headers may have the names too.
_NAMED_TIMES: Final = 2
#: The bytes of an enum's label in the log: one for its short form there, and one for the length of that form.
_LABEL_BYTES: Final = 2
#: How many times as long a value may be in a record as in the log: digits, escapes of letters, an interval in
#: words. A NULL in an array is a bit in the log.
_TIMES: Final = {
    Kind.ARRAY: 48.0,
    Kind.INTERVAL: 20.0,
    Kind.BIT: 8.0,
    Kind.INET: 8.0,
}
_TIMES_OF_OTHERS: Final = 6.0


class RowWidth(NamedTuple):
    """A row's estimated length in a record: ``fixed`` bytes, plus ``times`` times its bytes in the log."""

    fixed: int
    times: float

    def of(self, log_bytes: int) -> int:
        """Return about how many bytes a record has whose row has ``log_bytes`` bytes in the log."""
        return self.fixed + int(self.times * log_bytes)


NO_ROWS: Final = RowWidth(0, 0.0)


class TableLengths(NamedTuple):
    """Lengths that bound a table's rows.

    ``columns`` is the number of columns. ``column_names`` are the bytes that the names of all columns have in
    JSON, together; ``own_names`` are those of the names of the table, its schema and its database. A value of
    the table is at most ``times`` times as long in a record as in the log.
    """

    columns: int
    column_names: int
    own_names: int
    times: float

    def widest(self, other: TableLengths) -> TableLengths:
        """Return the larger one of each length, for two versions of a table."""
        return TableLengths(
            max(self.columns, other.columns),
            max(self.column_names, other.column_names),
            max(self.own_names, other.own_names),
            max(self.times, other.times),
        )


NO_LENGTHS: Final = TableLengths(0, 0, 0, 0.0)


def table_lengths(table: TableDescriptor) -> TableLengths:
    """Return the lengths of a table version, which are the same for all feeds."""
    return TableLengths(
        len(table.columns),
        sum(_json_bytes(column.name) for column in table.columns),
        sum(map(_json_bytes, (table.database, table.schema, table.name))),
        max((_times(column.type) for column in table.columns), default=_TIMES_OF_OTHERS),
    )


def row_width(table: TableLengths, options: FeedOptions) -> RowWidth:
    """Return about how long a feed's rows of a table are. Names and labels of enums count.

    Names may be far longer than a row in the log: a row of 60 bytes in a table of 1,000 columns with names of
    20 bytes has 30,000 bytes in JSON. Labels may be far longer too: the log has a byte or two for each.
    """
    names_source = options.envelope in (Envelope.DEBEZIUM, Envelope.ENRICHED)
    fixed = _RECORD_BYTES + len(options.extra_headers)
    if names_source:
        fixed += _NAMED_TIMES * table.own_names
    if options.format is Format.AVRO:
        return RowWidth(fixed + table.columns, table.times)
    columns = table.column_names + _COLUMN_BYTES * table.columns
    if options.diff or names_source:
        columns *= 2
    if options.connect_schema or options.enriched_schema:
        columns += 2 * (table.column_names + _SCHEMA_COLUMN_BYTES * table.columns)
    return RowWidth(fixed + columns, table.times)


def _times(sql_type: SqlType) -> float:
    members = sql_type.members if sql_type.element is None else sql_type.element.members
    label = max((_json_bytes(member.label) for member in members), default=0)
    return max(_TIMES.get(sql_type.kind, _TIMES_OF_OTHERS), label / _LABEL_BYTES)


def _json_bytes(text: str) -> int:
    """Return how many bytes a text has as a string of JSON."""
    return len(json_string(text).encode(errors="replace"))
