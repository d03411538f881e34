"""What a range waits for before it takes a snapshot: claims, scans, and changes that nobody has seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pytest

from tests.hand_log import HandTable, at
from tidegate.hlc import MAX, ZERO, ClosedTimestamp, ResolvedTimestamp, Timestamp
from tidegate.processor.bounds import PARENTS_MAX
from tidegate.processor.feeds.changes_outside_log import Mutations
from tidegate.processor.feeds.range_waits import EVERYWHERE, Reach, Waiting, claims_of, claims_told_by
from tidegate.raftlog.entry import (
    NEVER_MUTATED,
    Generation,
    HistoryMutation,
    Offset,
    Parent,
    RaftIndex,
    RangeId,
    Snapshot,
)
from tidegate.ranges.handoff import Claim, HandOff
from tidegate.ranges.range_state import Quarantine, RangeState, RangeStatus
from tidegate.ranges.resolver import Resolver
from tidegate.ranges.scan import RangeScan, ScanPart
from tidegate.spans import Span

_PLAIN: Final = HandTable.of(104, "plain")
_WHOLE: Final = _PLAIN.span
_A, _B, _C = _PLAIN.key(100), _PLAIN.key(200), _PLAIN.key(300)
_LOW, _NEXT, _HIGH = Span(_WHOLE.start, _A), Span(_A, _B), Span(_B, _WHOLE.end)
_AT: Final = Offset(40)


@dataclass
class _Feeds:
    """The feeds of the partition, by their starts; all of them watch all keys."""

    starts: Sequence[float] = (0,)
    earlier_rows: bool = False
    previous: bool = False

    def lowest_start(self, span: Span, below: Timestamp, reach: Reach) -> Timestamp | None:
        starts = [at(start) for start in self.starts]
        return min((each for each in starts if each < below and reach.includes(each)), default=None)

    def has_earlier_rows(self, span: Span) -> bool:
        return self.earlier_rows

    def want_previous(self, span: Span) -> bool:
        return self.previous


def _state(span: Span | None = _LOW, resolved: float = 3, *, broken: bool = False) -> RangeState:
    state = RangeState(RangeId(1))
    state.span, state.status = span, RangeStatus.UNINITIALISED if span is None else RangeStatus.LIVE
    if span is not None:
        state.resolver = Resolver.restored(ClosedTimestamp(at(resolved)), ResolvedTimestamp(at(resolved)))
    if broken:
        state.status = RangeStatus.QUARANTINED
        state.quarantine = Quarantine("it is broken", Offset(0), ResolvedTimestamp(at(resolved)))
    return state


def _snapshot(
    *parents: int,
    span: Span = _WHOLE,
    high: float = 8,
    gc: Timestamp = ZERO,
    told: HistoryMutation = NEVER_MUTATED,
) -> Snapshot:
    return Snapshot(
        RangeId(1),
        Generation(2),
        RaftIndex(20),
        span,
        ClosedTimestamp(at(9)),
        at(high),
        gc,
        parents=tuple(Parent(RangeId(each), Generation(1), RaftIndex(7)) for each in parents),
        last_mutation=told,
    )


def _hand_off(state: RangeState, head: Snapshot, parent: int, resolved: float, span: Span | None) -> None:
    """Let the parent's answer come; it is complete where its span is not told to be scanned."""
    (claim,) = (each for each in claims_told_by(state, head) if each.parent == parent)
    state.hand_offs[claim] = HandOff(claim, ResolvedTimestamp(at(resolved)), False, span, ())


def _complete(state: RangeState, head: Snapshot, parent: int, resolved: float, span: Span) -> None:
    _hand_off(state, head, parent, resolved, span)
    for claim, hand_off in state.hand_offs.items():
        if claim.parent == parent:
            state.hand_offs[claim] = hand_off._replace(complete=True)


def _parts(scan: RangeScan | None) -> list[ScanPart] | None:
    return None if scan is None else scan.parts


# ---- claims ----


def test_a_range_claims_from_all_parents_but_itself_and_none_of_too_many() -> None:
    head = _snapshot(1, 2, 3)
    told = {Claim(RangeId(1), RangeId(parent), RaftIndex(7), _WHOLE) for parent in (2, 3)}
    assert claims_of(_state(), head) == claims_told_by(_state(), head) == told
    assert {claim.told_ms for claim in claims_of(_state(), head)} == {at(9).wall_ms}
    assert claims_of(_state(broken=True), head) == frozenset()
    assert claims_told_by(_state(broken=True), head) == told
    for count in (PARENTS_MAX, PARENTS_MAX + 1):
        many = _snapshot(*range(2, 2 + count))
        assert len(claims_of(_state(), many)) == (count if count == PARENTS_MAX else 0)


@pytest.mark.parametrize(
    ("feeds", "needed"),
    [
        (_Feeds(()), False),
        (_Feeds((8,)), False),
        (_Feeds((8, 7.5)), True),
        (_Feeds((), earlier_rows=True), True),
    ],
)
def test_a_feed_needs_the_range_to_wait_if_it_starts_below_its_rows_or_had_earlier_ones(
    feeds: _Feeds, needed: bool
) -> None:
    assert Waiting(feeds, Mutations(100)).is_needed(_snapshot()) == needed


# ---- scans ----


def test_nothing_is_scanned_where_all_parents_handed_off_completely() -> None:
    state, head, waiting = _state(), _snapshot(2, 3), Waiting(_Feeds(), Mutations(100))
    _complete(state, head, 2, 5, _NEXT)
    _complete(state, head, 3, 6, _HIGH)
    assert waiting.scan_for(state, head, _AT) is None
    assert waiting.unreachable == []


