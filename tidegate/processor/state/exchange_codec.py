"""Encodes and decodes claims and hand-offs: as records of the hand-off topic, and as parts of range rows."""

from __future__ import annotations

from typing import Final

from tidegate.errors import ForeignRecord
from tidegate.hlc import ZERO_RESOLVED, ResolvedTimestamp, Timestamp
from tidegate.processor.bounds import BOUNDS, RecordBounds
from tidegate.processor.state import state_pb2 as pb
from tidegate.processor.state.gap_codec import read_told_gaps, told_gaps_message
from tidegate.processor.state.stored_frame import pack, unpack_record
from tidegate.raftlog.encode import encode_key
from tidegate.raftlog.entry import RaftIndex, RangeId
from tidegate.ranges.handoff import Claim, Exchange, HandOff
from tidegate.spans import Span

_WHAT: Final = "a record of the hand-off topic"


def encode_exchange(message: Exchange, bounds: RecordBounds = BOUNDS) -> tuple[bytes, bytes]:
    """Return (key, value) of a message's record on the hand-off topic. The key names child and parent.

    If a hand-off tells more gaps of feeds than fit in a record, *complete up to nothing* is sent instead: its
    child scans.
    """
    claim = message if isinstance(message, Claim) else message.claim
    value = _exchange(message)
    if len(value) > bounds.piece_bytes and isinstance(message, HandOff):
        value = _exchange(HandOff(claim, ZERO_RESOLVED, complete=False))
    return _key_of(claim), value


def _exchange(message: Exchange) -> bytes:
    record = pb.Exchange()
    if isinstance(message, Claim):
        record.claim.CopyFrom(claim_message(message))
    else:
        record.hand_off.CopyFrom(hand_off_message(message))
    return pack(record)


def decode_exchange(value: bytes) -> Exchange:
    """Return the message of a record's value.

    Raises ``StateError`` for a newer version, and ``ForeignRecord`` for what no partition can have written.
    """
    record = unpack_record(pb.Exchange, value, _WHAT)
    match record.WhichOneof("message"):
        case "claim":
            return _sound(read_claim(record.claim))
        case "hand_off":
            return _sound(read_hand_off(record.hand_off))
    raise ForeignRecord(f"{_WHAT} is neither a claim nor a hand-off")


def read_exchange_record(key: bytes | None, value: bytes) -> Exchange:
    """Return the claim or hand-off of a record.

    The record's key must be that of the message's child and parent. Raises the same errors as
    `decode_exchange`, and ``ForeignRecord`` for another key.
    """
    message = decode_exchange(value)
    claim = message if isinstance(message, Claim) else message.claim
    if key != _key_of(claim):
        raise ForeignRecord(f"{_WHAT} about ranges {claim.child} and {claim.parent} has another key")
    return message


def _key_of(claim: Claim) -> bytes:
    return encode_key(claim.child) + encode_key(claim.parent)


def _sound(message: Exchange) -> Exchange:
    """Return the message. Raises ``ForeignRecord`` if its numbers and keys cannot be those of ranges."""
    claim = message if isinstance(message, Claim) else message.claim
    spans, walls = [claim.span], [claim.told_ms]
    if isinstance(message, HandOff):
        gaps = [gap for told in message.told_gaps or () for gap in told.gaps]
        spans += [gap.span for gap in gaps]
        spans += [message.span] if message.span is not None else []
        walls += [message.resolved.wall, *(gap.complete_to.wall for gap in gaps if gap.complete_to)]
    if min(claim.child, claim.parent) < 1 or min(walls) < 0 or any(start >= end for start, end in spans):
        raise ForeignRecord(f"{_WHAT} has a range, a time or keys that cannot be: tidegate did not write it")
    return message


def claim_message(claim: Claim) -> pb.Claim:
    """Return the stored message of a claim."""
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
    """Return the claim of a stored message."""
    span = Span(message.start, message.end)
    child, parent = RangeId(message.child), RangeId(message.parent)
    return Claim(child, parent, RaftIndex(message.last_index), span, message.told_ms)


def hand_off_message(hand_off: HandOff) -> pb.HandOff:
    """Return the stored message of a hand-off."""
    start, end = hand_off.span or (b"", b"")
    return pb.HandOff(
        claim=claim_message(hand_off.claim),
        resolved_wall=hand_off.resolved.wall,
        complete=hand_off.complete,
        start=start,
        end=end,
        lags=told_gaps_message(hand_off.told_gaps),
    )


def read_hand_off(message: pb.HandOff) -> HandOff:
    """Return the hand-off of a stored message."""
    resolved = ResolvedTimestamp(Timestamp(message.resolved_wall))
    span = Span(message.start, message.end) if message.end else None
    return HandOff(read_claim(message.claim), resolved, message.complete, span, read_told_gaps(message))
