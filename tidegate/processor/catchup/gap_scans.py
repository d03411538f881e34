"""The scans by which feeds of one log partition catch up (docs/protocols/catch-up.md).

The gaps of feeds are part of the ranges' state (``missing_versions.py``). The scans that are under way, and
the versions that they hold, are in memory alone: after a restart scans are asked for again, from the gaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import Final, NamedTuple

from tidegate.changefeed.definition.feed import FeedId
from tidegate.hlc import ZERO, Timestamp
from tidegate.processor.catchup.catch_up_scan import CatchUpScan
from tidegate.processor.catchup.committed import CommittedVersions, scanned_version
from tidegate.processor.catchup.detached import Detached, DetachedFeeds
from tidegate.processor.catchup.feed_gaps import FeedGaps, FeedWithGaps
from tidegate.processor.feeds.partition_feed import FeedStatus, PartitionFeed
from tidegate.processor.feeds.row_reckoning import RowReckoning
from tidegate.processor.table.quarantine import Quarantines
from tidegate.processor.table.range_table import RangeTable
from tidegate.processor.table.silence import SILENT_MS, is_silent
from tidegate.raftlog.entry import Offset, RangeId, ScanChunk
from tidegate.raftlog.request import Scan
from tidegate.ranges.gap import Gap, joined, outside
from tidegate.ranges.range_state import RangeState, RangeStatus
from tidegate.ranges.scan import SCAN_REPEAT_MS
from tidegate.ranges.version import Version
from tidegate.spans import Span

#: The most ranges of a feed that a step looks at to find one that can be scanned.
_LOOKED_AT: Final = 256
#: A range that is scanned counts as silent only when its scan has brought nothing for this much elapsed log
#: time.
_ASKED_MS: Final = 2 * SCAN_REPEAT_MS
#: A scan stands when it has brought nothing for this long, even if no later request was answered.
_STANDS_MS: Final = SILENT_MS
#: The most scans that may be under way for each scan that the limit allows. Scans that stand are counted
#: here.
_WITH_STANDING: Final = 16


@dataclass(frozen=True, slots=True)
class CatchUpLimits:
    """The bounds of a partition's scans: how many may be under way, and how many bytes of versions they hold.

    A scan *stands* while the source does not answer it. ``scans`` bounds the scans that do not stand. All
    scans together may be 16 times as many. ``held_row_bytes`` is about how many bytes of rows may be made of
    the held versions.
    """

    scans: int = 4
    held_bytes: int = 64 << 20
    held_row_bytes: int = 512 << 20


class Overtaken(NamedTuple):
    """A feed that may never be given all its missing versions.

    It misses versions above ``complete_to``, which is its start if it waits for an initial scan. The source
    may have removed versions below ``threshold``, the range's GC threshold, which is higher.
    """

    feed_id: FeedId
    range_id: RangeId
    complete_to: Timestamp
    threshold: Timestamp


class StandingScan(NamedTuple):
    """A scan of a range that has brought nothing for ``waits_ms`` of elapsed log time.

    ``request_id`` is the last request for it.
    """

    range_id: RangeId
    request_id: int
    waits_ms: int


class FeedGapStatus(NamedTuple):
    """The status of a feed that has gaps in ``ranges`` ranges of a partition.

    ``complete_to`` is the lowest ``complete_to`` of its gaps there, ``None`` while any of them waits for the
    initial scan. ``waiting`` is the range with that gap. ``scans`` scans of the feed are under way, and hold
    versions of ``held_bytes``. ``reserve_ns`` is the smallest distance, in nanoseconds, from a range's GC
    threshold up to where a gap is complete; ``None`` while no Snapshot of these ranges has told a threshold.
    ``standing`` is the scan that has brought nothing for the longest time, ``None`` when none is under way.
    """

    feed_id: FeedId
    ranges: int
    complete_to: Timestamp | None
    waiting: RangeId
    scans: int
    held_bytes: int
    reserve_ns: int | None
    standing: StandingScan | None = None


class GapScans:
    """The catch-up scans of one log partition, one in a range at most.

    They are for the feeds that are in ``gaps`` and not in ``detached``, in the ranges of ``table``. The
    versions that they bring go to ``committed``.
    """

    def __init__(
        self,
        gaps: FeedGaps,
        detached: DetachedFeeds,
        table: RangeTable,
        committed: CommittedVersions,
        quarantines: Quarantines,
        limits: CatchUpLimits,
        reckoning: RowReckoning,
    ) -> None:
        self._gaps = gaps
        self._detached = detached
        self._ranges = table.states
        self._touch = table.touch
        self._clock = table.clock
        self._committed = committed
        self._quarantines = quarantines
        self._limits = limits
        self._reckoning = reckoning
        self._scans: dict[RangeId, CatchUpScan] = {}
        #: The ranges that could not be scanned when it was their turn.
        self._passed_by: set[RangeId] = set()
        self._overtaken: list[Overtaken] = []
        #: The elapsed log time of the last request that is known to be answered.
        self._answered_ms = 0

    # ---- versions ----

    def give_or_hold(self, state: RangeState, versions: Sequence[Version]) -> None:
        """Give versions that a range has committed to the parted feeds, or hold them for their scans (C3)."""
        scan = self._valid_scan(state)
        for feed_id in self._committed.parted:
            gaps, mode = state.gaps.get(feed_id), self._detached.mode(feed_id)
            if mode is not None or not gaps:
                if mode is not Detached.STALLED:
                    self._committed.give(feed_id, versions)
                continue
            spans = [gap.span for gap in gaps]
            holding = scan if scan is not None and scan.feed.id == feed_id else None
            passed = []
            for version in versions:
                key = version.key
                for start, end in spans:
                    if start <= key < end:
                        if holding is not None:
                            size = self._reckoning.of_feed(holding.feed, key, version.size_bytes)
                            holding.hold(version, size)
                        break
                else:
                    passed.append(version)
            self._committed.give(feed_id, passed)
        if scan is not None and scan.held_bytes:
            self._bound_held()

    def take_chunk(self, chunk: ScanChunk, row_bytes: int | None = None) -> bool:
        """Take a chunk of a catch-up scan (C4). Returns whether the chunk has more.

        There is room for about ``row_bytes`` of rows; ``None`` means room for all.
        """
        state = self._ranges.get(chunk.range_id)
        scan = None if state is None else self._valid_scan(state)
        if state is None or scan is None or chunk.generation != state.generation:
            return False
        fitting = None
        if row_bytes is not None:
            fitting = partial(self._reckoning.fitting, row_bytes, scan.feed)
        begun = scan.scan.next_key
        rows = scan.scan.take_chunk(chunk, self._clock.elapsed_ms, fitting)
        covered = Span(begun, scan.scan.next_key)
        if covered.start == covered.end or self._note_if_overtaken(scan.feed, state, scan.gap):
            return False
        self._answered_ms = max(self._answered_ms, scan.went_on_ms)
        scan.went_on_ms = self._clock.elapsed_ms
        scanned_at = scan.scan.upto if scan.scan.newest else None
        versions = [scanned_version(state.range_id, row) for row in rows if row.value or scanned_at is None]
        self._committed.give(scan.feed.id, versions, scanned_at)
        self._committed.give(scan.feed.id, scan.release(), held=True)
        self._close(self._touch(state.range_id), scan, covered)
        if scan.scan.done:
            del self._scans[state.range_id]
        return scan.scan.has_more

    def _close(self, state: RangeState, scan: CatchUpScan, covered: Span) -> None:
        gaps = [*outside(state.gaps.get(scan.feed.id, ()), covered)]
        if not scan.holding and not scan.feed.scans_only:
            gaps.append(Gap(covered, scan.scan.upto))
        self._gaps.set(state, scan.feed.id, joined(gaps))

    def _bound_held(self) -> None:
        """Keep the held versions within their bound: the scan that holds most stops holding (C5)."""
        scans = self._scans.values()
        while sum(scan.held_bytes for scan in scans) > self._limits.held_bytes:
            max(scans, key=attrgetter("held_bytes")).hold_nothing()
        while sum(scan.held_row_bytes for scan in scans) > self._limits.held_row_bytes:
            max(scans, key=attrgetter("held_row_bytes")).hold_nothing()

    # ---- scans ----

    def due(self, touched: Iterable[RangeState], offset: Offset) -> list[Scan]:
        """Return the requests to send now (C2), for scans that begin, go on, or were not answered.

        The GC thresholds of ``touched`` ranges may have risen, so their feeds are checked first.
        """
        self._look_for_removed(touched)
        for range_id in list(self._scans):
            self._valid_scan(self._ranges[range_id])
        self._passed_by.clear()
        self._begin_scans()
        self._leave_silent(offset)
        now_ms = self._clock.elapsed_ms
        return [
            scan.scan.request(offset, now_ms) for scan in self._scans.values() if scan.scan.is_due(now_ms)
        ]

    def _begin_scans(self) -> None:
        """Begin scans up to the limit (C2). Those that stand do not count."""
        limit = self._limits.scans
        allowed = min(limit + sum(map(self._stands, self._scans.values())), _WITH_STANDING * limit)
        while len(self._scans) < allowed and self._begin_one():
            pass

    def _stands(self, scan: CatchUpScan) -> bool:
        """Whether the source does not answer the scan, though it answers others.

        A partition that is far behind its log reads answers late, in the order of the requests. So a scan
        stands once a later request was answered. If none is, it stands after a longer time.
        """
        waits_ms = self._clock.elapsed_ms - scan.went_on_ms
        return waits_ms >= (_ASKED_MS if self._answered_ms > scan.went_on_ms else _STANDS_MS)

    def _begin_one(self) -> bool:
        """Begin a scan of the feed whose turn it is. Returns whether any feed had a range to scan."""
        lost = {item.feed_id for item in self._overtaken}
        for feed_id, with_gaps in [*self._gaps.feeds.items()]:
            if feed_id in lost or not self._is_catching_up(with_gaps.feed):
                continue
            range_id = self._next_of(with_gaps)
            if range_id is not None:
                self._gaps.comes_last(feed_id)
                self._begin(with_gaps.feed, self._ranges[range_id])
                return True
        return False

    def _next_of(self, with_gaps: FeedWithGaps) -> RangeId | None:
        """Return one of the feed's next few ranges that can be scanned. Ranges looked at move to the end."""
        for range_id in [*islice(with_gaps.ranges, _LOOKED_AT)]:
            del with_gaps.ranges[range_id]
            with_gaps.ranges[range_id] = None
            if self._can_scan(range_id):
                return range_id
            self._passed_by.add(range_id)
        return None

    def _can_scan(self, range_id: RangeId) -> bool:
        state = self._ranges[range_id]
        return state.checkpointable and range_id not in self._scans and not self._gaps.is_behind(range_id)

    def _begin(self, feed: PartitionFeed, state: RangeState) -> None:
        gap = min(state.gaps[feed.id], key=_completeness)
        if gap.complete_to is not None and gap.complete_to >= state.high:
            gaps = (other for other in state.gaps[feed.id] if other is not gap)
            self._gaps.set(self._touch(state.range_id), feed.id, joined(gaps))  # no version is above it
            return
        if not self._note_if_overtaken(feed, state, gap):
            self._scans[state.range_id] = CatchUpScan(feed, state, gap, self._clock.elapsed_ms)

    def _look_for_removed(self, touched: Iterable[RangeState]) -> None:
        for state in touched if self._gaps.feeds else ():
            for feed_id, with_gaps in self._gaps.feeds.items():
                if self._detached.is_spooling(feed_id):
                    continue  # it still has its rows, in the spool or in the producer
                for gap in state.gaps.get(feed_id, ()):
                    if self._note_if_overtaken(with_gaps.feed, state, gap):
                        break

    def _note_if_overtaken(self, feed: PartitionFeed, state: RangeState, gap: Gap) -> bool:
        """Note that the feed has to fail, if the source may have removed missing versions of the gap.

        Returns whether the source may have.
        """
        lowest = feed.start if gap.complete_to is None else gap.complete_to
        if lowest >= state.gc_threshold or self._is_empty(gap, state):
            return False
        self._overtaken.append(Overtaken(feed.id, state.range_id, lowest, state.gc_threshold))
        return True

    def _is_empty(self, gap: Gap, state: RangeState) -> bool:
        """Whether the range has no version that belongs into the gap."""
        return gap.complete_to is not None and self._gaps.has_nothing_above(state, gap.complete_to)

    def _leave_silent(self, offset: Offset) -> None:
        """Quarantine the ranges that feeds wait for, if nothing of them is read (C7).

        The next Snapshot of such a range heals it.
        """
        now_ms = self._clock.elapsed_ms
        for range_id in {*self._scans, *self._passed_by}:
            state = self._ranges[range_id]
            if not self._is_waited_for(state):
                continue
            if state.heard_ms is None:  # an earlier version of tidegate did not store when it was heard
                self._touch(range_id).heard_ms = now_ms
            elif is_silent(state.heard_ms, now_ms):
                cause = (
                    f"a feed lacks rows of it, and for {SILENT_MS // 1000} s of log time nothing of it was "
                    "read. If other ranges have its keys it is over, and the record that says so is lost"
                )
                self._quarantines.begin_at(state, offset, cause)

    def _is_waited_for(self, state: RangeState) -> bool:
        """Whether the range does not answer its scan, or cannot be scanned before its next Snapshot."""
        if state.status is not RangeStatus.LIVE or self._gaps.is_behind(state.range_id):
            return False
        scan = self._scans.get(state.range_id)
        if scan is None:
            return not state.checkpointable
        return self._clock.elapsed_ms - scan.went_on_ms >= _ASKED_MS

    @property
    def has_overtaken(self) -> bool:
        """Whether `take_overtaken` would return any."""
        return bool(self._overtaken)

    def take_overtaken(self) -> Sequence[Overtaken]:
        """Return, once each, the feeds that were noted since the last call as overtaken."""
        overtaken, self._overtaken = self._overtaken, []
        return [*{item.feed_id: item for item in overtaken}.values()]

    def _valid_scan(self, state: RangeState) -> CatchUpScan | None:
        """Return the scan of the range that is under way.

        A scan is given up when its range broke or took another snapshot, or its feed is not catching up.
        """
        scan = self._scans.get(state.range_id)
        if scan is not None and not (scan.is_of(state) and self._is_catching_up(scan.feed)):
            del self._scans[state.range_id]
            return None
        return scan

    def _is_catching_up(self, feed: PartitionFeed) -> bool:
        """Whether the feed is active and has gaps, and is not detached.

        A feed that has failed in this step is in the index of gaps until the next one.
        """
        with_gaps = self._gaps.feeds.get(feed.id)
        if with_gaps is None or with_gaps.feed is not feed or feed.status is not FeedStatus.ACTIVE:
            return False
        return self._detached.mode(feed.id) is None

    def give_up(self, feed_id: FeedId) -> None:
        """Give up the feed's scans, so that their answers are passed over: its gaps have changed."""
        for range_id in [range_id for range_id, scan in self._scans.items() if scan.feed.id == feed_id]:
            del self._scans[range_id]

    # ---- what an operator sees ----

    def status(self) -> tuple[FeedGapStatus, ...]:
        """Return the status of each feed that has gaps, in the order of feed ids."""
        return tuple(self._status(with_gaps) for _, with_gaps in sorted(self._gaps.feeds.items()))

    def _status(self, with_gaps: FeedWithGaps) -> FeedGapStatus:
        feed = with_gaps.feed
        gaps = [
            (gap.complete_to, state)
            for state in map(self._ranges.__getitem__, with_gaps.ranges)
            for gap in state.gaps[feed.id]
        ]
        lowest, state = min(gaps, key=lambda item: (item[0] or ZERO, item[1].range_id))
        scans = [scan for scan in self._scans.values() if scan.feed.id == feed.id]
        told = ((done or feed.start, at.gc_threshold) for done, at in gaps if at.gc_threshold > ZERO)
        reserve = min((has.wall - threshold.wall for has, threshold in told), default=None)
        return FeedGapStatus(
            feed.id,
            len(with_gaps.ranges),
            lowest,
            state.range_id,
            len(scans),
            sum(scan.held_bytes for scan in scans),
            reserve,
            self._standing(scans),
        )

    def _standing(self, scans: Sequence[CatchUpScan]) -> StandingScan | None:
        scan = min(scans, key=lambda scan: scan.went_on_ms, default=None)
        if scan is None:
            return None
        waits_ms = self._clock.elapsed_ms - scan.went_on_ms
        return StandingScan(scan.scan.range_id, scan.scan.request_id, waits_ms)


def _completeness(gap: Gap) -> tuple[bool, Timestamp, Span]:
    """Sort key for gaps: the least complete one comes first, so that no gap waits for ever."""
    return gap.complete_to is not None, gap.complete_to or ZERO, gap.span
