"""What ranges were before the steps that are not committed yet (docs/catch-up.md, K2).

A feed that is detached is given up from the oldest of these steps on: nobody knows which of its rows since
then are acknowledged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from tidegate.changefeed.feed import FeedId
from tidegate.hlc import ResolvedTimestamp
from tidegate.processor.partition_feed import PartitionFeed
from tidegate.raftlog.entry import RangeId
from tidegate.rangefeed.gap import Gap, Gaps, clipped, joined, remainder
from tidegate.rangefeed.handoff import Claim, Hole, Promise
from tidegate.rangefeed.range_state import RangeState, RangeStatus
from tidegate.rows.table_key import watched_parts
from tidegate.spans import Span


class Earlier(NamedTuple):
    """A range as it was. Its output was complete up to ``resolved``, but for ``lags``."""

    span: Span | None
    ended: bool
    resolved: ResolvedTimestamp
    lags: Mapping[str, Gaps]
    promises: list[Promise]
    holes: list[Hole]
    hand_offs: frozenset[Claim]


def as_it_is(state: RangeState) -> Earlier:
    """The range now; the lists are never changed in place."""
    return Earlier(
        state.span,
        state.status is RangeStatus.ENDED,
        state.resolved,
        dict(state.lags),
        state.promises,
        state.holes,
        frozenset(state.hand_offs),
    )


class _Step(NamedTuple):
    serial: int
    noted: dict[RangeId, Earlier]
    begun: set[FeedId]


class Journal:
    """Notes ranges before they change, step by step, until their steps are committed."""

    def __init__(self) -> None:
        self._steps: deque[_Step] = deque()
        self._noted: dict[RangeId, Earlier] = {}
        self._begun: set[FeedId] = set()

    def note(self, state: RangeState) -> None:
        """The range is about to be changed for the first time in this step."""
        self._noted[state.range_id] = as_it_is(state)

    def begin(self, feed_id: FeedId) -> None:
        """The feed is activated in this step."""
        self._begun.add(feed_id)

    def end_step(self, serial: int) -> None:
        """The step with this number is over."""
        self._steps.append(_Step(serial, self._noted, self._begun))
        self._noted, self._begun = {}, set()

    def committed(self, serial: int) -> None:
        """The steps up to this one are durable, and their rows acknowledged."""
        while self._steps and self._steps[0].serial <= serial:
            self._steps.popleft()

    def has_begun(self, feed_id: FeedId) -> bool:
        """Whether the feed was activated in a step that is not committed."""
        return feed_id in self._begun or any(feed_id in step.begun for step in self._steps)

    def earlier(self, states: Iterable[RangeState]) -> dict[RangeId, Earlier]:
        """The ranges as they were before the first step that is not committed; those since then are new."""
        noted: dict[RangeId, Earlier] = {}
        for step in (*(step.noted for step in self._steps), self._noted):
            for range_id, then in step.items():
                noted.setdefault(range_id, then)
        return {
            state.range_id: noted[state.range_id] if state.range_id in noted else as_it_is(state)
            for state in states
        }


class Certainty:
    """Up to where a feed's rows are certain to be acknowledged, by what ranges were ``then``.

    Nothing is of a feed that has ``begun`` since, and wants versions from before that.
    """

    def __init__(self, feed: PartitionFeed, then: Mapping[RangeId, Earlier], *, begun: bool) -> None:
        self._feed = feed
        self._begun = begun
        self.then = then
        self._spans = [earlier for earlier in then.values() if earlier.span is not None and not earlier.ended]

    def gaps(self, state: RangeState, span: Span | None) -> Gaps:
        """What the feed may lack of keys of a range, which may have come to it since."""
        found: list[Gap] = []
        if span is None:
            return ()
        for part in watched_parts(span, self._feed.spans):
            silent = [part]
            for earlier in self._of(state, part):
                assert earlier.span is not None
                shared = earlier.span.intersect(part)
                if shared is not None:
                    found += self._earlier(earlier, shared)
                    silent = [rest for left in silent for rest in remainder(left, (shared,))]
            for rest in silent:
                found += self._unknown(state, rest)
        return joined(found)

    def was_told(self, claim: Claim) -> bool:
        """Whether what a range says to a claim was noted before these steps."""
        parent, index = self.then[claim.parent], claim.last_index
        return any(promise.at == index for promise in parent.promises) or any(
            hole.before < index <= hole.last_index for hole in parent.holes
        )

    def _of(self, state: RangeState, part: Span) -> Iterable[Earlier]:
        own = self.then.get(state.range_id)
        if own is not None and own.span is not None and not own.ended and own.span.intersect(part) == part:
            return (own,)
        return self._spans

    def _earlier(self, earlier: Earlier, span: Span) -> Iterator[Gap]:
        gaps = [*clipped(earlier.lags.get(self._feed.id, ()), span)]
        yield from gaps
        for rest in remainder(span, (gap.span for gap in gaps)):
            if self._begun:
                yield self._whole(rest)
            elif not self._feed.scans_only:  # which wants nothing above its start
                yield Gap(rest, max(earlier.resolved, self._feed.start))

    def _unknown(self, state: RangeState, span: Span) -> Iterator[Gap]:
        """Of keys that came from another partition what their ranges had resolved when they handed off."""
        known = None if self._begun or self._feed.id in state.inherited_lags else state.inherited
        if known is None or known <= self._feed.start:
            yield self._whole(span)
        elif not self._feed.scans_only:
            yield Gap(span, known)

    def _whole(self, span: Span) -> Gap:
        """The keys of a feed that was given none of them."""
        return Gap(span, None if self._feed.begins_with_scan else self._feed.start)
