"""Prints events of ranges as lines: text for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from tidegate.rangefeed.event import CheckpointEvent, DeleteRangeEvent, SSTableEvent, ValueEvent
from tidegate.rangefeed.feed_end import FeedEnd
from tidegate.rangefeed.log_feeds import LogEvent, RangeEvent, SteadyState
from tidegate.rows.pretty import pretty_key
from tidegate.spans import Span
from tidegate.verify import TopicRecord


def text_line(record: TopicRecord, found: RangeEvent) -> str:
    """Return the line ``topic[partition]@offset range: what happened``.

    Keys are printed as CockroachDB prints them, values in hex.
    """
    place = f"{record.topic}[{record.partition}]@{record.offset} r{found.range_id}:"
    return f"{place} {_text(found.event)}"


def json_line(record: TopicRecord, found: RangeEvent) -> str:
    """Return one JSON object; keys and values in hex, timestamps as text in the form of cursors."""
    place = {"partition": record.partition, "offset": record.offset, "range": found.range_id}
    return json.dumps({**place, **_members(found.event)})


FORMATS: Final[dict[str, Callable[[TopicRecord, RangeEvent], str]]] = {"json": json_line, "text": text_line}


def _text(event: LogEvent) -> str:
    match event:
        case ValueEvent(key, timestamp, value, prev_value):
            was = "" if prev_value is None else f" (was {prev_value.hex()})"
            if not value:
                return f"Delete {pretty_key(key)} @ {timestamp}{was}"
            return f"Value {pretty_key(key)} @ {timestamp} = {value.hex()}{was}"
        case DeleteRangeEvent(span, timestamp):
            return f"DeleteRange {_pretty(span)} @ {timestamp}"
        case SSTableEvent(span, timestamp, data):
            return f"SSTable {_pretty(span)} @ {timestamp}, {len(data)} bytes"
        case CheckpointEvent(span, resolved):
            return f"Checkpoint {_pretty(span)} resolved {resolved}"
        case SteadyState(span, resolved):
            return f"SteadyState {_pretty(span)} since {resolved}"
        case FeedEnd(reason, detail):
            return f"End {reason.name}{detail and f': {detail}'}"


def _members(event: LogEvent) -> dict[str, Any]:
    match event:
        case ValueEvent(key, timestamp, value, prev_value):
            members = {"type": "value", "key": key.hex(), "key_text": pretty_key(key), "ts": str(timestamp)}
            if not value:
                members["type"] = "delete"
            else:
                members["value"] = value.hex()
            return members if prev_value is None else {**members, "prev_value": prev_value.hex()}
        case DeleteRangeEvent(span, timestamp):
            return {"type": "delete_range", **_bounds(span), "ts": str(timestamp)}
        case SSTableEvent(span, timestamp, data):
            return {"type": "sst", **_bounds(span), "ts": str(timestamp), "bytes": len(data)}
        case CheckpointEvent(span, resolved):
            return {"type": "checkpoint", **_bounds(span), "resolved": str(resolved)}
        case SteadyState(span, resolved):
            return {"type": "steady_state", **_bounds(span), "resolved": str(resolved)}
        case FeedEnd(reason, detail):
            return {"type": "end", "reason": reason.name, "detail": detail}


def _bounds(span: Span) -> dict[str, str]:
    return {"start": span.start.hex(), "end": span.end.hex()}


def _pretty(span: Span) -> str:
    return f"[{pretty_key(span.start)}, {pretty_key(span.end)})"
