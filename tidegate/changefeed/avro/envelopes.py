"""Rows into the bodies of Avro keys and values."""

from __future__ import annotations

from tidegate.changefeed.options import FeedOptions
from tidegate.changefeed.record_encoder import RecordEncoder
from tidegate.errors import UnsupportedTable
from tidegate.rows.descriptor import TableDescriptor


def compile_avro(table: TableDescriptor, options: FeedOptions) -> RecordEncoder:
    """The encoder for a table version. Raises ``UnsupportedTable`` for a table that has no Avro form."""
    raise UnsupportedTable(f"table {table.name}: format={options.format.value} is not supported yet")
