"""``{"a": 1, "b": "x"}`` under the key ``{"a": 1}``: the row and nothing else; a deletion has no value.

So the newest record of a key is its row, which is what log compaction keeps and what JDBC and Elasticsearch
sinks store. This envelope is tidegate's own; CockroachDB has nothing like it.
"""

from __future__ import annotations

from collections.abc import Callable

from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.encoding.json.members import row_members
from tidegate.changefeed.encoding.json.template import compile_template, json_object
from tidegate.changefeed.text.json_text import utf8
from tidegate.hlc import Timestamp
from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.row import Row


def upsert_value(table: TableDescriptor, options: FeedOptions) -> Callable[[Row, Timestamp], bytes | None]:
    """Return a printer of values. Raises ``UnsupportedTable``."""
    whole = compile_template(json_object("", row_members(table, options)))

    def encode(row: Row, _: Timestamp) -> bytes | None:
        values = row.values
        return None if values is None else utf8(whole(values))

    return encode
