"""The upsert and debezium envelopes with a schema, for Kafka Connect: Avro."""

from __future__ import annotations

from tidegate.changefeed.options import FeedOptions
from tidegate.changefeed.record_encoder import RecordEncoder
from tidegate.errors import UnsupportedTable
from tidegate.rows.descriptor import TableDescriptor


def compile_connect_avro(table: TableDescriptor, options: FeedOptions) -> RecordEncoder:
    """The encoder for a table version. Raises ``UnsupportedTable`` for a table without such a form."""
    raise UnsupportedTable(f"table {table.name}: envelope={options.envelope.value} is not supported yet")
