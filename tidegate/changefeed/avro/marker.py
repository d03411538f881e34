"""Markers as Avro: an envelope record with one field, ``resolved``."""

from __future__ import annotations

from tidegate.changefeed.feed import TableName
from tidegate.changefeed.options import FeedOptions
from tidegate.changefeed.record_encoder import MarkerEncoder
from tidegate.errors import UnsupportedTable


def compile_avro_marker(table: TableName, options: FeedOptions) -> MarkerEncoder:
    """The encoder of the markers on a table's topic."""
    raise UnsupportedTable(f"table {table.name}: format={options.format.value} is not supported yet")
