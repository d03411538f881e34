"""Makes feeds' gaps, and moves gaps with their keys (docs/protocols/catch-up.md#ranges-that-move).

A feed gets gaps when it is activated, and when keys come to a range of its log partition. ``detached.py``
makes the gaps of feeds that are detached.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tidegate.hlc import ZERO, Timestamp
from tidegate.processor.catchup.detached import DetachedFeeds, lost_above
from tidegate.processor.catchup.feed_gaps import FeedGaps
from tidegate.processor.feeds.feed_table import PartitionFeeds
from tidegate.processor.feeds.partition_feed import PartitionFeed
from tidegate.processor.feeds.served_feeds import ServedFeeds
from tidegate.processor.table.range_keys import is_gone, keys_known, keys_of
from tidegate.processor.table.range_table import RangeTable
from tidegate.ranges.gap import Gap, amended, clipped, joined, remainder, told_of
from tidegate.ranges.handoff import HandOff
from tidegate.ranges.range_state import RangeState
from tidegate.ranges.scan import RangeScan
from tidegate.rows.table_key import watched_parts
from tidegate.spans import Span


class MissingVersions:
    """Works out the gaps that feeds get in the ranges of ``table``, and puts them into ``gaps``.

    ``detached`` has the feeds whose rows may be lost: they get gaps where other feeds get none.
    """

    def __init__(
        self, feeds: PartitionFeeds, table: RangeTable, gaps: FeedGaps, detached: DetachedFeeds
    ) -> None:
        self._feeds = feeds
        self._table = table
        self._ranges = table.states
        self._touch = table.touch
        self._gaps = gaps
        self._detached = detached

    def begin(self, feed: PartitionFeed) -> None:
        """Give an activated feed gaps for the versions that it wants and that ranges have passed (C1)."""
        for state in list(self._ranges.values()):
            if is_gone(state):
                continue
            gaps = self._unseen(feed, state, keys_of(state))
            if gaps:
                self._gaps.set(self._touch(state.range_id), feed.id, joined(gaps))

    def inherit(self, state: RangeState, before: Iterable[Span], hand_offs: Iterable[HandOff]) -> None:
        """Give feeds the gaps in keys that came to a range with the snapshot that it has taken.

        The gaps in the keys ``before`` are known. All other keys of the range are new to it, and
        ``hand_offs`` of its parents tell what feeds miss there.
        """
        assert state.span is not None
        new, told = remainder(state.span, before), list(hand_offs)
        if self._table.journal is not None:
            self._table.journal.inherit(state.range_id, told)
        certain = min((hand_off.resolved for hand_off in told), default=ZERO)
        for feed in self._may_miss(state, told):
            gaps = self._with_inherited(feed, state, new, told)
            gaps += self._lost_if_detached(feed, gaps, new, certain)
            self._gaps.set(state, feed.id, joined(clipped(gaps, state.span)))

    def foresee(self, state: RangeState, scan: RangeScan) -> None:
        """Give feeds the gaps in keys that a range is going to scan to heal.

        A feed that misses more versions of these keys than the scan brings must not be given the scan's rows
        first. In keys that the range has, or has scanned before, the gaps are known.
        """
        new, told = remainder(scan.span, keys_known(state)), list(state.hand_offs.values())
        for feed in self._may_miss(state, told):
            gaps = self._with_inherited(feed, state, new, told)
            gaps += self._lost_if_detached(feed, gaps, new, scan.since)
            self._gaps.set(state, feed.id, joined(gaps))

    def _may_miss(self, state: RangeState, hand_offs: Sequence[HandOff]) -> Sequence[PartitionFeed]:
        """Return the active feeds that may miss versions of keys that come to a range.

        All other feeds have no gap, and get none. They are left out to save time: most feeds are among them,
        and when one range splits into thousands, each new range looks at each feed.
        """
        if any(map(_is_forgotten, hand_offs)):
            return self._feeds.active
        told = {each.feed for hand_off in hand_offs for each in hand_off.told_gaps or ()}
        known = {*state.gaps, *self._gaps.feeds, *self._detached.feeds}
        if not told and not known:
            return self._feeds.able_to_miss_versions
        return [
            feed
            for feed in self._feeds.active
            if feed.id in known or feed.told_as in told or feed.can_miss_versions
        ]

    def _lost_if_detached(
        self, feed: PartitionFeed, gaps: Sequence[Gap], new: Sequence[Span], certain: Timestamp
    ) -> list[Gap]:
        """Return the gaps, besides ``gaps``, that a feed gets in ``new`` keys because it is detached."""
        return [] if self._detached.mode(feed.id) is None else [*lost_above(feed, new, gaps, certain)]

    def _with_inherited(
        self, feed: PartitionFeed, state: RangeState, new: Sequence[Span], hand_offs: Sequence[HandOff]
    ) -> list[Gap]:
        """Return all gaps of a feed in a range that gets ``new`` keys.

        A spooling feed has to wait for a scan if it misses versions of these keys that the ranges of this
        partition did not give: such versions were never spooled.
        """
        gaps = state.gaps.get(feed.id, ())
        missing = [gap.span for gap in gaps]
        parts = [part for span in new for part in remainder(span, missing)]
        inherited = [gap for part in parts for gap in self._inherited(feed, state, part, hand_offs)]
        spooling = bool(inherited) and self._detached.is_spooling(feed.id)
        if spooling and self._misses_others_rows(feed, state, parts, hand_offs):
            self._detached.stall(feed.id)  # it cannot be attached: the spool does not have these rows
        return [*gaps, *inherited]

    def _misses_others_rows(
        self, feed: PartitionFeed, state: RangeState, parts: Iterable[Span], hand_offs: Iterable[HandOff]
    ) -> bool:
        """Whether a feed misses versions of new keys, besides those that ranges of this partition tell of.

        Rows of ranges of this partition came out while the feed was spooling, so they are not missing.
        """
        own = [
            hand_off._replace(told_gaps=amended(hand_off.told_gaps, feed.told_as, ()))
            if hand_off.claim.parent in self._ranges
            else hand_off
            for hand_off in hand_offs
        ]
        return any(True for part in parts for _ in self._inherited(feed, state, part, own))

    def _inherited(
        self, feed: PartitionFeed, state: RangeState, part: Span, hand_offs: Sequence[HandOff]
    ) -> Iterator[Gap]:
        """Yield the gaps of a feed in keys that came to a range.

        Where a hand-off names the feed, its gaps are those that the hand-off tells. In all other keys the
        feed gets the gaps of C1. A parent that has forgotten its promise may have had gaps of any feed: then
        a feed to which C1 gives no gaps gets some too, from its start on.
        """
        silent = [part]
        for hand_off in hand_offs:
            shared = None if hand_off.span is None else hand_off.span.intersect(part)
            told = None if shared is None else told_of(feed.told_as, hand_off.told_gaps)
            if shared is not None and told is not None:
                silent = [rest for span in silent for rest in remainder(span, (shared,))]
                yield from _wanted(feed, clipped(told, shared))
        if not feed.can_miss_versions and any(map(_is_forgotten, hand_offs)):
            # The feed may have been detached in the parent's partition, and nobody knows that any more.
            yield from (Gap(part, feed.start) for span in silent for part in watched_parts(span, feed.spans))
        yield from self._unseen(feed, state, silent)

    def _unseen(self, feed: PartitionFeed, state: RangeState, spans: Iterable[Span]) -> list[Gap]:
        """Return gaps of the keys in ``spans`` that the feed watches, if it wants versions from before."""
        if not feed.can_miss_versions or (
            not feed.begins_with_scan and self._gaps.has_nothing_above(state, feed.start)
        ):
            return []
        complete_to = None if feed.begins_with_scan else feed.start
        return [Gap(part, complete_to) for span in spans for part in watched_parts(span, feed.spans)]

    def look_at_feeds(self) -> None:
        """Take in a change of the active feeds. Feeds that are not active lose their gaps."""
        self._table.serves = ServedFeeds(self._feeds.active)
        active = {feed.id for feed in self._feeds.active}
        self._gaps.forget_but(active)
        self._detached.forget_but(active)


def _wanted(feed: PartitionFeed, gaps: Iterable[Gap]) -> Iterator[Gap]:
    """Yield the parts of told gaps that a feed wants: of keys that it watches, and above its start.

    A partition in which the feed failed before its start tells more than that.
    """
    for gap in gaps:
        complete_to = None if gap.complete_to is None else max(gap.complete_to, feed.start)
        for part in watched_parts(gap.span, feed.spans):
            yield Gap(part, complete_to)


def _is_forgotten(hand_off: HandOff) -> bool:
    """Whether the parent has forgotten the promise from which it would have made this hand-off.

    It knows that its rows are complete, but not for which keys or for which feeds. A hand-off without a span
    may have ``told_gaps`` all the same: those of a feed that was detached since.
    """
    return hand_off.complete and (hand_off.span is None or hand_off.told_gaps is None)
