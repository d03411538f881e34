"""``{"__crdb__": {...}, "a": 1, "b": "x"}``: the row itself, with all metadata in one object beside the
columns.

A deletion has the columns of the primary key, and null for all others. ``diff`` has no effect, as in
CockroachDB, where only queries use it. Source: ``pkg/ccl/changefeedccl/encoder_json.go``,
``initRawEnvelope``.
"""

from __future__ import annotations

from collections.abc import Callable

from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.encoding.json.members import key_only_members, row_members
from tidegate.changefeed.encoding.json.metadata import metadata_object, place_members, stamp_members
from tidegate.changefeed.encoding.json.template import beside, compile_template, json_object
from tidegate.changefeed.text.json_text import utf8
from tidegate.hlc import Timestamp
from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.row import Row


def bare_value(table: TableDescriptor, options: FeedOptions) -> Callable[[Row, Timestamp], bytes]:
    """Return a printer of values. Raises ``UnsupportedTable``."""
    asked = [*place_members(table, options), *stamp_members(options)]
    metadata = metadata_object(table, options, asked)
    whole = compile_template(json_object("", [*row_members(table, options), *metadata]))
    deletion = compile_template(json_object("", [*key_only_members(table, options), *metadata]))

    def encode(row: Row, timestamp: Timestamp) -> bytes:
        values = row.values
        rest = beside(row, timestamp)
        return utf8(deletion(row.key + rest) if values is None else whole(values + rest))

    return encode
