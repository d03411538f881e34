"""Reckons how long the records of a table's rows are, beside the values in them."""

from __future__ import annotations

from typing import Final

from tidegate.changefeed.definition.options import Envelope, FeedOptions, Format
from tidegate.rows import TableDescriptor

#: What JSON writes around a column beside its name: quotes, a colon, ``null``, a comma.
_COLUMN_BYTES: Final = 8
#: What a schema in a record says of a column beside its name.
_SCHEMA_COLUMN_BYTES: Final = 120
#: What a record has beside its columns.
_RECORD_BYTES: Final = 60


def row_width(table: TableDescriptor, options: FeedOptions) -> int:
    """Return about how many bytes each row of a table has beside its values."""
    fixed = _RECORD_BYTES + len(options.extra_headers)
    if options.format is Format.AVRO:
        return fixed + len(table.columns)
    columns = sum(len(column.name) + _COLUMN_BYTES for column in table.columns)
    if options.diff or options.envelope in (Envelope.DEBEZIUM, Envelope.ENRICHED):
        columns *= 2
    if options.connect_schema or options.enriched_schema:
        columns += 2 * sum(len(column.name) + _SCHEMA_COLUMN_BYTES for column in table.columns)
    return fixed + columns