def test_where_one_parent_has_not_all_keys_are_scanned_each_from_where_it_is_complete() -> None:
    state, head, waiting = _state(), _snapshot(2, 3), Waiting(_Feeds(), Mutations(100))
    _complete(state, head, 2, 6, _NEXT)
    _hand_off(state, head, 3, 5, _HIGH)
    scan = waiting.scan_for(state, head, _AT)
    assert _parts(scan) == [ScanPart(_LOW, at(3)), ScanPart(_HIGH, at(5)), ScanPart(_NEXT, at(6))]
    assert scan is not None
    assert (scan.snapshot_offset, scan.span, scan.upto, scan.with_prev) == (_AT, _WHOLE, at(8), False)
    assert len(waiting.unreachable) == 3


@pytest.mark.parametrize("state", [_state(None), _state(broken=True)], ids=["new", "broken"])
def test_keys_that_nobody_handed_off_are_scanned_from_the_lowest_start(state: RangeState) -> None:
    feeds = _Feeds((4, 2.5), previous=True)
    scan = Waiting(feeds, Mutations(100)).scan_for(state, _snapshot(), _AT)
    own = [] if state.span is None else [ScanPart(_LOW, at(3))]
    rest = Span(_WHOLE.start if state.span is None else _A, _WHOLE.end)
    assert _parts(scan) == [ScanPart(rest, at(2.5)), *own]
    assert scan is not None
    assert scan.with_prev


@pytest.mark.parametrize(
    ("high", "start", "parts"),
    [
        (3, 0, None),
        (3.5, 0, [ScanPart(_LOW, at(3))]),
        (3.5, 3.2, [ScanPart(_LOW, at(3.2))]),
        (3.5, 3.5, None),
    ],
)
def test_only_keys_with_versions_above_what_is_complete_and_above_a_start_are_scanned(
    high: float, start: float, parts: list[ScanPart] | None
) -> None:
    waiting = Waiting(_Feeds((start,)), Mutations(100))
    scan = waiting.scan_for(_state(broken=True), _snapshot(span=_LOW, high=high), _AT)
    assert _parts(scan) == parts
    told = [(each.range_id, each.span, each.high, each.reach) for each in waiting.unreachable]
    assert told == [(1, _LOW, at(high), Reach(at(3), ZERO))] * (high > 3)


@pytest.mark.parametrize(
    ("start", "kept", "included"),
    [(2, 3, True), (2, 3.5, False), (4, 3.5, True), (4, 4, True), (4, 4.5, False)],
)
def test_a_feed_is_in_reach_if_the_source_has_all_versions_that_it_misses(
    start: float, kept: float, included: bool
) -> None:
    assert Reach(at(3), at(kept)).includes(at(start)) == included
    assert EVERYWHERE.includes(ZERO)
    assert EVERYWHERE.includes(MAX)


def test_a_scan_that_has_begun_goes_on_and_another_snapshot_leaves_out_what_it_brought() -> None:
    state, waiting = _state(broken=True), Waiting(_Feeds(), Mutations(100))
    head = _snapshot(span=_LOW)
    begun = waiting.scan_for(state, head, _AT)
    assert begun is not None
    state.scan = begun
    assert waiting.scan_for(state, head, _AT) is begun
    middle = _PLAIN.key(50)
    begun.parts = [ScanPart(Span(middle, _A), at(3))]
    again = waiting.scan_for(state, _snapshot(span=_LOW, high=9), Offset(41))
    assert again is not None
    assert sorted(again.parts) == [
        ScanPart(Span(_LOW.start, middle), at(8)),
        ScanPart(Span(middle, _A), at(3)),
    ]
    begun.parts = []
    assert waiting.scan_for(state, head, _AT) is None
    begun.since = at(1)
    later = waiting.scan_for(state, _snapshot(span=_LOW, high=9), Offset(42))
    assert later is not None
    assert (later.parts, later.since) == ([ScanPart(_LOW, at(8))], at(1))


# ---- changes that nobody has seen ----


def _has_unseen(state: RangeState, head: Snapshot, time: float) -> bool:
    """Whether a change at that time, of another range, fails feeds."""
    mutations = Mutations(100)
    told = HistoryMutation(RaftIndex(0), at(time))
    Waiting(_Feeds(), mutations).scan_for(state, head._replace(last_mutation=told), _AT)
    return bool(mutations.take_hidden())


@pytest.mark.parametrize(
    ("resolved", "span", "time", "has_unseen"),
    [
        ((6, 7), _HIGH, 6, False),
        ((6, 7), _HIGH, 6.5, True),
        ((7, 6), _HIGH, 6, False),
        ((7, 6), _HIGH, 6.5, True),
        ((6, 7), None, 0, True),
    ],
    ids=["as the first", "above the first", "as the second", "above the second", "nobody had some keys"],
)
def test_a_change_above_what_incomplete_parents_had_resolved_may_be_unseen(
    resolved: tuple[float, float], span: Span | None, time: float, has_unseen: bool
) -> None:
    """What the range itself had resolved, or a complete parent, is lower: nothing is missing there."""
    state, head = _state(), _snapshot(2, 3, 4)
    _hand_off(state, head, 2, resolved[0], _NEXT)
    _hand_off(state, head, 3, resolved[1], span and Span(_B, _C))
    _complete(state, head, 4, 5, Span(_C, _WHOLE.end))
    assert _has_unseen(state, head, time) == has_unseen


@pytest.mark.parametrize(("time", "has_unseen"), [(3, False), (3.5, True)])
def test_a_change_above_what_a_broken_range_had_resolved_may_be_unseen(time: float, has_unseen: bool) -> None:
    assert _has_unseen(_state(broken=True), _snapshot(2, span=_LOW), time) == has_unseen
