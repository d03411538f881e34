"""What feeds lack of the ranges of one log partition: how gaps come, move and go (docs/catch-up.md)."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tidegate.changefeed.feed import FeedId
from tidegate.hlc import ZERO, Timestamp
from tidegate.processor.committed import CommittedVersions
from tidegate.processor.feeds import PartitionFeeds
from tidegate.processor.journal import Certainty, Earlier
from tidegate.processor.partition_feed import PartitionFeed
from tidegate.processor.range_table import RangeTable
from tidegate.raftlog.entry import RangeId
from tidegate.rangefeed.gap import Gap, Gaps, Lag, clipped, joined, remainder
from tidegate.rangefeed.handoff import HandOff
from tidegate.rangefeed.range_state import RangeState, RangeStatus
from tidegate.rangefeed.scan import RangeScan
from tidegate.rows.table_key import watched_parts
from tidegate.spans import Span


class Detached(enum.Enum):
    """How a feed is given what its ranges commit while its sink does not follow."""

    SPOOLING = 1  # as if it were live; the gaps are for the case that what comes out is lost
    STALLED = 2  # nothing


@dataclass(slots=True)
class LaggingFeed:
    """A feed, and the ranges in which it lags, those that waited longest first."""

    feed: PartitionFeed
    ranges: dict[RangeId, None] = field(default_factory=dict)


class Lags:
    """Of the ranges of ``table``; ``is_behind`` says whether one has entries that it has not applied. Feeds
    that lag part from the others in ``committed``."""

    def __init__(
        self,
        feeds: PartitionFeeds,
        table: RangeTable,
        is_behind: Callable[[RangeId], bool],
        committed: CommittedVersions,
    ) -> None:
        self._feeds = feeds
        self._table = table
        self._ranges = table.states
        self._touch = table.touch
        self._is_behind = is_behind
        self._committed = committed
        self._lagging: dict[FeedId, LaggingFeed] = {}
        self._detached: dict[FeedId, Detached] = {}
        self._caught_up = False

    @property
    def feeds(self) -> Mapping[FeedId, LaggingFeed]:
        """The feeds that have a gap in any range: no checkpoint may name them."""
        return self._lagging

    def is_catching_up(self, feed: PartitionFeed) -> bool:
        """Whether it lags, and its sink takes rows."""
        lagging = self._lagging.get(feed.id)
        return lagging is not None and lagging.feed is feed and feed.id not in self._detached

    def comes_last(self, feed_id: FeedId) -> None:
        """All others have their turns first."""
        self._lagging[feed_id] = self._lagging.pop(feed_id)

    def mode(self, feed_id: FeedId) -> Detached | None:
        """How a feed is given what ranges commit; ``None`` for one that is not detached."""
        return self._detached.get(feed_id)

    # ---- gaps come and go ----

    def restore(self) -> None:
        """Note the gaps of restored ranges."""
        for state in self._ranges.values():
            self._index(state)

    def begin(self, feed: PartitionFeed) -> None:
        """The feed was activated, and lacks everything that its ranges have passed and that it wants (C1)."""
        for state in list(self._ranges.values()):
            if _is_gone(state):
                continue
            gaps = self._unseen(feed, state, _seen(state))
            if gaps:
                self.set(self._touch(state.range_id), feed.id, joined(gaps))

    def inherit(self, state: RangeState, before: Span | None, hand_offs: Iterable[HandOff]) -> None:
        """The range has taken a snapshot; ``before`` are the keys that it had, the others came to it."""
        assert state.span is not None
        new, told = _not_in(before, state.span), list(hand_offs)
        certain = min((hand_off.resolved for hand_off in told), default=ZERO)
        for feed in self._feeds.active:
            gaps = self._with_inherited(feed, state, new, told)
            gaps += self._lost_if_detached(feed, gaps, new, certain)
            self.set(state, feed.id, joined(clipped(gaps, state.span)))

    def foresee(self, state: RangeState, scan: RangeScan) -> None:
        """The range is going to scan for what was missed. A feed that lacks more of its keys than the scan
        brings must not be given the scan's rows first."""
        new, told = _not_in(state.span, scan.span), list(state.hand_offs.values())
        for feed in self._feeds.active:
            gaps = self._with_inherited(feed, state, new, told)
            gaps += self._lost_if_detached(feed, gaps, new, scan.since)
            self.set(state, feed.id, joined(gaps))

    def _lost_if_detached(
        self, feed: PartitionFeed, gaps: Sequence[Gap], new: Sequence[Span], certain: Timestamp
    ) -> list[Gap]:
        """What a detached feed may lack of ``new`` keys beside ``gaps``: all above ``certain`` that comes out
        while it is detached."""
        if feed.id not in self._detached or feed.scans_only:
            return []
        lacking = [gap.span for gap in gaps]
        rests = (rest for span in new for rest in remainder(span, lacking))
        parts = (part for rest in rests for part in watched_parts(rest, feed.spans))
        return [Gap(part, max(certain, feed.start)) for part in parts]

    def _with_inherited(
        self, feed: PartitionFeed, state: RangeState, new: Sequence[Span], hand_offs: Sequence[HandOff]
    ) -> list[Gap]:
        """What a feed lacks in a range that is given ``new`` keys, some of them in its gaps already."""
        gaps = state.lags.get(feed.id, ())
        lacking = [gap.span for gap in gaps]
        parts = [part for span in new for part in remainder(span, lacking)]
        inherited = [gap for part in parts for gap in self._inherited(feed, state, part, hand_offs)]
        if inherited:
            state.inherited_lags.add(feed.id)
            if self.is_spooling(feed.id) and self._lacks_others_rows(feed, state, parts, hand_offs):
                self.stall(feed.id)  # what is lacking here was never spooled
        return [*gaps, *inherited]

    def _lacks_others_rows(
        self, feed: PartitionFeed, state: RangeState, parts: Iterable[Span], hand_offs: Iterable[HandOff]
    ) -> bool:
        """Whether a feed lacks more of new keys than ranges here have told: rows of those came out."""
        own = [
            hand_off._replace(lags=_amended(hand_off.lags, feed.id, ()))
            if hand_off.claim.parent in self._ranges
            else hand_off
            for hand_off in hand_offs
        ]
        return any(True for part in parts for _ in self._inherited(feed, state, part, own))

    def _inherited(
        self, feed: PartitionFeed, state: RangeState, part: Span, hand_offs: Sequence[HandOff]
    ) -> Iterator[Gap]:
        """What a feed lacks of keys that came to a range: what it was told, and all that nobody spoke of.

        A parent that has forgotten what it promised may have had gaps of any feed.
        """
        silent = [part]
        for hand_off in hand_offs:
            shared = None if hand_off.span is None else hand_off.span.intersect(part)
            if shared is None:
                if hand_off.span is None and hand_off.complete and not feed.can_lag:
                    yield from (Gap(watched, feed.start) for watched in watched_parts(part, feed.spans))
                continue
            told = _told_of(feed, hand_off)
            if told is not None:
                silent = [rest for span in silent for rest in remainder(span, (shared,))]
                yield from clipped(told, shared)
        if not feed.can_lag and any(hand_off.complete and hand_off.lags is None for hand_off in hand_offs):
            # It may have been detached there, and nobody knows any more.
            yield from (Gap(part, feed.start) for span in silent for part in watched_parts(span, feed.spans))
        yield from self._unseen(feed, state, silent)

    def _unseen(self, feed: PartitionFeed, state: RangeState, spans: Iterable[Span]) -> list[Gap]:
        """Gaps of all keys in ``spans`` that the feed watches, if it wants versions that have passed."""
        if not feed.can_lag or (not feed.begins_with_scan and self.has_nothing_above(state, feed.start)):
            return []
        complete_to = None if feed.begins_with_scan else feed.start
        return [Gap(part, complete_to) for span in spans for part in watched_parts(span, feed.spans)]

    def has_nothing_above(self, state: RangeState, timestamp: Timestamp) -> bool:
        """Whether a range is whole, and no version of it stands above a timestamp."""
        whole = state.checkpointable and not self._is_behind(state.range_id)
        return whole and state.high <= timestamp

    def settle(self, touched: Iterable[RangeState]) -> bool:
        """Note which of the changed ranges still have gaps; whether a feed has come to have none (C6)."""
        for state in touched:
            if state.lags or self._lagging:
                self._index(state)
        caught_up, self._caught_up = self._caught_up, False
        return caught_up

    def look_at_feeds(self) -> None:
        """The active feeds are others than before: those that are gone lack nothing."""
        self._table.serves = tuple(feed.id for feed in self._feeds.active if feed.can_lag)
        active = {feed.id for feed in self._feeds.active}
        for feed_id in {*self._lagging, *self._detached} - active:
            self._lagging.pop(feed_id, None)
            self._detached.pop(feed_id, None)
        for state in list(self._ranges.values()):
            for name in state.lags.keys() - active:
                del self._touch(state.range_id).lags[name]

    def set(self, state: RangeState, feed_id: FeedId, gaps: Gaps) -> None:
        """The feed lacks this of a range."""
        if gaps:
            state.lags[feed_id] = gaps
        else:
            state.lags.pop(feed_id, None)
        self._index(state)

    def _index(self, state: RangeState) -> None:
        """Note the range with the feeds that lag in it, and with no other."""
        lags = {} if self._is_over(state) else state.lags
        for feed in self._feeds.active:
            if feed.id in lags:
                if feed.id not in self._lagging:
                    self._lagging[feed.id] = LaggingFeed(feed)
                    self._committed.part(feed.id)
                self._lagging[feed.id].ranges.setdefault(state.range_id)
            elif (lagging := self._lagging.get(feed.id)) is not None and state.range_id in lagging.ranges:
                lagging.ranges.pop(state.range_id, None)
                if not lagging.ranges:
                    del self._lagging[feed.id]
                    self._caught_up = True

    def _is_over(self, state: RangeState) -> bool:
        """Whether nothing is lacking here: it has ended, or broke, and may never come back; then others have
        its keys. When it does come back its gaps count again, and until then it gives no checkpoint."""
        broken = state.status is RangeStatus.QUARANTINED and not self._is_behind(state.range_id)
        return broken or state.status is RangeStatus.ENDED

    # ---- feeds whose sinks do not follow

    def detach(self, feed: PartitionFeed, certain: Certainty) -> None:
        """Take the feed's rows for lost but for what is ``certain`` (K2).

        They go on coming out, unless it was catching up.
        """
        then = certain.then
        whole = feed.id not in self._lagging and not any(feed.id in earlier.lags for earlier in then.values())
        self._detached[feed.id] = Detached.SPOOLING if whole else Detached.STALLED
        for state in [self._ranges[range_id] for range_id in then]:
            if _seen(state) and not _is_gone(state) and not then[state.range_id].ended:
                gaps = [*certain.gaps(state, state.span), *_lost_of_scan(feed, state)]
                self.set(self._touch(state.range_id), feed.id, joined(gaps))
            self._tell_heirs(state, feed.id, certain, then[state.range_id])

    def _tell_heirs(self, state: RangeState, feed_id: FeedId, certain: Certainty, then: Earlier) -> None:
        """What was noted since then for ranges that go on from here is true no more."""
        promises = [
            promise
            if promise in then.promises
            else promise._replace(lags=_amended(promise.lags, feed_id, certain.gaps(state, promise.span)))
            for promise in state.promises
        ]
        holes = [
            hole
            if hole in then.holes
            else hole._replace(lags=_amended(hole.lags, feed_id, certain.gaps(state, hole.span)))
            for hole in state.holes
        ]
        hand_offs = {
            claim: hand_off if claim in then.hand_offs else self.amended(hand_off, feed_id, certain)
            for claim, hand_off in state.hand_offs.items()
        }
        if (promises, holes, hand_offs) != (state.promises, state.holes, state.hand_offs):
            self._touch(state.range_id)
            state.promises, state.holes, state.hand_offs = promises, holes, hand_offs

    def amended(self, hand_off: HandOff, feed_id: FeedId, certain: Certainty) -> HandOff:
        """The hand-off as its parent would give it now; unchanged when that is of another partition."""
        parent = self._ranges.get(hand_off.claim.parent)
        if parent is None or certain.was_told(hand_off.claim):
            return hand_off
        gaps = certain.gaps(parent, hand_off.span or hand_off.claim.span)
        return hand_off._replace(lags=_amended(hand_off.lags, feed_id, gaps))

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
                self.set(self._touch(state.range_id), feed_id, ())

    def resume(self, feed_id: FeedId) -> None:
        """The sink of a detached feed takes rows again: let it catch up (K6)."""
        self._detached.pop(feed_id, None)


