"""Encodes and decodes what a range tells its children (its promises and holes) as a row of its own.

The row changes when the range splits, merges or breaks, and not with each step. Lists of feeds, and their
gaps, that come many times are stored once. Earlier versions had all of it in the range's own row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from tidegate.errors import StateMismatch
from tidegate.hlc import ZERO_RESOLVED, ResolvedTimestamp, Timestamp
from tidegate.processor.state import state_pb2 as pb
from tidegate.processor.state.gap_codec import gap_message, read_gap, read_told_gaps
from tidegate.processor.state.stored_frame import TOLD_VERSION, pack, unpack
from tidegate.raftlog.entry import RaftIndex
from tidegate.ranges.gap import Gaps, ToldGaps
from tidegate.ranges.handoff import Hole, Promise
from tidegate.ranges.range_state import RangeState
from tidegate.spans import Span

_NOT_KNOWN: Final = 0
#: How many encoded lists of gaps are cached. A range that splits stores up to 64 promises, most of them
#: again.
_ENCODED_MAX: Final = 256


def told_value(state: RangeState, most_bytes: int) -> bytes | None:
    """Return the stored form of what the range tells others, in at most ``most_bytes``; ``None`` for nothing.

    If it does not fit, the range forgets its oldest promises, and then what it knows of its oldest holes. A
    child whose claim needs one of these is told that nothing is known, and scans.
    """
    while state.promises or state.holes:
        stored = pack(_told_message(state.promises, state.holes), TOLD_VERSION)
        if len(stored) <= most_bytes or not _forget_some(state):
            return stored
    return None


def _forget_some(state: RangeState) -> bool:
    """Forget the older half of the promises. Without promises make the two oldest holes one unknown hole.

    Returns whether there was anything to forget.
    """
    if state.promises:
        state.promises = state.promises[len(state.promises) // 2 + len(state.promises) % 2 :]
    elif len(state.holes) > 1:
        first, second, *rest = state.holes
        state.holes = [Hole(first.before, second.last_index, None, ZERO_RESOLVED), *rest]
    elif state.holes[0].span is not None:
        (hole,) = state.holes
        state.holes = [Hole(hole.before, hole.last_index, None, ZERO_RESOLVED)]
    else:
        return False
    return True


def read_told(state: RangeState, value: bytes) -> None:
    """Put the promises and holes that `told_value` has stored into a range."""
    row = unpack(pb.Told, value, f"what range {state.range_id} tells others")
    sets = {number: tuple(feeds.feed_ids) for number, feeds in enumerate(row.feed_sets, 1)}
    told: list[tuple[ToldGaps, ...] | None] = [None]
    try:
        told += (_told_gaps(sets[each.feed_set], each.lacking) for each in row.lags)
        state.promises = [_promise(message, told[message.told]) for message in row.promises]
        state.holes = [_hole(message, told[message.told]) for message in row.holes]
    except LookupError:
        raise StateMismatch(
            f"what range {state.range_id} tells others is damaged: it refers to feeds that are not in it. "
            "Wipe the data directory to restore it"
        ) from None


def read_inline(row: pb.Range, state: RangeState) -> None:
    """Put into a range the promises and holes that an earlier version stored in the range's own row."""
    state.promises = [_promise(message, read_told_gaps(message)) for message in row.promises]
    state.holes = [_hole(message, read_told_gaps(message)) for message in row.holes]


class _FeedSets:
    """The lists of feeds, and of their gaps, that a message has so far, each under its number."""

    def __init__(self, message: pb.Told) -> None:
        self._message = message
        self._known: dict[int, int] = {}  # by the object's id, since most promises share one object
        self._told: dict[tuple[ToldGaps, ...], int] = {}
        self._sets: dict[tuple[str, ...], int] = {}

    def number_of(self, told: tuple[ToldGaps, ...] | None) -> int:
        """Return the number of these gaps in the message, and add them to it if they are new."""
        if told is None:
            return _NOT_KNOWN
        number = self._known.get(id(told))
        if number is None:
            number = self._told.get(told)
            if number is None:
                number = self._told[told] = len(self._told) + 1
                self._add(told)
            self._known[id(told)] = number
        return number

    def _add(self, told: tuple[ToldGaps, ...]) -> None:
        feeds, gaps = _encoded(told)
        if feeds not in self._sets:
            self._sets[feeds] = len(self._sets) + 1
            self._message.feed_sets.add(feed_ids=feeds)
        added = self._message.lags.add(feed_set=self._sets[feeds])
        added.MergeFromString(gaps)


@lru_cache(maxsize=_ENCODED_MAX)
def _encoded(told: tuple[ToldGaps, ...]) -> tuple[tuple[str, ...], bytes]:
    """Return the feeds that are named in ``told``, and the stored form of their gaps.

    Gaps that several feeds have alike are stored once.
    """
    places: dict[Gaps, list[int]] = {}
    for place, (_, gaps) in enumerate(told):
        if gaps:
            places.setdefault(gaps, []).append(place)
    message = pb.Lags()
    for gaps, feeds in places.items():
        message.lacking.add(feeds=feeds, gaps=map(gap_message, gaps))
    return tuple(each.feed for each in told), message.SerializeToString()


def _told_gaps(feeds: Sequence[str], stored: Iterable[pb.Lacking]) -> tuple[ToldGaps, ...]:
    gaps_at: dict[int, Gaps] = {}
    for message in stored:
        gaps_at |= dict.fromkeys(message.feeds, tuple(map(read_gap, message.gaps)))
    return tuple(ToldGaps(feed, gaps_at.get(place, ())) for place, feed in enumerate(feeds))


def _told_message(promises: Iterable[Promise], holes: Iterable[Hole]) -> pb.Told:
    message = pb.Told()
    sets = _FeedSets(message)
    for at, resolved, span, told, closed_wall in promises:
        start, end = span or (b"", b"")
        message.promises.add(
            index=at,
            resolved_wall=resolved.wall,
            start=start,
            end=end,
            told=sets.number_of(told),
            closed_wall=closed_wall,
        )
    for before, last_index, span, resolved, told in holes:
        start, end = span or (b"", b"")
        message.holes.add(
            before=before,
            last_index=last_index,
            resolved_wall=resolved.wall,
            start=start,
            end=end,
            told=sets.number_of(told),
        )
    return message


def _promise(message: pb.Promise, told: tuple[ToldGaps, ...] | None) -> Promise:
    return Promise(
        RaftIndex(message.index),
        _resolved(message.resolved_wall),
        span_of(message.start, message.end),
        told,
        message.closed_wall or message.resolved_wall,
    )


def _hole(message: pb.Hole, told: tuple[ToldGaps, ...] | None) -> Hole:
    span = span_of(message.start, message.end)
    return Hole(
        RaftIndex(message.before),
        RaftIndex(message.last_index),
        span,
        _resolved(message.resolved_wall),
        told,
    )


def span_of(start: bytes, end: bytes) -> Span | None:
    """Return the span of a message; ``None`` if it has no end, since each span has one."""
    return Span(start, end) if end else None


def _resolved(wall: int) -> ResolvedTimestamp:
    return ResolvedTimestamp(Timestamp(wall))
