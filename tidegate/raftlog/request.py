"""Requests to the range store, which answers in its log.

Workers ask for pushes of old transactions and for scans. Operators ask for splits and merges.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from google.protobuf.message import DecodeError

from tidegate.errors import MalformedEntry
from tidegate.hlc import Timestamp
from tidegate.raftlog import raftlog_pb2 as pb
from tidegate.raftlog.encode import encode_key, span_message, timestamp_message
from tidegate.raftlog.entry import RangeId, TxnId
from tidegate.spans import Span

REQUEST_VERSION: Final = 1


class PushedTxn(NamedTuple):
    """A transaction to push, and its anchor key, at which its transaction record is stored."""

    txn_id: TxnId
    anchor_key: bytes


class Push(NamedTuple):
    """A request to push transactions of one range to ``push_to``, or to say how they ended.

    The answer is a command of the range. For a pending transaction it has an UpdateIntent. For a committed
    transaction it has an UpdateIntent to the commit timestamp, and CommitIntents follow later. For an aborted
    transaction it has an AbortTxn.
    """

    range_id: RangeId
    txns: tuple[PushedTxn, ...]
    push_to: Timestamp


class Scan(NamedTuple):
    """A request for the versions of one range's keys in ``span``, above ``after`` and up to ``upto``.

    If ``after`` is ``None``, the scan begins with the oldest versions. With ``all_versions`` every version
    comes, otherwise only the newest one of each key. ``with_prev`` also asks for the value that each version
    replaced. The answer is ScanChunks in the range's log. They name the request, and cover the part of the
    span that the range still holds.
    """

    range_id: RangeId
    request_id: int
    span: Span
    after: Timestamp | None
    upto: Timestamp
    all_versions: bool
    with_prev: bool


class AdminSplit(NamedTuple):
    """A request to split a range at ``key``. If the key is empty, the source chooses one."""

    range_id: RangeId
    key: bytes = b""


class AdminMerge(NamedTuple):
    """A request to merge a range with its right neighbour."""

    range_id: RangeId


RangeRequest: TypeAlias = Push | Scan
AdminRequest: TypeAlias = AdminSplit | AdminMerge


def encode_request(request: RangeRequest | AdminRequest) -> tuple[bytes, bytes]:
    """Return (key, value) of the request's record on the requests topic."""
    message = pb.Request(version=REQUEST_VERSION, range_id=request.range_id)
    if isinstance(request, Push):
        _fill_push(message.push, request)
    elif isinstance(request, Scan):
        _fill_scan(message.scan, request)
    elif isinstance(request, AdminSplit):
        message.admin_split.split_key = request.key
        message.admin_split.SetInParent()
    else:
        message.admin_merge.SetInParent()
    return encode_key(request.range_id), message.SerializeToString()


def _fill_push(message: pb.PushRequest, push: Push) -> None:
    message.push_to.CopyFrom(timestamp_message(push.push_to))
    for txn in push.txns:
        message.txns.add(txn_id=txn.txn_id, anchor_key=txn.anchor_key)


def _fill_scan(message: pb.ScanRequest, scan: Scan) -> None:
    message.request_id = scan.request_id
    message.span.CopyFrom(span_message(scan.span))
    if scan.after is not None:
        message.after.CopyFrom(timestamp_message(scan.after))
    message.upto.CopyFrom(timestamp_message(scan.upto))
    message.all_versions, message.with_prev = scan.all_versions, scan.with_prev


def decode_request(value: bytes) -> RangeRequest | AdminRequest | None:
    """Return the request of a record; ``None`` for a kind of request that this version does not know.

    Raises ``MalformedEntry`` for bytes that are no request, or that are a request of a newer version.
    """
    try:
        request = pb.Request.FromString(value)
    except DecodeError as error:
        raise MalformedEntry(f"not a request: {error}") from None
    if request.version != REQUEST_VERSION:
        raise MalformedEntry(f"request version {request.version}; this version reads {REQUEST_VERSION}")
    match request.WhichOneof("request"):
        case "push":
            return _push(RangeId(request.range_id), request.push)
        case "scan":
            return _scan(RangeId(request.range_id), request.scan)
        case "admin_split":
            return AdminSplit(RangeId(request.range_id), request.admin_split.split_key)
        case "admin_merge":
            return AdminMerge(RangeId(request.range_id))
    return None


def _push(range_id: RangeId, message: pb.PushRequest) -> Push:
    txns = tuple(PushedTxn(TxnId(txn.txn_id), txn.anchor_key) for txn in message.txns)
    return Push(range_id, txns, _timestamp(message.push_to))


def _scan(range_id: RangeId, message: pb.ScanRequest) -> Scan:
    return Scan(
        range_id,
        message.request_id,
        Span(message.span.start, message.span.end),
        _timestamp(message.after) if message.HasField("after") else None,
        _timestamp(message.upto),
        message.all_versions,
        message.with_prev,
    )


def _timestamp(message: pb.Timestamp) -> Timestamp:
    return Timestamp(message.wall_time, message.logical)
