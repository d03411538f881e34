"""The states of ranges before the steps that are not committed yet (docs/protocols/slow-sinks.md, K2).

A feed that is detached gets gaps from the oldest of these steps on: nobody knows which of its rows since then
are acknowledged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tidegate.changefeed.definition.feed import FeedId
from tidegate.hlc import ResolvedTimestamp
from tidegate.processor.feeds.partition_feed import PartitionFeed
from tidegate.raftlog.entry import RangeId
from tidegate.ranges.gap import Gap, Gaps, ToldGaps, amended, clipped, joined, remainder, told_of
from tidegate.ranges.handoff import Claim, HandOff, Hole, Promise
from tidegate.ranges.range_state import RangeState, RangeStatus
from tidegate.rows.table_key import watched_parts, without_tenant
from tidegate.spans import Span


class Earlier(NamedTuple):
    """A range as it was at an earlier moment.

    Its output was complete up to ``resolved``, except for the gaps of feeds in ``gaps``.
    """

    span: Span | None
    ended: bool
    resolved: ResolvedTimestamp
    gaps: Mapping[str, Gaps]
    promises: list[Promise]
    holes: list[Hole]
    hand_offs: frozenset[Claim]


_new: Final = tuple.__new__
_NO_CLAIMS: Final[frozenset[Claim]] = frozenset()
_NO_GAPS: Final[Mapping[str, Gaps]] = {}


def as_it_is(state: RangeState) -> Earlier:
    """Return the present state of the range. It shares the range's lists, which nobody changes in place."""
    quarantine = state.quarantine
    earlier = (
        state.span,
        state.status is RangeStatus.ENDED,
        state.resolver.resolved if quarantine is None else quarantine.resolved,
        dict(state.gaps) if state.gaps else _NO_GAPS,
        state.promises,
        state.holes,
        frozenset(state.hand_offs) if state.hand_offs else _NO_CLAIMS,
    )
    return _new(Earlier, earlier)  # half the cost of Earlier(...): it is made of each range in each step


@dataclass(slots=True)
class _Step:
    serial: int = 0
    noted: dict[RangeId, Earlier] = field(default_factory=dict)
    begun: set[FeedId] = field(default_factory=set)
    handed: list[tuple[RangeId, HandOff]] = field(default_factory=list)


class Journal:
    """The states of ranges before each step that is not committed, and the ranges that began since."""

    def __init__(self) -> None:
        self._steps: deque[_Step] = deque()
        self._now = _Step()

    def note(self, state: RangeState) -> None:
        """Note a range as it is, before its first change in this step."""
        self._now.noted[state.range_id] = as_it_is(state)

    def begin(self, feed_id: FeedId) -> None:
        """Note that the feed is activated in this step."""
        self._now.begun.add(feed_id)

    def inherit(self, range_id: RangeId, hand_offs: Iterable[HandOff]) -> None:
        """Note that a range has taken a snapshot in this step, and goes on where these parents handed off."""
        self._now.handed += [(range_id, hand_off) for hand_off in hand_offs]

    def end_step(self, serial: int) -> None:
        """End the step, and give it this number."""
        self._now.serial = serial
        self._steps.append(self._now)
        self._now = _Step()

    def committed(self, serial: int) -> None:
        """Forget the steps up to this one: they are durable, and their rows are acknowledged."""
        while self._steps and self._steps[0].serial <= serial:
            self._steps.popleft()

    def has_begun(self, feed_id: FeedId) -> bool:
        """Whether the feed was activated in a step that is not committed."""
        return any(feed_id in step.begun for step in self._uncommitted)

    def handed(self) -> dict[RangeId, list[HandOff]]:
        """Return, for each range, the hand-offs that it went on from in the steps that are not committed.

        They stand in the order of the steps.
        """
        handed: dict[RangeId, list[HandOff]] = {}
        for step in self._uncommitted:
            for range_id, hand_off in step.handed:
                handed.setdefault(range_id, []).append(hand_off)
        return handed

    def earlier(self, states: Iterable[RangeState]) -> dict[RangeId, Earlier]:
        """Return the ranges as they were before the first step that is not committed.

        Ranges that no such step has changed are as they are now. A range that began in such a
        step has no span.
        """
        noted: dict[RangeId, Earlier] = {}
        for step in self._uncommitted:
            for range_id, then in step.noted.items():
                noted.setdefault(range_id, then)
        return {
            state.range_id: noted[state.range_id] if state.range_id in noted else as_it_is(state)
            for state in states
        }

    @property
    def _uncommitted(self) -> Iterable[_Step]:
        return (*self._steps, self._now)


