"""``{"after": {...}, "op": "c", "ts_ns": 1}``: the wrapped envelope with what happened, and when.

``op`` is ``c`` for a new row, ``u`` for a changed one and ``d`` for a deletion, also of a row that was not
there. ``before``, ``key`` and ``topic`` stand beside ``after``; ``updated`` and ``mvcc_timestamp`` are found
in an object ``source``, as ``ts_hlc`` and ``ts_ns``, and as ``mvcc_timestamp``.

Source: CockroachDB ``pkg/ccl/changefeedccl/encoder_json.go``, ``initEnrichedEnvelope``, and
``enriched_source_provider.go``. Two things differ. There ``ts_ns`` at the top is the time at which the record
was made; here it is the wall time of the row's commit, because a record that is made again must be the same
one. There ``source`` is shown on demand and has members about the cluster; here it appears with the
timestamps that were asked for, and has nothing else.
"""

from __future__ import annotations

from collections.abc import Callable

from tidegate.changefeed.json_envelopes.changes import compile_changes
from tidegate.changefeed.json_envelopes.metadata import decimal_member, place_members
from tidegate.changefeed.json_envelopes.template import TIMESTAMP, Member, constant, datum, json_object
from tidegate.changefeed.options import FeedOptions
from tidegate.hlc import Timestamp
from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.row import Row


def enriched_value(table: TableDescriptor, options: FeedOptions) -> Callable[[Row, Timestamp], bytes]:
    """What prints a value. Raises ``UnsupportedTable``."""
    beside = [*place_members(table, options), *_source(options), wall_ns_member("ts_ns")]
    return compile_changes(table, options, lambda op: [*beside, constant("op", f'"{op}"')])


def wall_ns_member(name: str) -> Member:
    """The wall time of the row's commit, in nanoseconds."""
    return datum(name, TIMESTAMP, _wall_ns_text)


def _source(options: FeedOptions) -> list[Member]:
    members = []
    if options.updated:
        members += [decimal_member("ts_hlc"), wall_ns_member("ts_ns")]
    if options.mvcc_timestamp:
        members.append(decimal_member("mvcc_timestamp"))
    return [json_object("source", members)] if members else []


def _wall_ns_text(timestamp: Timestamp) -> str:
    return str(timestamp.wall)
