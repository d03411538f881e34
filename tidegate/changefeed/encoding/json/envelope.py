"""Encodes rows into key and value bytes: one encoder per table version and feed, made once.

The shapes, for a table (a INT PRIMARY KEY, b STRING). Each has a module of its name:

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

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from tidegate.changefeed.definition.options import Envelope, FeedOptions
from tidegate.changefeed.encoding.json.bare import bare_value
from tidegate.changefeed.encoding.json.debezium import debezium_value
from tidegate.changefeed.encoding.json.enriched import enriched_value
from tidegate.changefeed.encoding.json.enriched_schema import with_schema
from tidegate.changefeed.encoding.json.headers import compile_headers
from tidegate.changefeed.encoding.json.key import compile_key
from tidegate.changefeed.encoding.json.row import row_value
from tidegate.changefeed.encoding.json.upsert import upsert_value
from tidegate.changefeed.encoding.json.wrapped import wrapped_value
from tidegate.changefeed.encoding.record_encoder import RecordEncoder
from tidegate.hlc import Timestamp
from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.row import Row

_Value: TypeAlias = Callable[[Row, Timestamp], bytes | None]


def _no_value(_: TableDescriptor, __: FeedOptions) -> _Value:
    return lambda *_: b""


_VALUES: Final[Mapping[Envelope, Callable[[TableDescriptor, FeedOptions], _Value]]] = {
    Envelope.WRAPPED: wrapped_value,
    Envelope.ROW: row_value,
    Envelope.KEY_ONLY: _no_value,
    Envelope.BARE: bare_value,
    Envelope.ENRICHED: enriched_value,
    Envelope.UPSERT: upsert_value,
    Envelope.DEBEZIUM: debezium_value,
}


def compile_json(table: TableDescriptor, options: FeedOptions) -> RecordEncoder:
    """Return the encoder for a table version.

    Raises ``UnsupportedTable`` for a table that cannot be emitted.
    """
    key, value = compile_key(table, options), _VALUES[options.envelope](table, options)

    def encode(row: Row, timestamp: Timestamp) -> tuple[bytes, bytes | None]:
        return key(row), value(row, timestamp)

    encoder = RecordEncoder(
        encode,
        headers=compile_headers(table, options),
        tombstones=options.envelope is Envelope.DEBEZIUM,
    )
    return with_schema(encoder, table, options) if options.enriched_schema else encoder
