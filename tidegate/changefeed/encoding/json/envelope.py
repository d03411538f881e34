"""Makes the encoder of JSON records from a key and a value, once for each table version and feed.

These are the shapes for a table (a INT PRIMARY KEY, b STRING). Each envelope has a module of its name in
`envelopes/`:

| envelope | key | row | deletion |
|---|---|---|---|
| wrapped | ``[1]`` | ``{"after": {"a": 1, "b": "x"}}`` | ``{"after": null}`` |
| row | ``[1]`` | ``{"a": 1, "b": "x"}`` | empty |
| key_only | ``[1]`` | empty | empty |
| bare | ``[1]`` | ``{"a": 1, "b": "x"}`` | ``{"a": 1, "b": null}`` |
| enriched | ``{"a": 1}`` | ``{"after": {...}, "op": "c", ...}`` | ``{"after": null, "op": "d", ...}`` |
| upsert | ``{"a": 1}`` | ``{"a": 1, "b": "x"}`` | none |
| debezium | ``{"a": 1}`` | ``{"after": {...}, "before": null, ...}`` | the same with ``d``, and a tombstone |

``docs/envelopes.md`` has an example of each with each of its options. Source: CockroachDB
``pkg/ccl/changefeedccl/encoder_json.go``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.encoding.json.headers import compile_headers
from tidegate.changefeed.encoding.json.key import compile_key
from tidegate.changefeed.encoding.key_form import KeyForm
from tidegate.changefeed.encoding.record_encoder import RecordEncoder
from tidegate.hlc import Timestamp
from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.row import Row

#: Returns the function that makes values of a table version's rows. Raises ``UnsupportedTable``.
CompileValue: TypeAlias = Callable[[TableDescriptor, FeedOptions], Callable[[Row, Timestamp], bytes | None]]


def json_encoder(
    table: TableDescriptor, options: FeedOptions, keys: KeyForm, compile_value: CompileValue
) -> RecordEncoder:
    """Return the encoder for a table version.

    Raises ``UnsupportedTable`` for a table that cannot be emitted.
    """
    key, value = compile_key(table, options, keys), compile_value(table, options)

    def encode(row: Row, timestamp: Timestamp) -> tuple[bytes, bytes | None]:
        return key(row), value(row, timestamp)

    return RecordEncoder(encode, headers=compile_headers(table, options))
