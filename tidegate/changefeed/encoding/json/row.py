"""``{"a": 1, "b": "x"}``: the row itself; a deletion is an empty value.

Timestamps stand in an object ``__crdb__`` beside the columns. ``diff`` has no effect. Source: CockroachDB
``pkg/ccl/changefeedccl/encoder_json.go``, ``initRawEnvelope``.
"""

from __future__ import annotations

from collections.abc import Callable

from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.encoding.json.members import row_members
from tidegate.changefeed.encoding.json.metadata import metadata_object, stamp_members
from tidegate.changefeed.encoding.json.template import beside, compile_template, json_object
from tidegate.changefeed.text.json_text import utf8
from tidegate.hlc import Timestamp
from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.row import Row


def row_value(table: TableDescriptor, options: FeedOptions) -> Callable[[Row, Timestamp], bytes]:
    """Return a printer of values. Raises ``UnsupportedTable``."""
    metadata = metadata_object(table, options, stamp_members(options))
    whole = compile_template(json_object("", [*row_members(table, options), *metadata]))

    def encode(row: Row, timestamp: Timestamp) -> bytes:
        values = row.values
        rest = beside(row, timestamp)
        return b"" if values is None else utf8(whole(values + rest))

    return encode
