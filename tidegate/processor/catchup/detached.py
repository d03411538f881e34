"""Detaches feeds whose sinks do not keep up, and attaches them again (docs/protocols/slow-sinks.md, K2 to
K6)."""

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
    """The state of a detached feed: it is given all rows and spools them, or no rows."""

    SPOOLING = 1  # all of them, like a live feed; its gaps count only if these rows are lost
    STALLED = 2  # none: it waits for a scan


class DetachedFeeds:
    """The detached feeds of one log partition, and the mode of each.

    ``table`` has the partition's ranges. The gaps of a detached feed go to ``gaps``.
    """

    def __init__(self, table: RangeTable, gaps: FeedGaps) -> None:
        self._ranges = table.states
        self._touch = table.touch
        self._gaps = gaps
        self._detached: dict[FeedId, Detached] = {}

    def mode(self, feed_id: FeedId) -> Detached | None:
        """Return the mode of a detached feed, ``None`` for a feed that is not detached."""
        return self._detached.get(feed_id)

    @property
    def feeds(self) -> frozenset[FeedId]:
        """The ids of all detached feeds."""
        return frozenset(self._detached)

    def detach(self, feed: PartitionFeed, certain: Certainty) -> None:
        """Give the feed gaps for all rows that are not ``certain`` to be acknowledged (K2).

        The feed is spooling from here on, so its rows still come out. If it has gaps already, or had some
        before the steps that are not committed, it waits for a scan instead (``STALLED``).
        """
        then = certain.then
        whole = feed.id not in self._gaps.feeds and not any(
            feed.id in earlier.gaps for earlier in then.values()
        )
        self._detached[feed.id] = Detached.SPOOLING if whole else Detached.STALLED
        for state in [self._ranges[range_id] for range_id in then]:
            if keys_of(state) and not is_gone(state) and not then[state.range_id].ended:
                gaps = [*certain.gaps(state, state.span), *_lost_of_keys_to_come(feed, state)]
                self._gaps.set(self._touch(state.range_id), feed.id, joined(gaps))
            self._tell_heirs(state, certain, then[state.range_id])

    def _tell_heirs(self, state: RangeState, certain: Certainty, then: Earlier) -> None:
        """Amend what this range has noted for its children in the steps that are not committed.

        Its promises, holes and hand-offs of these steps do not name the feed's new gaps yet.
        """
        promises = [
            promise
            if promise in then.promises
            else promise._replace(told_gaps=certain.amended(state, promise.span, promise.told_gaps))
            for promise in state.promises
        ]
        holes = [
            hole
            if hole in then.holes
            else hole._replace(told_gaps=certain.amended(state, hole.span, hole.told_gaps))
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
        """Return the hand-off with the gaps that its parent would name now.

        It stays as it is when the parent is in another partition, or noted it before the steps that are not
        committed.
        """
        parent = self._ranges.get(hand_off.claim.parent)
        if parent is None or certain.was_told(hand_off):
            return hand_off
        span = hand_off.span or hand_off.claim.span
        return hand_off._replace(told_gaps=certain.amended(parent, span, hand_off.told_gaps))

    def is_spooling(self, feed_id: FeedId) -> bool:
        """Whether the feed is detached and all its rows still come out, so that it may be attached."""
        return self._detached.get(feed_id) is Detached.SPOOLING

    def stall(self, feed_id: FeedId) -> None:
        """Stop giving versions to a detached feed (K5)."""
        if feed_id in self._detached:
            self._detached[feed_id] = Detached.STALLED

    def attach(self, feed_id: FeedId) -> None:
        """Make a spooling feed live again, and close its gaps (K4): its sink has acknowledged every row."""
        del self._detached[feed_id]
        for state in list(self._ranges.values()):
            if feed_id in state.gaps:
                self._gaps.set(self._touch(state.range_id), feed_id, ())

    def resume(self, feed_id: FeedId) -> None:
        """Let a detached feed catch up from its gaps (K6): its sink takes rows again."""
        self._detached.pop(feed_id, None)

    def forget_but(self, active: Container[FeedId]) -> None:
        """Forget the detached feeds that are not ``active`` any more."""
        for feed_id in [feed_id for feed_id in self._detached if feed_id not in active]:
            del self._detached[feed_id]


def lost_above(
    feed: PartitionFeed, spans: Iterable[Span], gaps: Iterable[Gap], certain: Timestamp
) -> Iterator[Gap]:
    """Yield gaps for the keys of ``spans`` that a detached feed watches and that are in none of its ``gaps``.

    Such a gap is complete up to ``certain``, or up to the feed's start if that is higher.
    """
    if feed.scans_only:
        return
    missing = [gap.span for gap in gaps]
    for span in spans:
        for rest in remainder(span, missing):
            for part in watched_parts(rest, feed.spans):
                yield Gap(part, max(certain, feed.start))


def _lost_of_keys_to_come(feed: PartitionFeed, state: RangeState) -> Iterator[Gap]:
    """Yield the gaps of a detached feed in keys that its range does not have yet.

    These are the gaps that it had there before, and gaps for everything that the range's scan has brought.
    """
    gaps = [gap for part in keys_to_come(state) for gap in clipped(state.gaps.get(feed.id, ()), part)]
    yield from gaps
    if state.scan is not None:
        yield from lost_above(feed, keys_scanned(state), gaps, state.scan.since)
