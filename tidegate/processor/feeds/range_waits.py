"""Decides what a range has to wait for before it takes a snapshot (docs/protocols/ranges.md,
docs/protocols/healing.md)."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from tidegate.hlc import ZERO, Timestamp
from tidegate.processor.bounds import PARENTS_MAX
from tidegate.processor.feeds.changes_outside_log import Mutations
from tidegate.raftlog.entry import Offset, RangeId, Snapshot
from tidegate.ranges.handoff import Claim
from tidegate.ranges.range_state import RangeState, RangeStatus
from tidegate.ranges.scan import RangeScan, ScanPart, parts_left
from tidegate.rows.table_key import without_tenant
from tidegate.spans import Span


class Reach(NamedTuple):
    """The bounds of the past that a feed can be given for some keys.

    The keys are complete up to ``resolved``. The source still has their versions from ``kept`` on.
    """

    resolved: Timestamp
    kept: Timestamp

    def includes(self, start: Timestamp) -> bool:
        """Whether a feed that starts at ``start`` can be given all its missing versions of these keys."""
        return max(self.resolved, start) >= self.kept


EVERYWHERE = Reach(ZERO, ZERO)


class Watchers(Protocol):
    """The questions of ranges about the feeds of their partition. Spans have no tenant prefix."""

    def lowest_start(self, span: Span, below: Timestamp, reach: Reach) -> Timestamp | None:
        """Return the lowest start, below ``below`` and within ``reach``, of active feeds that watch the span.

        It is ``None`` if no such feed has such a start.
        """

    def has_earlier_rows(self, span: Span) -> bool:
        """Whether any active feed that watches the span has rows from before its start.

        Such a feed began with a scan, or goes on from an earlier epoch.
        """

    def want_previous(self, span: Span) -> bool:
        """Whether any active feed that watches the span shows previous values."""


class Unreachable(NamedTuple):
    """A scan that has begun, and that cannot bring all missing versions to feeds outside its ``reach``."""

    range_id: RangeId
    span: Span
    high: Timestamp
    reach: Reach


def claims_of(state: RangeState, head: Snapshot) -> frozenset[Claim]:
    """Return the claims whose answers a range needs before it takes a snapshot.

    A range that is in a hole needs none: it scans instead.
    """
    return frozenset() if state.status is RangeStatus.QUARANTINED else claims_told_by(state, head)


def claims_told_by(state: RangeState, head: Snapshot) -> frozenset[Claim]:
    """Return the claims on other ranges that a snapshot tells of, whether or not the range waits for answers.

    A snapshot that names more than ``PARENTS_MAX`` parents tells of none.
    """
    if len(head.parents) > PARENTS_MAX:
        return frozenset()
    foreign = (parent for parent in head.parents if parent.range_id != state.range_id)
    return frozenset(
        Claim(state.range_id, parent.range_id, parent.last_index, head.span, head.closed.wall_ms)
        for parent in foreign
    )


def complete_before(state: RangeState, head: Snapshot) -> list[ScanPart] | None:
    """Return how far the range's keys are complete before ``head``; ``None`` when no rows are missing.

    Keys in no part are complete up to nothing. All hand-offs that the range needs must have come.
    """
    own = [] if state.span is None else [ScanPart(state.span, state.resolved)]
    if state.status is RangeStatus.QUARANTINED:
        return own
    claims = claims_of(state, head)
    if state.status is RangeStatus.UNINITIALISED and not claims:
        return []
    hand_offs = [state.hand_offs[claim] for claim in claims]
    if all(hand_off.complete for hand_off in hand_offs):
        return None
    return own + [
        ScanPart(hand_off.span, hand_off.resolved) for hand_off in hand_offs if hand_off.span is not None
    ]


def _unseen_above(state: RangeState, head: Snapshot, complete: list[ScanPart]) -> Timestamp:
    """Return the timestamp above which entries of any key of a snapshot may be missing.

    The range's own entries are not missing, unless the range is quarantined. Those of a parent that has
    handed off completely are not missing either.
    """
    lowest = min(part.after for part in parts_left(head.span, complete, None))
    if state.status is RangeStatus.QUARANTINED or lowest == ZERO:
        return lowest
    told = (state.hand_offs[claim] for claim in claims_of(state, head))
    return min((hand_off.resolved for hand_off in told if not hand_off.complete), default=lowest)


class Waiting:
    """Decides what the ranges of one partition wait for.

    ``unreachable`` collects the scans that may not bring everything. ``mutations`` collects the changes
    outside the op log in entries that were not applied.
    """

    def __init__(self, watchers: Watchers, mutations: Mutations) -> None:
        self._watchers = watchers
        self._mutations = mutations
        self.unreachable: list[Unreachable] = []

    def is_needed(self, head: Snapshot) -> bool:
        """Whether a feed needs the range to wait: the feed may miss rows from before the snapshot."""
        span = without_tenant(head.span)
        if self._watchers.has_earlier_rows(span):
            return True
        return self._watchers.lowest_start(span, head.high, EVERYWHERE) is not None

    def take_unasked(self, state: RangeState, head: Snapshot) -> None:
        """Note that the range takes the snapshot without all hand-offs, since no feed needs them."""
        self._mutations.suspect(state, head)

    def scan_for(self, state: RangeState, head: Snapshot, offset: Offset) -> RangeScan | None:
        """Return the scan that a range needs before it takes the snapshot at ``offset``; ``None`` if it needs
        none.

        A scan that has begun for this snapshot goes on. A new one leaves out what an earlier scan has
        brought.
        """
        begun = state.scan
        if begun is not None and begun.snapshot_offset == offset:
            return None if begun.done else begun
        complete = complete_before(state, head)
        if complete is None:
            return None
        self._mutations.judge(state, head, offset, _unseen_above(state, head, complete))
        wanted = [self._wanted(head, part) for part in parts_left(head.span, complete, begun)]
        parts = sorted(
            (part for part in wanted if part is not None), key=lambda part: (part.after, part.span)
        )
        if not parts:
            return None
        previous = self._watchers.want_previous(without_tenant(head.span))
        scan = RangeScan(state.range_id, offset, head.span, parts, head.high, with_prev=previous)
        if begun is not None:
            scan.since = min(scan.since, begun.since)
        return scan

    def _wanted(self, head: Snapshot, part: ScanPart) -> ScanPart | None:
        """Return what has to be scanned of a part for feeds; ``None`` if nothing."""
        if part.after >= head.high:
            return None
        span, reach = without_tenant(part.span), Reach(part.after, head.gc_threshold)
        self.unreachable.append(Unreachable(head.range_id, span, head.high, reach))
        start = self._watchers.lowest_start(span, head.high, reach)
        return None if start is None else ScanPart(part.span, max(start, part.after))
