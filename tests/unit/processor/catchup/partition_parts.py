"""The parts of a log partition that know of feeds' gaps, with ranges that a test makes as it wants them."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tests.feeds import WITH_MARKERS, activation
from tests.hand_log import at, closed
from tests.unit.processor.logs import PLAIN
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.definition.options import InitialScan
from tidegate.changefeed.lifecycle.control import Register
from tidegate.hlc import ZERO, ResolvedTimestamp
from tidegate.processor.catchup.committed import CommittedVersions
from tidegate.processor.catchup.detached import DetachedFeeds
from tidegate.processor.catchup.feed_gaps import FeedGaps
from tidegate.processor.catchup.missing_versions import MissingVersions
from tidegate.processor.feeds.feed_control import take_up
from tidegate.processor.feeds.feed_table import PartitionFeeds
from tidegate.processor.feeds.journal import Certainty, Journal
from tidegate.processor.feeds.partition_feed import PartitionFeed
from tidegate.processor.feeds.version_rows import PartitionRows
from tidegate.processor.table.range_table import RangeTable
from tidegate.raftlog.entry import Offset, RaftIndex, RangeId
from tidegate.ranges.gap import Gap, ToldGaps
from tidegate.ranges.handoff import Claim, HandOff
from tidegate.ranges.range_state import RangeState, RangeStatus
from tidegate.spans import Span

#: Ranges of partition 0 of 2 have even ids.
HERE: Final = RangeId(4)
ELSEWHERE: Final = RangeId(5)
CHILD: Final = RangeId(2)
MIDDLE: Final = PLAIN.key(100)
LOW, HIGH = PLAIN.split(100)


class Parts:
    """Partition 0 of 2: its feeds on one table, its ranges, and what feeds miss in these."""

    def __init__(self) -> None:
        self.feeds = PartitionFeeds(0)
        self.table = RangeTable(0, 2, None, Journal())
        self.behind: set[RangeId] = set()
        self.committed = CommittedVersions()
        self.gaps = FeedGaps(self.feeds, self.table, self.behind.__contains__, self.committed)
        self.detached = DetachedFeeds(self.table, self.gaps)
        self.missing = MissingVersions(self.feeds, self.table, self.gaps, self.detached)
        self.rows, self._messages, self._serial = PartitionRows(), 0, 0

    def feed(
        self, name: str, *, cursor: float | None = None, scan: InitialScan = InitialScan.NO, start: float = 0
    ) -> PartitionFeed:
        """Activate a feed. It has no gaps yet."""
        options = replace(WITH_MARKERS, cursor=None if cursor is None else at(cursor), initial_scan=scan)
        first = at(start if cursor is None else cursor)
        message = activation([PLAIN.descriptor], options, start=first, feed_id=name)
        for each in (Register(message.definition), message):
            take_up(self.feeds, each, Offset(self._messages), ZERO, self.rows, ())
            self._messages += 1
        self.missing.look_at_feeds()
        return self.feeds[FeedId(name)]

    def committed_so_far(self) -> None:
        """Everything up to here is durable, and acknowledged."""
        assert self.table.journal is not None
        self._serial += 1
        self.table.journal.end_step(self._serial)
        self.table.journal.committed(self._serial)
        self.table.touched.clear()

    def certain(self, feed: PartitionFeed) -> Certainty:
        assert self.table.journal is not None
        return Certainty(feed, self.table.states, self.table.journal)

    def detach(self, feed: PartitionFeed) -> None:
        self.detached.detach(feed, self.certain(feed))

    def range(
        self, range_id: RangeId, span: Span = PLAIN.span, *, high: float = 5, resolved: float = 0
    ) -> RangeState:
        """A live range."""
        state = self.table.touch(range_id)
        state.span, state.status, state.high = span, RangeStatus.LIVE, at(high)
        state.resolver.initialise()
        state.resolver.forward_closed(closed(resolved))
        return state


def hand_off(
    parent: RangeId,
    resolved: float,
    told: tuple[ToldGaps, ...] | None = (),
    span: Span | None = PLAIN.span,
    *,
    complete: bool = True,
) -> HandOff:
    """A hand-off to the child."""
    claim = Claim(CHILD, parent, RaftIndex(7), PLAIN.span)
    return HandOff(claim, ResolvedTimestamp(at(resolved)), complete, span, told)


def told(name: str, complete_to: float | None, span: Span = PLAIN.span) -> ToldGaps:
    """One gap of a feed, as ranges tell it."""
    return ToldGaps(name, (Gap(span, None if complete_to is None else at(complete_to)),))
