"""What ranges were before the steps that are not committed yet (docs/catch-up.md, K2).

A feed that is detached is given up from the oldest of these steps on: nobody knows which of its rows since
then are acknowledged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from tidegate.hlc import ResolvedTimestamp
from tidegate.processor.feeds import PartitionFeed
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


class Journal:
    """Notes ranges before they change, step by step, until their steps are committed."""

    def __init__(self) -> None:
        self._steps: deque[tuple[int, dict[RangeId, Earlier]]] = deque()
        self._noted: dict[RangeId, Earlier] = {}

    def note(self, state: RangeState) -> None:
        """The range is about to be changed for the first time in this step."""
        self._noted[state.range_id] = as_it_is(state)

    def end_step(self, serial: int) -> None:
        """The step with this number is over."""
        self._steps.append((serial, self._noted))
        self._noted = {}

    def committed(self, serial: int) -> None:
        """The steps up to this one are durable, and their rows acknowledged."""
        while self._steps and self._steps[0][0] <= serial:
            self._steps.popleft()

    def earlier(self, states: Iterable[RangeState]) -> dict[RangeId, Earlier]:
        """The ranges as they were before the first step that is not committed; those since then are new."""
        noted: dict[RangeId, Earlier] = {}
        for _, step in (*self._steps, (0, self._noted)):
            for range_id, then in step.items():
                noted.setdefault(range_id, then)
        return {
            state.range_id: noted[state.range_id] if state.range_id in noted else as_it_is(state)
            for state in states
        }


class Certainty:
    """Up to where a feed's rows are certain to be acknowledged, by what ranges were ``then``."""

    def __init__(self, feed: PartitionFeed, then: Mapping[RangeId, Earlier]) -> None:
        self._feed = feed
        self._then = then
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
            found += (self._unknown(state, rest) for rest in silent)
        return joined(found)

    def _of(self, state: RangeState, part: Span) -> Iterable[Earlier]:
        own = self._then.get(state.range_id)
        if own is not None and own.span is not None and not own.ended and own.span.intersect(part) == part:
            return (own,)
        return self._spans

    def _earlier(self, earlier: Earlier, span: Span) -> Iterator[Gap]:
        gaps = [*clipped(earlier.lags.get(self._feed.id, ()), span)]
        yield from gaps
        for rest in remainder(span, (gap.span for gap in gaps)):
            yield Gap(rest, max(earlier.resolved, self._feed.start))

    def _unknown(self, state: RangeState, span: Span) -> Gap:
        """Of keys that came from another partition what their ranges had resolved when they handed off."""
        known = state.inherited if self._feed.id not in state.inherited_lags else None
        if known is not None and known > self._feed.start:
            return Gap(span, known)
        return Gap(span, None if self._feed.begins_with_scan else self._feed.start)
