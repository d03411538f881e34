"""Writes rows of ranges at rest, which are most of a log's ranges, without a protobuf message for each.

Each heartbeat of a range changes its row, but only the position and two timestamps in it. So the bytes before
and after these are kept with the range. The rows are those of ``state_codec.range_row``.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Final

from tidegate.processor.batch import StateChange, StateTable
from tidegate.processor.state import state_pb2 as pb
from tidegate.processor.state.stored_frame import WRITTEN_VERSION
from tidegate.raftlog.encode import encode_key
from tidegate.raftlog.entry import Offset
from tidegate.ranges.range_state import BytesAtRest, RangeState, RangeStatus

#: The things of which a range at rest has none.
_EXTRAS: Final = attrgetter(
    "quarantine",
    "pending_heartbeat",
    "floors",
    "hand_offs",
    "claims",
    "heirs",
    "gaps",
    "mutated",
    "chunks",
    "stored_chunks",
    "promises",
    "holes",
    "awaits_snapshot",
)
#: The fields that stand in the row of a range at rest and seldom change.
_MARKS: Final = attrgetter(
    "generation",
    "applied",
    "span",
    "gc_threshold",
    "high",
    "closed_regressions",
    "refused_chunks",
    "unseen",
    "accounted",
)
_new: Final = tuple.__new__
_VERSION: Final = bytes((WRITTEN_VERSION,))
_BYTES: Final = [bytes((number,)) for number in range(0x80)]
#: The varints that stand before a number (wire type 0) in the fields of `Range` in state.proto.
_TAGS: Final = [
    bytes((field << 3,)) if field < 16 else bytes((field << 3 & 0x7F | 0x80, field >> 4))
    for field in range(31)
]


def is_at_rest(state: RangeState) -> bool:
    """Whether a range is live, waits for nothing, and keeps nothing for feeds and other ranges."""
    return (
        state.status is RangeStatus.LIVE
        and not any(_EXTRAS(state))
        and state.span is not None
        and state.scan is None
        and state.behind is None
        and state.waits_since_ms is None
        and state.heard_ms is None
        and state.claimed_since_ms is None
    )


class RowsAtRest:
    """The rows of ranges at rest as they are at one position of the log, ``offset``."""

    def __init__(self, offset: Offset) -> None:
        self._begin = _VERSION + pb.Range(offset=offset).SerializeToString()
        #: Ranges of one store close the same timestamps.
        self._times: dict[tuple[int, int, int], bytes] = {}

    def row(self, state: RangeState) -> StateChange | None:
        """Return the row of a range that ``is_at_rest``; ``None`` if it has more to store."""
        resolver = state.resolver
        marks = (*_MARKS(state), len(resolver.queue))
        kept = state.bytes_at_rest
        if kept is None or kept.marks != marks:
            state.bytes_at_rest = None
            if (
                resolver.closed.wall <= 0
                or resolver.resolved.wall <= 0
                or state.accounted.says_more(state.applied)
            ):
                return None
            state.bytes_at_rest = _bytes_of(state, marks, kept)
        return self.row_again(state)

    def row_again(self, state: RangeState) -> StateChange | None:
        """Return the row of a range that was at rest when its last row was written, and has closed more.

        Return ``None`` if it was not at rest.
        """
        kept = state.bytes_at_rest
        if kept is None:
            return None
        resolver = state.resolver
        wall, logical = resolver.closed
        resolved = resolver.resolved[0]
        times = self._times.get((wall, logical, resolved))
        if times is None:
            times = self._times[wall, logical, resolved] = _times(wall, logical, resolved)
        value = self._begin + kept.before + times + kept.behind
        return _new(StateChange, (StateTable.RANGES, kept.key, value))


def _bytes_of(state: RangeState, marks: tuple[object, ...], before: BytesAtRest | None) -> BytesAtRest:
    """Return the bytes for new ``marks``. A commit changes the index and the highest time, and no keys."""
    span = state.span
    if before is None or before.span is not span:
        assert span is not None
        key = encode_key(state.range_id)
        keys = pb.Range(start=span.start, end=span.end, status=state.status.value).SerializeToString()
    else:
        key, keys = before.key, before.keys
    gc_threshold, high = state.gc_threshold, state.high
    return BytesAtRest(
        marks,
        span,
        key,
        keys,
        _field(2, state.generation) + _field(3, state.applied) + keys,
        _field(10, gc_threshold.wall)
        + _field(11, gc_threshold.logical)
        + _field(12, high.wall)
        + _field(13, high.logical)
        + _field(15, state.closed_regressions)
        + _field(20, len(state.resolver.queue))
        + _field(27, state.unseen)
        + _field(30, state.refused_chunks),
    )


def _field(field: int, number: int) -> bytes:
    """Return a field with a number of 0 or more. The field is not written if the number is 0."""
    return _TAGS[field] + _varint(number) if number else b""


def _times(wall: int, logical: int, resolved: int) -> bytes:
    return _field(7, wall) + _field(8, logical) + _field(9, resolved)


def _varint(number: int) -> bytes:
    if number < 0x80:
        return _BYTES[number]
    if number < 0x4000:
        return bytes((number & 0x7F | 0x80, number >> 7))
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)