class Certainty:
    """The bound up to which a feed's rows are certainly acknowledged.

    The bound lies before the steps that are not committed: the ``journal`` tells what ``states`` were then.
    If the feed was activated in one of these steps, and wants versions from before that, none of its rows is
    certain.
    """

    def __init__(self, feed: PartitionFeed, states: Mapping[RangeId, RangeState], journal: Journal) -> None:
        self._feed = feed
        self._states = states
        self._begun = feed.can_miss_versions and journal.has_begun(feed.id)
        self._handed = journal.handed()
        self.then = then = journal.earlier(states.values())
        self._spans = [earlier for earlier in then.values() if earlier.span is not None and not earlier.ended]

    def gaps(self, state: RangeState, span: Span | None) -> Gaps:
        """Return the feed's gaps in keys of ``span``, which the range has now: all that is not certain.

        The range may have got some of these keys in the steps that are not committed.
        """
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
                found += self._since(state, rest, frozenset())
        return joined(found)

    def amended(
        self, state: RangeState, span: Span | None, told: tuple[ToldGaps, ...] | None
    ) -> tuple[ToldGaps, ...] | None:
        """Return the gaps in ``span`` that a range has ``told``, with this feed's gaps put in.

        They stay as they are if the feed watches none of these keys.
        """
        if span is None or not self._feed.watches(without_tenant(span)):
            return told
        return amended(told, self._feed.told_as, self.gaps(state, span))

    def was_told(self, hand_off: HandOff) -> bool:
        """Whether the parent noted the contents of a hand-off before the steps that are not committed.

        There may be several promises at one index: for example, if a range merges and is merged away
        immediately after. So their resolved timestamp and span are compared too.
        """
        claim = hand_off.claim
        parent, index, told = self.then[claim.parent], claim.last_index, (hand_off.resolved, hand_off.span)
        return any(
            promise.at == index and (promise.resolved, promise.span) == told for promise in parent.promises
        ) or any(hole.before < index <= hole.last_index for hole in parent.holes)

    def _of(self, state: RangeState, part: Span) -> Iterable[Earlier]:
        own = self.then.get(state.range_id)
        if own is not None and own.span is not None and not own.ended and own.span.intersect(part) == part:
            return (own,)
        return self._spans

    def _earlier(self, earlier: Earlier, span: Span) -> Iterator[Gap]:
        gaps = [*clipped(earlier.gaps.get(self._feed.id, ()), span)]
        yield from gaps
        for rest in remainder(span, (gap.span for gap in gaps)):
            if self._begun:
                yield self._whole(rest)
            elif not self._feed.scans_only:  # a feed that only scans wants nothing above its start
                yield Gap(rest, max(earlier.resolved, self._feed.start))

    def _since(self, state: RangeState, span: Span, heirs: frozenset[RangeId]) -> Iterator[Gap]:
        """Yield the feed's gaps in keys that no range here had before the steps that are not committed.

        The first hand-off that gave the range the keys in these steps decides (`_of_parent`). ``heirs`` are
        the ranges that got the keys from this one, so that a circle of hand-offs ends.
        """
        silent = [span]
        if not self._begun:
            for hand_off in self._handed.get(state.range_id, ()):
                told = () if hand_off.span is None else (hand_off.span,)
                for part in [each for left in silent for one in told if (each := left.intersect(one))]:
                    yield from self._of_parent(hand_off, part, heirs | {state.range_id})
                silent = [rest for left in silent for rest in remainder(left, told)]
        yield from map(self._whole, silent)

    def _of_parent(self, hand_off: HandOff, span: Span, heirs: frozenset[RangeId]) -> Iterator[Gap]:
        """Yield the feed's gaps in keys that a parent has handed off.

        A hand-off of a parent in another partition is certain. So is one that a parent in this partition
        noted before the steps that are not committed. Otherwise the parent's own hand-offs of these steps
        decide.
        """
        parent = self._states.get(hand_off.claim.parent)
        is_certain = parent is None or self.was_told(hand_off)
        if parent is not None and not is_certain and parent.range_id not in heirs:
            yield from self._since(parent, span, heirs)
        elif not is_certain or hand_off.resolved <= self._feed.start:
            yield self._whole(span)
        else:
            yield from self._told(hand_off, span)

    def _told(self, hand_off: HandOff, span: Span) -> Iterator[Gap]:
        """Yield the gaps that a certain hand-off leaves: those that it tells, and all above its time.

        A feed that it does not name may have been activated later there, so nothing is certain. A feed that
        cannot miss versions is named only if it was detached: if it is not named it had no gap, unless the
        parent has forgotten its promise.
        """
        gaps = told_of(self._feed.told_as, hand_off.told_gaps)
        if gaps is None and (self._feed.can_miss_versions or hand_off.told_gaps is None):
            yield self._whole(span)
            return
        told = [*clipped(gaps or (), span)]
        yield from told
        if not self._feed.scans_only:
            for rest in remainder(span, (gap.span for gap in told)):
                yield Gap(rest, hand_off.resolved)

    def _whole(self, span: Span) -> Gap:
        """Return the gap of a feed that was given nothing of these keys."""
        return Gap(span, None if self._feed.begins_with_scan else self._feed.start)
