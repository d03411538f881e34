"""Requests to the range store: pushes of old transactions. The answers come back in the log."""

from __future__ import annotations

from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from tidegate.errors import MalformedEntry
from tidegate.hlc import Timestamp
from tidegate.raftlog import raftlog_pb2 as pb
from tidegate.raftlog.encode import encode_key, timestamp_message
from tidegate.raftlog.entry import RangeId, TxnId

REQUEST_VERSION: Final = 1


class PushedTxn(NamedTuple):
    """A transaction to push, and the key at which its record stands."""

    txn_id: TxnId
    anchor_key: bytes


class Push(NamedTuple):
    """Asks the source to push transactions of one range to ``push_to``, or to say how they ended.

    The answer is a command of the range: UpdateIntent while pending, UpdateIntent to the commit timestamp
    and later CommitIntents after a commit, AbortTxn after an abort.
    """

    range_id: RangeId
    txns: tuple[PushedTxn, ...]
    push_to: Timestamp


def encode_push(push: Push) -> tuple[bytes, bytes]:
    """(key, value) of the record on the requests topic."""
    request = pb.Request(version=REQUEST_VERSION, range_id=push.range_id)
    request.push.push_to.CopyFrom(timestamp_message(push.push_to))
    for txn in push.txns:
        request.push.txns.add(txn_id=txn.txn_id, anchor_key=txn.anchor_key)
    return encode_key(push.range_id), request.SerializeToString()


def decode_request(value: bytes) -> Push | None:
    """The request of a record, or ``None`` for a kind that is not a push.

    Raises ``MalformedEntry`` for bytes that are no request, or one of a newer version.
    """
    try:
        request = pb.Request.FromString(value)
    except DecodeError as error:
        raise MalformedEntry(f"not a request: {error}") from None
    if request.version != REQUEST_VERSION:
        raise MalformedEntry(f"request version {request.version}; this version reads {REQUEST_VERSION}")
    if request.WhichOneof("request") != "push":
        return None
    push_to = Timestamp(request.push.push_to.wall_time, request.push.push_to.logical)
    txns = tuple(PushedTxn(TxnId(txn.txn_id), txn.anchor_key) for txn in request.push.txns)
    return Push(RangeId(request.range_id), txns, push_to)
