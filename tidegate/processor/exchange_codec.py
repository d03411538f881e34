"""Claims and hand-offs as bytes: records of the hand-off topic, and parts of a range's row."""

from __future__ import annotations

from tidegate.errors import StateError
from tidegate.hlc import ZERO_RESOLVED, ResolvedTimestamp, Timestamp
from tidegate.processor import state_pb2 as pb
from tidegate.processor.bounds import BOUNDS, RecordBounds
from tidegate.processor.lag_codec import lags_message, read_lags
from tidegate.processor.stored import pack, unpack
from tidegate.raftlog.encode import encode_key
from tidegate.raftlog.entry import RaftIndex, RangeId
from tidegate.rangefeed.handoff import Claim, Exchange, HandOff
from tidegate.spans import Span


def encode_exchange(message: Exchange, bounds: RecordBounds = BOUNDS) -> tuple[bytes, bytes]:
    """(key, value) of the record on the hand-off topic; the key names child and parent.

    A hand-off that says more of feeds than a record has room for says that nothing is sure: its child scans.
    """
    claim = message if isinstance(message, Claim) else message.claim
    value = _exchange(message)
    if len(value) > bounds.piece_bytes and isinstance(message, HandOff):
        value = _exchange(HandOff(claim, ZERO_RESOLVED, complete=False))
    return encode_key(claim.child) + encode_key(claim.parent), value


def _exchange(message: Exchange) -> bytes:
    record = pb.Exchange()
    if isinstance(message, Claim):
        record.claim.CopyFrom(claim_message(message))
    else:
        record.hand_off.CopyFrom(hand_off_message(message))
    return pack(record)


def decode_exchange(value: bytes) -> Exchange:
    """The message of a record's value. Raises ``StateError`` for anything else."""
    record = unpack(pb.Exchange, value, "a record of the hand-off topic")
    match record.WhichOneof("message"):
        case "claim":
            return read_claim(record.claim)
        case "hand_off":
            return read_hand_off(record.hand_off)
    raise StateError("a record of the hand-off topic is neither a claim nor a hand-off")


def claim_message(claim: Claim) -> pb.Claim:
    """A claim as its message."""
    start, end = claim.span
    return pb.Claim(
        child=claim.child,
        parent=claim.parent,
        last_index=claim.last_index,
        start=start,
        end=end,
        told_ms=claim.told_ms,
    )


def read_claim(message: pb.Claim) -> Claim:
    """The claim of a message."""
    span = Span(message.start, message.end)
    child, parent = RangeId(message.child), RangeId(message.parent)
    return Claim(child, parent, RaftIndex(message.last_index), span, message.told_ms)


def hand_off_message(hand_off: HandOff) -> pb.HandOff:
    """A hand-off as its message."""
    start, end = hand_off.span or (b"", b"")
    return pb.HandOff(
        claim=claim_message(hand_off.claim),
        resolved_wall=hand_off.resolved.wall,
        complete=hand_off.complete,
        start=start,
        end=end,
        lags=lags_message(hand_off.lags),
    )


def read_hand_off(message: pb.HandOff) -> HandOff:
    """The hand-off of a message."""
    resolved = ResolvedTimestamp(Timestamp(message.resolved_wall))
    span = Span(message.start, message.end) if message.end else None
    return HandOff(read_claim(message.claim), resolved, message.complete, span, read_lags(message))