def _amended(lags: Iterable[Lag] | None, feed_id: FeedId, gaps: Gaps) -> tuple[Lag, ...]:
    return (*(lag for lag in lags or () if lag.feed != feed_id), Lag(feed_id, gaps))


def _is_gone(state: RangeState) -> bool:
    """Whether a range has ended, and has said all that it has to say to those that go on from it.

    One that ended in a hole says later what feeds lack there.
    """
    return state.status is RangeStatus.ENDED and state.quarantine is None


def _seen(state: RangeState) -> list[Span]:
    """The keys that a range has, and those that it scans for and will have."""
    own = [] if state.span is None else [state.span]
    return own if state.scan is None else own + _not_in(state.span, state.scan.span)


def _lost_of_scan(feed: PartitionFeed, state: RangeState) -> Iterator[Gap]:
    """What a detached feed may lack of keys that its range has not yet and scans for: all that the scan has
    brought, beside what it lacked before."""
    if state.scan is None:
        return
    for part in _not_in(state.span, state.scan.span):
        lacking = [*clipped(state.lags.get(feed.id, ()), part)]
        yield from lacking
        for rest in remainder(part, [gap.span for gap in lacking]) if not feed.scans_only else ():
            for watched in watched_parts(rest, feed.spans):
                yield Gap(watched, max(state.scan.since, feed.start))


def _not_in(before: Span | None, span: Span) -> list[Span]:
    """The keys of ``span`` that a range had not ``before``."""
    return [span] if before is None else remainder(span, (before,))


def _told_of(feed: PartitionFeed, hand_off: HandOff) -> Gaps | None:
    """What a hand-off says that the feed lacks; ``None`` when it says nothing of it."""
    for lag in hand_off.lags or ():
        if lag.feed == feed.id:
            return lag.gaps
    return None
