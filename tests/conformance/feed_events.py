"""Events, ops and stored versions as the range feed cases write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tidegate.hlc import ZERO, ResolvedTimestamp, Timestamp
from tidegate.raftlog.entry import (
    AbortIntent,
    AbortTxn,
    CommitIntent,
    DeleteRange,
    Op,
    TxnId,
    UpdateIntent,
    WriteIntent,
    WriteValue,
)
from tidegate.rangefeed.catchup import RangeTombstone, StoredVersion, VersionBlock, block_of
from tidegate.rangefeed.event import CheckpointEvent, DeleteRangeEvent, FeedEvent, SSTableEvent, ValueEvent
from tidegate.rangefeed.registration import FeedRequest
from tidegate.spans import Span

Fields = dict[str, Any]


def span_of(keys: list[str | None]) -> Span:
    """A span of text keys; a null end means the start key alone."""
    start, end = keys
    assert start is not None
    raw = start.encode()
    return Span(raw, raw + b"\x00" if end is None else _bound(end))


def _bound(end: str) -> bytes:
    """The end of the key space is written as U+FFFF, and stands after every key."""
    return b"\xff\xff" if end == "\uffff" else end.encode()


def at(pair: list[int] | None) -> Timestamp:
    """A timestamp; absent is zero."""
    return ZERO if pair is None else Timestamp(*pair)


def txn_of(name: str) -> TxnId:
    """The id of a transaction that the case names."""
    return TxnId(name.encode().ljust(16, b"\x00"))


def name_of(txn_id: TxnId) -> str:
    """The name again."""
    return txn_id.rstrip(b"\x00").decode()


def request_of(fields: Fields) -> FeedRequest:
    """Return what a feed of the case asks for."""
    return FeedRequest(
        span_of(fields["span"]),
        at(fields.get("start")),
        with_diff=bool(fields.get("with_diff")),
        with_filtering=bool(fields.get("with_filtering")),
        omit_remote=bool(fields.get("with_omit_remote")),
    )


# ---- ops ----


def op_of(fields: Fields) -> Op:
    """A logical op."""
    return _OPS[fields["type"]](fields)


def op_text(op: Op) -> Fields:
    """The op again, as far as pushes make such ops."""
    match op:
        case UpdateIntent(txn_id, timestamp):
            return {"type": "update_intent", "txn": name_of(txn_id), "ts": list(timestamp)}
        case AbortTxn(txn_id):
            return {"type": "abort_txn", "txn": name_of(txn_id)}
        case WriteIntent(txn_id, anchor_key, timestamp):
            return {
                "type": "write_intent",
                "txn": name_of(txn_id),
                "ts": list(timestamp),
                "txn_key": anchor_key.decode(),
            }
    raise ValueError(f"no case expects {op}")


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _write_value(fields: Fields) -> Op:
    return WriteValue(
        fields["key"].encode(),
        at(fields["ts"]),
        _bytes(fields.get("value")) or b"",
        _bytes(fields.get("prev")),
        bool(fields.get("omit")),
        int(fields.get("origin_id", 0)),
    )


def _commit_intent(fields: Fields) -> Op:
    return CommitIntent(
        txn_of(fields["txn"]),
        fields["key"].encode(),
        at(fields["ts"]),
        _bytes(fields.get("value")) or b"",
        _bytes(fields.get("prev")),
        bool(fields.get("omit")),
        int(fields.get("origin_id", 0)),
    )


def _write_intent(fields: Fields) -> Op:
    anchor = str(fields.get("txn_key", "")).encode()
    return WriteIntent(txn_of(fields["txn"]), anchor, at(fields["ts"]), at(fields["ts"]))


def _delete_range(fields: Fields) -> Op:
    keys = fields.get("span") or [fields[name] for name in ("start_key", "key", "end_key") if name in fields]
    return DeleteRange(*span_of(keys), at(fields["ts"]))


_OPS: Final[dict[str, Callable[[Fields], Op]]] = {
    "write_value": _write_value,
    "write_intent": _write_intent,
    "update_intent": lambda fields: UpdateIntent(txn_of(fields["txn"]), at(fields["ts"])),
    "commit_intent": _commit_intent,
    "abort_intent": lambda fields: AbortIntent(txn_of(fields["txn"])),
    "abort_txn": lambda fields: AbortTxn(txn_of(fields["txn"])),
    "delete_range": _delete_range,
}


# ---- events ----


def event_of(fields: Fields) -> FeedEvent:
    """An event that the case hands to feeds."""
    match fields["type"]:
        case "value":
            value = _bytes(fields.get("value")) or b""
            return ValueEvent(fields["key"].encode(), at(fields["ts"]), value, _bytes(fields.get("prev")))
        case "checkpoint":
            return CheckpointEvent(span_of(fields["span"]), ResolvedTimestamp(at(fields["resolved"])))
        case "delete_range":
            return DeleteRangeEvent(span_of(fields["span"]), at(fields["ts"]))
        case "sst":
            return SSTableEvent(span_of(fields["span"]), at(fields["ts"]), _bytes(fields.get("data")) or b"")
    raise ValueError(f"unknown event {fields['type']}")


def event_text(event: FeedEvent) -> Fields:
    """An event as the cases write it; an absent previous value and an empty one are both null."""
    match event:
        case ValueEvent(key, timestamp, value, prev_value):
            prev = prev_value.decode() if prev_value else None
            return {
                "type": "value",
                "key": key.decode(),
                "ts": list(timestamp),
                "value": value.decode(),
                "prev": prev,
            }
        case CheckpointEvent(span, resolved):
            return {"type": "checkpoint", "span": _span_text(span), "resolved": list(resolved)}
        case DeleteRangeEvent(span, timestamp):
            return {"type": "delete_range", "span": _span_text(span), "ts": list(timestamp)}
        case SSTableEvent(span, timestamp):
            return {"type": "sst", "span": _span_text(span), "ts": list(timestamp)}


def expected_event(fields: Fields) -> Fields:
    """An expected event in the same form, whatever spelling of nothing it has."""
    expected = dict(fields)
    if expected.get("type") == "value":
        expected["value"] = expected.get("value") or ""
        expected["prev"] = expected.get("prev") or None
    return expected


def _span_text(span: Span) -> list[str]:
    end = "\uffff" if span.end == b"\xff\xff" else span.end.decode()
    return [span.start.decode(), end]


# ---- what is stored ----


def blocks_of(data: list[Fields]) -> list[VersionBlock]:
    """The versions of a case as one block in store order."""
    versions = sorted(map(_version, data), key=lambda version: _descending(version.timestamp))
    versions.sort(key=lambda version: version.key)
    return [block_of(versions)] if versions else []


def tombstones_of(stones: list[Fields]) -> list[RangeTombstone]:
    """The range tombstones of a case."""
    return [RangeTombstone(span_of(stone["span"]), at(stone["ts"])) for stone in stones]


def _version(fields: Fields) -> StoredVersion:
    intent = fields.get("intent")
    return StoredVersion(
        fields["key"].encode(),
        at(fields.get("ts")),
        _bytes(fields.get("value")) or b"",
        bool(fields.get("omit")),
        int(fields.get("origin_id", 0)),
        None if intent is None else txn_of(intent),
        bool(fields.get("inline")),
    )


def _descending(timestamp: Timestamp) -> tuple[int, int]:
    return (-timestamp.wall, -timestamp.logical)
