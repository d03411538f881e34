"""An index over the gaps in the ranges' state: which feeds have gaps in which ranges of a log partition."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field

from tidegate.changefeed.definition.feed import FeedId
from tidegate.hlc import Timestamp
from tidegate.processor.catchup.committed import CommittedVersions
from tidegate.processor.feeds.feed_table import PartitionFeeds
from tidegate.processor.feeds.partition_feed import FeedStatus, PartitionFeed
from tidegate.processor.table.range_table import RangeTable
from tidegate.raftlog.entry import RangeId
from tidegate.ranges.gap import Gaps
from tidegate.ranges.range_state import RangeState, RangeStatus


@dataclass(slots=True)
class FeedWithGaps:
    """A feed, and the ranges in which it has gaps. The range that has waited longest for a scan is first."""

    feed: PartitionFeed
    ranges: dict[RangeId, None] = field(default_factory=dict)


class FeedGaps:
    """The index of the feeds that have gaps, for the ranges of ``table``.

    ``is_behind`` says whether a range has entries that it has not applied. A feed with gaps parts from the
    others in ``committed``.
    """

    def __init__(
        self,
        feeds: PartitionFeeds,
        table: RangeTable,
        is_behind: Callable[[RangeId], bool],
        committed: CommittedVersions,
    ) -> None:
        self._feeds = feeds
        self._table = table
        self.is_behind = is_behind
        self._committed = committed
        self._with_gaps: dict[FeedId, FeedWithGaps] = {}
        self._caught_up = False

    @property
    def feeds(self) -> Mapping[FeedId, FeedWithGaps]:
        """The feeds that have a gap in any range. No checkpoint of the partition may name them."""
        return self._with_gaps

    def comes_last(self, feed_id: FeedId) -> None:
        """Move the feed to the end of the order, so that all others have their turns first."""
        self._with_gaps[feed_id] = self._with_gaps.pop(feed_id)

    def has_nothing_above(self, state: RangeState, timestamp: Timestamp) -> bool:
        """Whether a range surely has no version above ``timestamp``.

        That is certain only if the range can give checkpoints and has applied all its entries.
        """
        whole = state.checkpointable and not self.is_behind(state.range_id)
        return whole and state.high <= timestamp

    def set(self, state: RangeState, feed_id: FeedId, gaps: Gaps) -> None:
        """Set the gaps that a feed has in a range. An empty tuple closes them all."""
        if gaps:
            state.gaps[feed_id] = gaps
            if state.heard_ms is None:
                state.heard_ms = self._table.clock.elapsed_ms
        else:
            state.gaps.pop(feed_id, None)
        feed = self._feeds.get(feed_id)
        if feed is not None and feed.status is FeedStatus.ACTIVE:
            self._note(feed, state, {} if self._is_over(state) else state.gaps)

    def restore(self) -> None:
        """Index the gaps of restored ranges."""
        for state in self._table:
            self._index(state)

    def settle(self, touched: Iterable[RangeState]) -> bool:
        """Index the changed ranges anew.

        Returns whether any feed has closed its last gap in the partition since the last call (C6).
        """
        for state in touched:
            if state.gaps or self._with_gaps:
                self._index(state)
        caught_up, self._caught_up = self._caught_up, False
        return caught_up

    def forget_but(self, active: Container[FeedId]) -> None:
        """Drop the gaps of all feeds that are not ``active`` any more."""
        for feed_id in [feed_id for feed_id in self._with_gaps if feed_id not in active]:
            del self._with_gaps[feed_id]
        for state in list(self._table):
            for name in [name for name in state.gaps if name not in active]:
                del self._table.touch(state.range_id).gaps[name]

    def _index(self, state: RangeState) -> None:
        """Index the range with the feeds that have gaps in it, and with no other feed."""
        gaps = {} if self._is_over(state) else state.gaps
        for feed in self._feeds.active:
            self._note(feed, state, gaps)

    def _note(self, feed: PartitionFeed, state: RangeState, gaps: Mapping[str, Gaps]) -> None:
        """Add the range to those of the feed if ``gaps`` has gaps of the feed; otherwise take it out."""
        if feed.id in gaps:
            if feed.id not in self._with_gaps:
                self._with_gaps[feed.id] = FeedWithGaps(feed)
                self._committed.part(feed.id)
            self._with_gaps[feed.id].ranges.setdefault(state.range_id)
        elif (found := self._with_gaps.get(feed.id)) is not None and state.range_id in found.ranges:
            found.ranges.pop(state.range_id, None)
            if not found.ranges:
                del self._with_gaps[feed.id]
                self._caught_up = True

    def _is_over(self, state: RangeState) -> bool:
        """Whether the gaps of a range do not count: it has ended, or is quarantined without a backlog.

        Such a quarantined range may never come back, and then others have its keys. It gives no checkpoint
        until a Snapshot heals it. From then on its gaps count again.
        """
        broken = state.status is RangeStatus.QUARANTINED and not self.is_behind(state.range_id)
        return broken or state.status is RangeStatus.ENDED
