"""``{"after": {...}}``: the row, and beside it the members that the feed asks for.

| row | deletion | with diff |
|---|---|---|
| ``{"after": {"a": 1, "b": "x"}}`` | ``{"after": null}`` | ``"before"``: the old row, null for a new one |

``key``, ``mvcc_timestamp``, ``topic`` and ``updated`` are members beside ``after``. Source: CockroachDB
``pkg/ccl/changefeedccl/encoder_json.go``, ``initWrappedEnvelope``.
"""

from __future__ import annotations

from collections.abc import Callable

from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.encoding.json.changes import compile_changes
from tidegate.changefeed.encoding.json.members import row_members
from tidegate.changefeed.encoding.json.metadata import place_members, stamp_members
from tidegate.changefeed.encoding.json.template import NULL, beside, compile_template, constant, json_object
from tidegate.changefeed.text.json_text import utf8
from tidegate.hlc import Timestamp
from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.row import Row


def wrapped_value(table: TableDescriptor, options: FeedOptions) -> Callable[[Row, Timestamp], bytes]:
    """Return a printer of values. Raises ``UnsupportedTable``."""
    others = [*place_members(table, options), *stamp_members(options)]
    if options.shows_previous:
        return compile_changes(table, options, lambda _: others)
    whole = compile_template(json_object("", [json_object("after", row_members(table, options)), *others]))
    deletion = compile_template(json_object("", [constant("after", NULL), *others]))

    def encode(row: Row, timestamp: Timestamp) -> bytes:
        values = row.values
        rest = beside(row, timestamp)
        return utf8(deletion(rest) if values is None else whole(values + rest))

    return encode
