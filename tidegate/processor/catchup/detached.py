"""Feeds whose sinks do not follow are detached, and attached again (docs/catch-up.md, K2 to K6)."""

from __future__ import annotations

import enum
from collections.abc import Container, Iterable, Iterator

from tidegate.changefeed.definition.feed import FeedId
from tidegate.hlc import Timestamp
from tidegate.processor.catchup.feed_gaps import FeedGaps
from tidegate.processor.feeds.journal import Certainty, Earlier
from tidegate.processor.feeds.partition_feed import PartitionFeed
from tidegate.processor.table.range_keys import is_gone, keys_of, keys_scanned, keys_to_come
from tidegate.processor.table.range_table import RangeTable
from tidegate.ranges.gap import Gap, clipped, joined, remainder
from tidegate.ranges.handoff import HandOff
from tidegate.ranges.range_state import RangeState
from tidegate.rows.table_key import watched_parts
from tidegate.spans import Span


class Detached(enum.Enum):
    """How a feed is given what its ranges commit while its sink does not follow."""

    SPOOLING = 1  # as if it were live; the gaps are for the case that what comes out is lost
    STALLED = 2  # nothing


class DetachedFeeds:
    """Detaches feeds of the ranges of ``table``; what they lack from then on goes to ``lagging``."""

    def __init__(self, table: RangeTable, lagging: FeedGaps) -> None:
        self._ranges = table.states
        self._touch = table.touch
        self._lagging = lagging
        self._detached: dict[FeedId, Detached] = {}

    def mode(self, feed_id: FeedId) -> Detached | None:
        """How a feed is given what ranges commit; ``None`` for one that is not detached."""
        return self._detached.get(feed_id)

    @property
    def feeds(self) -> frozenset[FeedId]:
        """All that are detached."""
        return frozenset(self._detached)

    def detach(self, feed: PartitionFeed, certain: Certainty) -> None:
        """Take the feed's rows for lost but for what is ``certain`` (K2).

        They go on coming out, unless it was catching up.
        """
        then = certain.then
        whole = feed.id not in self._lagging.feeds and not any(
            feed.id in earlier.lags for earlier in then.values()
        )
        self._detached[feed.id] = Detached.SPOOLING if whole else Detached.STALLED
        for state in [self._ranges[range_id] for range_id in then]:
            if keys_of(state) and not is_gone(state) and not then[state.range_id].ended:
                gaps = [*certain.gaps(state, state.span), *_lost_of_keys_to_come(feed, state)]
                self._lagging.set(self._touch(state.range_id), feed.id, joined(gaps))
            self._tell_heirs(state, certain, then[state.range_id])

    def _tell_heirs(self, state: RangeState, certain: Certainty, then: Earlier) -> None:
        """What was noted since then for ranges that go on from here is true no more."""
        promises = [
            promise
            if promise in then.promises
            else promise._replace(lags=certain.amended(state, promise.span, promise.lags))
            for promise in state.promises
        ]
        holes = [
            hole if hole in then.holes else hole._replace(lags=certain.amended(state, hole.span, hole.lags))
            for hole in state.holes
        ]
        hand_offs = {
            claim: hand_off if claim in then.hand_offs else self.amended(hand_off, certain)
            for claim, hand_off in state.hand_offs.items()
        }
        if (promises, holes, hand_offs) != (state.promises, state.holes, state.hand_offs):
            self._touch(state.range_id)
            state.promises, state.holes, state.hand_offs = promises, holes, hand_offs

    def amended(self, hand_off: HandOff, certain: Certainty) -> HandOff:
        """The hand-off as its parent would give it now; unchanged when that is of another partition."""
        parent = self._ranges.get(hand_off.claim.parent)
        if parent is None or certain.was_told(hand_off):
            return hand_off
        span = hand_off.span or hand_off.claim.span
        return hand_off._replace(lags=certain.amended(parent, span, hand_off.lags))

    def is_spooling(self, feed_id: FeedId) -> bool:
        """Whether all rows of a detached feed come out, so that it may be attached."""
        return self._detached.get(feed_id) is Detached.SPOOLING

    def stall(self, feed_id: FeedId) -> None:
        """Let nothing of a detached feed come out (K5)."""
        if feed_id in self._detached:
            self._detached[feed_id] = Detached.STALLED

    def attach(self, feed_id: FeedId) -> None:
        """Every row of a feed that is spooling was acknowledged: it lacks nothing (K4)."""
        del self._detached[feed_id]
        for state in list(self._ranges.values()):
            if feed_id in state.lags:
                self._lagging.set(self._touch(state.range_id), feed_id, ())

    def resume(self, feed_id: FeedId) -> None:
        """The sink of a detached feed takes rows again: let it catch up (K6)."""
        self._detached.pop(feed_id, None)

    def forget_but(self, active: Container[FeedId]) -> None:
        """The active feeds are others than before: those that are gone are not detached either."""
        for feed_id in [feed_id for feed_id in self._detached if feed_id not in active]:
            del self._detached[feed_id]


def lost_above(
    feed: PartitionFeed, spans: Iterable[Span], gaps: Iterable[Gap], certain: Timestamp
) -> Iterator[Gap]:
    """What a detached feed may lack of the keys of ``spans`` beside ``gaps``: all above ``certain``."""
    if feed.scans_only:
        return
    lacking = [gap.span for gap in gaps]
    for span in spans:
        for rest in remainder(span, lacking):
            for part in watched_parts(rest, feed.spans):
                yield Gap(part, max(certain, feed.start))


def _lost_of_keys_to_come(feed: PartitionFeed, state: RangeState) -> Iterator[Gap]:
    """What a detached feed may lack of keys that its range has not yet: what it lacked before, and all that a
    scan has brought."""
    lacking = [gap for part in keys_to_come(state) for gap in clipped(state.lags.get(feed.id, ()), part)]
    yield from lacking
    if state.scan is not None:
        yield from lost_above(feed, keys_scanned(state), lacking, state.scan.since)
