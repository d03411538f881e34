"""Debezium's envelope: ``{"after", "before", "op", "source", "ts_ms"}`` under the key ``{"a": 1}``.

A tombstone follows a deletion's record, as from Debezium's connectors, so that log compaction may forget the
key. A row that a scan found has the operation ``r``, its ``source.snapshot`` is true, and all its times are
the scan's.

Source: Debezium's documentation of the PostgreSQL connector, "Data change events", and ``debezium-core``'s
``Envelope`` and ``AbstractSourceInfo``, which require ``version``, ``connector``, ``name``, ``ts_ms``,
``snapshot`` and ``db``. There ``ts_ms`` at the top is the time at which the connector made the record. Here
it is the time of the commit, as in ``source``.
"""

from __future__ import annotations

from collections.abc import Callable

from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.encoding.debezium_source import source_texts
from tidegate.changefeed.encoding.json.changes import compile_changes
from tidegate.changefeed.encoding.json.enriched import wall_ns_member
from tidegate.changefeed.encoding.json.metadata import decimal_member
from tidegate.changefeed.encoding.json.template import UPDATED, Member, constant, datum, json_object
from tidegate.changefeed.encoding.replaced import READ
from tidegate.changefeed.text.json_text import json_string
from tidegate.hlc import Timestamp
from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.row import Row


def debezium_value(table: TableDescriptor, options: FeedOptions) -> Callable[[Row, Timestamp], bytes]:
    """Return a printer of values. Raises ``UnsupportedTable``."""

    def others(op: str) -> list[Member]:
        source = _source(table, options, scanned=op == READ)
        return [source, _wall_ms_member("ts_ms"), constant("op", f'"{op}"')]

    return compile_changes(table, options, others)


def _source(table: TableDescriptor, options: FeedOptions, *, scanned: bool) -> Member:
    texts = source_texts(table, options, scanned=scanned)
    constants = [constant(name, json_string(text)) for name, text in texts.items()]
    times = [decimal_member("ts_hlc", UPDATED), _wall_ms_member("ts_ms"), wall_ns_member("ts_ns")]
    return json_object("source", [*constants, *times])


def _wall_ms_member(name: str) -> Member:
    return datum(name, UPDATED, _wall_ms_text)


def _wall_ms_text(timestamp: Timestamp) -> str:
    return str(timestamp.wall_ms)
