"""The feeds that lag in one log partition, and the scans by which they catch up (docs/catch-up.md).

What a feed lacks is part of the ranges' state, as gaps. All else here, the scans that are under way and the
versions that they hold, ends with the process: scans are asked for again, from the gaps.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import islice
from typing import Final, NamedTuple

from tidegate.changefeed.feed import FeedId
from tidegate.hlc import ZERO, Timestamp
from tidegate.processor.committed import CommittedVersions, scanned_version
from tidegate.processor.feeds import PartitionFeed, PartitionFeeds
from tidegate.processor.journal import Certainty, Earlier
from tidegate.raftlog.entry import Offset, RangeId, ScanChunk
from tidegate.raftlog.request import Scan
from tidegate.rangefeed.gap import Gap, Gaps, Lag, clipped, joined, outside, remainder
from tidegate.rangefeed.handoff import HandOff
from tidegate.rangefeed.range_state import RangeState, RangeStatus, Version
from tidegate.rangefeed.scan import SCAN_REPEAT_MS, RangeScan, ScanPart
from tidegate.rows.table_key import watched_parts
from tidegate.spans import Span

#: So many of a feed's ranges are looked at in a step for one that can be scanned.
_LOOKED_AT: Final = 256
_VERSION_BYTES: Final = 200  # of a version that is held, without its key and values
_NOWHERE: Final = Offset(0)


@dataclass(frozen=True, slots=True)
class CatchUpLimits:
    """How many scans a partition has under way, and how many bytes of versions they may hold."""

    scans: int = 4
    held_bytes: int = 64 << 20


class Overtaken(NamedTuple):
    """The source has removed versions up to ``threshold``, and the feed lacks those above ``complete_to``."""

    feed_id: FeedId
    range_id: RangeId
    complete_to: Timestamp
    threshold: Timestamp


class LaggingFeed(NamedTuple):
    """A feed that lags in ``ranges`` ranges of a partition.

    ``complete_to`` is the lowest of what it has of their keys, ``None`` as long as its initial scan has not
    come everywhere. ``waiting`` is one of the ranges, ``scans`` are under way, and hold ``held_bytes``.
    ``reserve_ns`` is how far the lowest is above its range's GC threshold.
    """

    feed_id: FeedId
    ranges: int
    complete_to: Timestamp | None
    waiting: RangeId
    scans: int
    held_bytes: int
    reserve_ns: int


class Detached(enum.Enum):
    """How a feed is given what its ranges commit while its sink does not follow."""

    SPOOLING = 1  # as if it were live; the gaps are for the case that what comes out is lost
    STALLED = 2  # nothing


class CatchUpScan:
    """A scan of one gap of one feed. Until its chunks come, versions of its keys above it are held.

    Not ``holding``: versions above it have passed that are not held, so another scan has to follow.
    """

    __slots__ = ("_held", "_held_keys", "feed", "gap", "held_bytes", "holding", "scan", "taken")

    def __init__(self, feed: PartitionFeed, state: RangeState, gap: Gap) -> None:
        self.feed, self.gap = feed, gap
        newest = gap.complete_to is None
        upto = feed.start if newest else state.high
        self.scan = RangeScan(
            state.range_id,
            _NOWHERE,
            gap.span,
            [ScanPart(gap.span, gap.complete_to or ZERO)],
            upto,
            with_prev=feed.shows_previous and not newest,
            newest=newest,
        )
        self.holding = not feed.scans_only and upto >= state.high
        #: By key; a heap of the keys tells those that a chunk covers without a look at all others.
        self._held: dict[bytes, list[Version]] = {}
        self._held_keys: list[bytes] = []
        self.held_bytes = 0
        self.taken = state.snapshots_taken

    def is_of(self, state: RangeState) -> bool:
        """Whether the range has taken no other snapshot since, and is whole."""
        return self.taken == state.snapshots_taken and state.checkpointable

    def hold(self, version: Version) -> None:
        """Keep a version until the chunk that covers its key, unless it is in the scan, or its key was."""
        if self.holding and version.timestamp > self.scan.upto and self._is_ahead(version.key):
            versions = self._held.get(version.key)
            if versions is None:
                self._held[version.key] = [version]
                heappush(self._held_keys, version.key)
            else:
                versions.append(version)
            self.held_bytes += _size(version)

    def hold_nothing(self) -> None:
        """Let go of what is held, and hold no more."""
        self.holding, self._held, self._held_keys, self.held_bytes = False, {}, [], 0

    def release(self) -> list[Version]:
        """What was held of the keys that are covered now, key by key."""
        released: list[Version] = []
        while self._held_keys and self._held_keys[0] < self.scan.next_key:
            released += self._held.pop(heappop(self._held_keys))
        self.held_bytes -= sum(map(_size, released))
        return released

    def _is_ahead(self, key: bytes) -> bool:
        return self.scan.next_key <= key < self.scan.span.end


def _size(version: Version) -> int:
    return _VERSION_BYTES + len(version.key) + len(version.value) + len(version.prev_value or b"")


@dataclass(slots=True)
class _Lagging:
    """The ranges in which a feed lags, those that waited longest first."""

    feed: PartitionFeed
    ranges: dict[RangeId, None] = field(default_factory=dict)


class CatchUps:
    """``ranges`` are those of the partition, ``touch`` gives one of them to be changed; ``is_behind`` says
    whether it has entries that it has not applied. Versions go to ``committed``."""

    def __init__(
        self,
        feeds: PartitionFeeds,
        ranges: Mapping[RangeId, RangeState],
        touch: Callable[[RangeId], RangeState],
        is_behind: Callable[[RangeId], bool],
        committed: CommittedVersions,
        limits: CatchUpLimits,
    ) -> None:
        self._feeds = feeds
        self._ranges = ranges
        self._touch = touch
        self._is_behind = is_behind
        self._committed = committed
        self._limits = limits
        self._lagging: dict[FeedId, _Lagging] = {}
        self._scans: dict[RangeId, CatchUpScan] = {}
        self._overtaken: list[Overtaken] = []
        self._detached: dict[FeedId, Detached] = {}
        self._caught_up = False
        #: The feeds of which ranges tell those that go on from them.
        self.serves: tuple[str, ...] = ()

    @property
    def lagging(self) -> frozenset[FeedId]:
        """The feeds that have a gap in any range: no checkpoint may name them."""
        return frozenset(self._lagging)

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
                self._set(self._touch(state.range_id), feed.id, joined(gaps))

    def inherit(self, state: RangeState, before: Span | None, hand_offs: Iterable[HandOff]) -> None:
        """The range has taken a snapshot; ``before`` are the keys that it had, the others came to it."""
        assert state.span is not None
        self._scans.pop(state.range_id, None)
        new, told = _not_in(before, state.span), list(hand_offs)
        for feed in self._feeds.active:
            gaps = self._with_inherited(feed, state, new, told)
            self._set(state, feed.id, joined(clipped(gaps, state.span)))

    def foresee(self, state: RangeState, span: Span) -> None:
        """The range is going to scan for what was missed of ``span``. A feed that lacks more of its keys than
        the scan brings must not be given the scan's rows first."""
        new, told = _not_in(state.span, span), list(state.hand_offs.values())
        for feed in self._feeds.active:
            self._set(state, feed.id, joined(self._with_inherited(feed, state, new, told)))

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
        if not feed.can_lag or (not feed.begins_with_scan and self._has_nothing_above(state, feed.start)):
            return []
        complete_to = None if feed.begins_with_scan else feed.start
        return [Gap(part, complete_to) for span in spans for part in watched_parts(span, feed.spans)]

    def _has_nothing_above(self, state: RangeState, timestamp: Timestamp) -> bool:
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
        self.serves = tuple(feed.id for feed in self._feeds.active if feed.can_lag)
        active = {feed.id for feed in self._feeds.active}
        for feed_id in {*self._lagging, *self._detached} - active:
            self._drop_scans(feed_id)
            self._lagging.pop(feed_id, None)
            self._detached.pop(feed_id, None)
        for state in list(self._ranges.values()):
            for name in state.lags.keys() - active:
                del self._touch(state.range_id).lags[name]

    def _set(self, state: RangeState, feed_id: FeedId, gaps: Gaps) -> None:
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
                    self._lagging[feed.id] = _Lagging(feed)
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

    # ---- feeds whose sinks do not follow ----

    def detach(self, feed: PartitionFeed, certain: Certainty) -> None:
        """Take the feed's rows for lost but for what is ``certain`` (K2).

        They go on coming out, unless it was catching up.
        """
        then = certain.then
        whole = feed.id not in self._lagging and not any(feed.id in earlier.lags for earlier in then.values())
        self._detached[feed.id] = Detached.SPOOLING if whole else Detached.STALLED
        self._drop_scans(feed.id)
        for state in [self._ranges[range_id] for range_id in then]:
            if _seen(state) and not _is_gone(state) and not then[state.range_id].ended:
                gaps = [*certain.gaps(state, state.span), *_lost_of_scan(feed, state)]
                self._set(self._touch(state.range_id), feed.id, joined(gaps))
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
                self._set(self._touch(state.range_id), feed_id, ())

    def resume(self, feed_id: FeedId) -> None:
        """The sink of a detached feed takes rows again: let it catch up (K6)."""
        self._detached.pop(feed_id, None)

    def _drop_scans(self, feed_id: FeedId) -> None:
        for range_id, scan in list(self._scans.items()):
            if scan.feed.id == feed_id:
                del self._scans[range_id]

    # ---- versions ----

    def take(self, state: RangeState, versions: Sequence[Version]) -> None:
        """Give versions that a range committed to the feeds that have parted from the others (C3)."""
        scan = self._valid_scan(state)
        for feed_id in self._committed.parted:
            gaps, mode = state.lags.get(feed_id), self._detached.get(feed_id)
            if mode is Detached.STALLED:
                continue
            if not gaps or mode is Detached.SPOOLING:
                self._committed.give(feed_id, versions)
                continue
            passed = []
            for version in versions:
                if not any(gap.span.contains(version.key) for gap in gaps):
                    passed.append(version)
                elif scan is not None and scan.feed.id == feed_id:
                    scan.hold(version)
            self._committed.give(feed_id, passed)
        if scan is not None and scan.held_bytes:
            self._bound_held()

    def take_chunk(self, chunk: ScanChunk, log_time_ms: int) -> bool:
        """Take a chunk of a catch-up scan (C4); whether it was one."""
        state = self._ranges.get(chunk.range_id)
        scan = None if state is None else self._valid_scan(state)
        if state is None or scan is None or chunk.generation != state.generation:
            return False
        begun = scan.scan.next_key
        rows = scan.scan.take(chunk, log_time_ms)
        covered = Span(begun, scan.scan.next_key)
        if covered.start == covered.end or self._is_overtaken(scan.feed, state, scan.gap):
            return True
        scanned_at = scan.scan.upto if scan.scan.newest else None
        versions = [scanned_version(state.range_id, row) for row in rows if row.value or scanned_at is None]
        self._committed.give(scan.feed.id, versions, scanned_at)
        self._committed.give(scan.feed.id, scan.release())
        self._close(self._touch(state.range_id), scan, covered)
        if scan.scan.done:
            del self._scans[state.range_id]
        return True

    def _close(self, state: RangeState, scan: CatchUpScan, covered: Span) -> None:
        gaps = [*outside(state.lags.get(scan.feed.id, ()), covered)]
        if not scan.holding and not scan.feed.scans_only:
            gaps.append(Gap(covered, scan.scan.upto))
        self._set(state, scan.feed.id, joined(gaps))

    def _bound_held(self) -> None:
        """What is too much is scanned for again."""
        while sum(scan.held_bytes for scan in self._scans.values()) > self._limits.held_bytes:
            max(self._scans.values(), key=lambda scan: scan.held_bytes).hold_nothing()

    # ---- scans ----

    def due(self, touched: Iterable[RangeState], offset: Offset, log_time_ms: int) -> list[Scan]:
        """The scans to ask for now (C2). Of ranges that were ``touched`` the source may have removed more."""
        self._look_for_removed(touched)
        for range_id in list(self._scans):
            self._valid_scan(self._ranges[range_id])
        while len(self._scans) < self._limits.scans and self._begin_one():
            pass
        return [
            scan.scan.request(offset, log_time_ms)
            for scan in self._scans.values()
            if scan.scan.is_due(log_time_ms - SCAN_REPEAT_MS)
        ]

    def _begin_one(self) -> bool:
        """Begin a scan of the feed whose turn it is, if any can begin."""
        passed_over = {*self._detached, *(item.feed_id for item in self._overtaken)}
        for feed_id in [feed_id for feed_id in self._lagging if feed_id not in passed_over]:
            lagging = self._lagging[feed_id]
            range_id = self._next_of(lagging)
            if range_id is not None:
                self._lagging[feed_id] = self._lagging.pop(feed_id)  # the others come first next time
                self._begin(lagging.feed, self._ranges[range_id])
                return True
        return False

    def _next_of(self, lagging: _Lagging) -> RangeId | None:
        """A range that can be scanned, of the next few; those that were looked at come last next time."""
        for range_id in [*islice(lagging.ranges, _LOOKED_AT)]:
            del lagging.ranges[range_id]
            lagging.ranges[range_id] = None
            if self._can_scan(range_id):
                return range_id
        return None

    def _can_scan(self, range_id: RangeId) -> bool:
        state = self._ranges[range_id]
        return state.checkpointable and range_id not in self._scans and not self._is_behind(range_id)

    def _begin(self, feed: PartitionFeed, state: RangeState) -> None:
        gap = min(state.lags[feed.id], key=_completeness)
        if gap.complete_to is not None and gap.complete_to >= state.high:
            gaps = (other for other in state.lags[feed.id] if other is not gap)
            self._set(self._touch(state.range_id), feed.id, joined(gaps))  # there is nothing
            return
        if not self._is_overtaken(feed, state, gap):
            self._scans[state.range_id] = CatchUpScan(feed, state, gap)

    def _look_for_removed(self, touched: Iterable[RangeState]) -> None:
        for state in touched if self._lagging else ():
            for feed_id, lagging in self._lagging.items():
                any(self._is_overtaken(lagging.feed, state, gap) for gap in state.lags.get(feed_id, ()))

    def _is_overtaken(self, feed: PartitionFeed, state: RangeState, gap: Gap) -> bool:
        """Whether the source may have removed versions that the feed lacks; it fails then."""
        lowest = feed.start if gap.complete_to is None else gap.complete_to
        if lowest >= state.gc_threshold or self._is_empty(gap, state):
            return False
        self._overtaken.append(Overtaken(feed.id, state.range_id, lowest, state.gc_threshold))
        return True

    def _is_empty(self, gap: Gap, state: RangeState) -> bool:
        """Whether there is no version that the feed lacks."""
        return gap.complete_to is not None and self._has_nothing_above(state, gap.complete_to)

    def take_overtaken(self) -> Sequence[Overtaken]:
        """The feeds since the last call that can never be given what they lack, each once."""
        overtaken, self._overtaken = self._overtaken, []
        return [*{item.feed_id: item for item in overtaken}.values()]

    def _valid_scan(self, state: RangeState) -> CatchUpScan | None:
        """The scan of the range that is under way; one whose range broke or changed is given up."""
        scan = self._scans.get(state.range_id)
        if scan is not None and not scan.is_of(state):
            del self._scans[state.range_id]
            return None
        return scan

    # ---- what an operator sees ----

    def status(self) -> tuple[LaggingFeed, ...]:
        """The feeds that lag."""
        return tuple(self._status(lagging) for _, lagging in sorted(self._lagging.items()))

    def _status(self, lagging: _Lagging) -> LaggingFeed:
        feed = lagging.feed
        gaps = [
            (gap.complete_to, state)
            for state in map(self._ranges.__getitem__, lagging.ranges)
            for gap in state.lags[feed.id]
        ]
        lowest, state = min(gaps, key=lambda item: (item[0] or ZERO, item[1].range_id))
        scans = [scan for scan in self._scans.values() if scan.feed.id == feed.id]
        reserve = min((done or feed.start).wall - at.gc_threshold.wall for done, at in gaps)
        return LaggingFeed(
            feed.id,
            len(lagging.ranges),
            lowest,
            state.range_id,
            len(scans),
            sum(scan.held_bytes for scan in scans),
            reserve,
        )


def _completeness(gap: Gap) -> tuple[bool, Timestamp, Span]:
    """Gaps that are complete to the lowest come first, so that none waits for another for ever."""
    return gap.complete_to is not None, gap.complete_to or ZERO, gap.span


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
