"""Reckons how long the records of a table's rows are, so that few enough of them are made at once."""

from __future__ import annotations

from typing import Final, NamedTuple

from tidegate.changefeed.definition.options import Envelope, FeedOptions, Format
from tidegate.changefeed.text.json_text import json_string
from tidegate.rows import SqlType, TableDescriptor

#: What JSON writes around a column beside its name: a colon, ``null``, a comma.
_COLUMN_BYTES: Final = 6
#: What a schema in a record says of a column beside its name.
_SCHEMA_COLUMN_BYTES: Final = 120
#: What a record has beside its columns.
_RECORD_BYTES: Final = 60
#: How often a record that says where it comes from has the names of the table, its schema and database: two
#: in its value, others in its key and in headers.
_NAMED_TIMES: Final = 2
#: A value of so many bytes is as long in a record, or a little longer: numbers, quotes, escapes.
_BYTES_OF_A_BYTE: Final = 2.0
#: The label of an enum has a shorter form in the log: a byte for it, and one for the length of that.
_LABEL_BYTES: Final = 2


class RowWidth(NamedTuple):
    """About how long a row is in a record: ``fixed`` bytes, and ``times`` those that it has in the log."""

    fixed: int
    times: float

    def of(self, log_bytes: int) -> int:
        """Return about how many bytes a row makes that has so many in the log."""
        return self.fixed + int(self.times * log_bytes)


NO_ROWS: Final = RowWidth(0, 0.0)


class TableLengths(NamedTuple):
    """The bytes of a table's names as JSON: of all its columns, of its own, and of its longest label."""

    columns: int
    column_names: int
    own_names: int
    label: int


def table_lengths(table: TableDescriptor) -> TableLengths:
    """Return the lengths of a table version, which are the same for all feeds."""
    return TableLengths(
        len(table.columns),
        sum(_json_bytes(column.name) for column in table.columns),
        sum(map(_json_bytes, (table.database, table.schema, table.name))),
        max((_longest_label(column.type) for column in table.columns), default=0),
    )


def row_width(table: TableLengths, options: FeedOptions) -> RowWidth:
    """Return about how long a feed's rows of a table are, by names and by labels of enums.

    Names may be far longer than what the log has of a row: a row of 60 bytes in a table of 1,000 columns with
    names of 20 bytes has 30,000 bytes in JSON. So may labels: the log has a byte or two for each.
    """
    times = max(_BYTES_OF_A_BYTE, table.label / _LABEL_BYTES)
    names_source = options.envelope in (Envelope.DEBEZIUM, Envelope.ENRICHED)
    fixed = _RECORD_BYTES + len(options.extra_headers)
    if names_source or options.full_table_name:
        fixed += _NAMED_TIMES * table.own_names
    if options.format is Format.AVRO:
        return RowWidth(fixed + table.columns, times)
    columns = table.column_names + _COLUMN_BYTES * table.columns
    if options.diff or names_source:
        columns *= 2
    if options.connect_schema or options.enriched_schema:
        columns += 2 * (table.column_names + _SCHEMA_COLUMN_BYTES * table.columns)
    return RowWidth(fixed + columns, times)


def _longest_label(sql_type: SqlType) -> int:
    if sql_type.element is not None:
        return _longest_label(sql_type.element)
    return max((_json_bytes(member.label) for member in sql_type.members), default=0)


def _json_bytes(text: str) -> int:
    """Return how many bytes a text has as a string of JSON."""
    return len(json_string(text).encode(errors="replace"))
