"""``{"after": {...}, "op": "c", "ts_ns": 1}``: the wrapped envelope, with the operation and its time.

``op`` is ``c`` for a new row and for a row that a scan found, ``u`` for a changed row, and ``d`` for a
deletion, even of a row that was not there. ``before``, ``key``, ``source`` (``enriched_source.py``) and
``topic`` stand beside ``after``.

Source: CockroachDB ``pkg/ccl/changefeedccl/encoder_json.go``, ``initEnrichedEnvelope``. Two things differ.
There ``ts_ns`` at the top is the time at which the record was made; here it is the wall time of the row's
commit, or of the scan that found it, because a record that is made again must be the same one. There
``source`` appears only if it is asked for; here also if one of its timestamps is.
"""

from __future__ import annotations

from collections.abc import Callable

from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.encoding.enriched_source import (
    MVCC_TIMESTAMP,
    TS_NS,
    SourceValue,
    source_constants,
    source_stamps,
)
from tidegate.changefeed.encoding.json.changes import compile_changes
from tidegate.changefeed.encoding.json.metadata import decimal_member, place_members
from tidegate.changefeed.encoding.json.template import MVCC, UPDATED, Member, constant, datum, json_object
from tidegate.changefeed.text.json_text import json_string
from tidegate.hlc import Timestamp
from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.row import Row


def enriched_value(table: TableDescriptor, options: FeedOptions) -> Callable[[Row, Timestamp], bytes]:
    """Return a printer of values. Raises ``UnsupportedTable``."""
    beside = [*place_members(table, options), *_source(table, options), wall_ns_member("ts_ns")]
    return compile_changes(table, options, lambda op: [*beside, constant("op", f'"{op}"')])


def wall_ns_member(name: str) -> Member:
    """Return the wall time of the row's commit, or of the scan that found it, in nanoseconds."""
    return datum(name, UPDATED, _wall_ns_text)


def _source(table: TableDescriptor, options: FeedOptions) -> list[Member]:
    members = [constant(name, _value_text(value)) for name, value in source_constants(table, options).items()]
    members += [_stamp(name) for name in source_stamps(options)]
    return [json_object("source", members)] if members else []


def _stamp(name: str) -> Member:
    if name == TS_NS:
        return wall_ns_member(name)
    return decimal_member(name, MVCC if name == MVCC_TIMESTAMP else UPDATED)


def _value_text(value: SourceValue) -> str:
    match value:
        case str():
            return json_string(value)
        case int():
            return str(value)
        case _:
            return f"[{', '.join(map(json_string, value))}]"


def _wall_ns_text(timestamp: Timestamp) -> str:
    return str(timestamp.wall)
