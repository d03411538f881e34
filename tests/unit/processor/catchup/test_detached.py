"""Feeds that are detached: what they are taken to miss, and what ranges tell their heirs of it."""

from __future__ import annotations

from typing import Final

import pytest

from tests.hand_log import at
from tests.unit.processor.catchup.partition_parts import (
    CHILD,
    ELSEWHERE,
    HERE,
    HIGH,
    LOW,
    Parts,
    hand_off,
    told,
)
from tests.unit.processor.logs import PLAIN
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.definition.options import InitialScan
from tidegate.hlc import ZERO, ResolvedTimestamp
from tidegate.processor.catchup.detached import Detached, lost_above
from tidegate.raftlog.entry import Offset, RaftIndex, RangeId
from tidegate.ranges.gap import Gap
from tidegate.ranges.handoff import Hole, Promise
from tidegate.ranges.range_state import RangeState, RangeStatus
from tidegate.ranges.scan import RangeScan, ScanPart
from tidegate.spans import Span

_ENDED: Final = RangeId(6)
_FEED: Final = FeedId("a")


@pytest.mark.parametrize(
    ("then", "now", "mode"),
    [
        (False, False, Detached.SPOOLING),
        (True, False, Detached.STALLED),
        (False, True, Detached.STALLED),
        (True, True, Detached.STALLED),
    ],
)
def test_a_feed_that_had_gaps_in_any_range_since_what_was_committed_waits_for_a_scan(
    then: bool, now: bool, mode: Detached
) -> None:
    parts = Parts()
    feed, one = parts.feed("a"), parts.range(HERE, LOW)
    parts.range(CHILD, HIGH)
    gaps = (Gap(LOW, at(1)),)
    parts.gaps.set(one, feed.id, gaps if then else ())
    parts.committed_so_far()
    parts.gaps.set(parts.table.touch(HERE), feed.id, gaps if now else ())
    parts.detach(feed)
    assert parts.detached.mode(feed.id) is mode
    assert parts.detached.is_spooling(feed.id) is (mode is Detached.SPOOLING)
    assert parts.detached.feeds == {_FEED}


def _end_in_a_hole(state: RangeState) -> None:
    state.quarantine_at(Offset(9), "broken", state.resolved)
    state.status = RangeStatus.ENDED


@pytest.mark.parametrize(
    ("ends", "before", "expected"),
    [
        ("", False, {"a": (Gap(PLAIN.span, at(4)),)}),
        ("whole", True, {}),
        ("whole", False, {}),
        ("in a hole", True, {}),
        ("in a hole", False, {"a": (Gap(PLAIN.span, at(4)),)}),
        ("before it began", False, {}),
    ],
)
def test_a_detached_feed_misses_what_is_not_certain_of_ranges_that_may_still_tell_of_it(
    ends: str, before: bool, expected: object
) -> None:
    parts = Parts()
    feed = parts.feed("a", cursor=1)
    state = parts.range(HERE, resolved=4)

    def end() -> None:
        if ends == "whole":
            parts.table.touch(HERE).end()
        elif ends == "in a hole":
            _end_in_a_hole(parts.table.touch(HERE))

    if ends == "before it began":
        state.span, state.status = None, RangeStatus.UNINITIALISED
    if before:
        end()
    parts.committed_so_far()
    if not before:
        end()
    parts.detach(feed)
    assert state.gaps == expected


def test_what_a_range_told_in_steps_that_are_not_committed_names_the_new_gaps() -> None:
    parts = Parts()
    feed, state = parts.feed("a"), parts.range(HERE, resolved=4)
    gone = parts.range(_ENDED, resolved=4)
    parts.range(RangeId(8), resolved=4).hand_offs = {}
    committed = Promise(RaftIndex(1), ResolvedTimestamp(at(3)), PLAIN.span, ())
    hole = Hole(RaftIndex(1), RaftIndex(2), PLAIN.span, ResolvedTimestamp(at(3)), ())
    early, late = hand_off(HERE, 3, (), LOW), hand_off(_ENDED, 3, (), HIGH)
    child = parts.range(CHILD)
    for each in (state, gone):
        each.promises, each.holes = [committed], [hole]
    child.hand_offs = {early.claim: early}
    parts.committed_so_far()
    for each in map(parts.table.touch, (HERE, _ENDED)):
        each.promises = [committed, committed._replace(at=RaftIndex(7))]
        each.holes = [hole, hole._replace(last_index=RaftIndex(3), span=HIGH)]
    gone.status = RangeStatus.ENDED
    parts.table.touch(CHILD).hand_offs = {early.claim: early, late.claim: late}
    parts.table.touched.clear()
    parts.detach(feed)
    for each in (state, gone):
        assert [promise.told_gaps for promise in each.promises] == [(), (told("a", 4),)]
        assert [hole.told_gaps for hole in each.holes] == [(), (told("a", 4, HIGH),)]
    assert [each.told_gaps for each in child.hand_offs.values()] == [(), (told("a", 4, HIGH),)]
    assert _ENDED in parts.table.touched, "what it tells has changed"


@pytest.mark.parametrize(
    ("parent", "span", "promised", "expected"),
    [
        (HERE, LOW, False, (told("a", 4, LOW),)),
        (HERE, None, False, (told("a", 4),)),
        (HERE, LOW, True, ()),
        (ELSEWHERE, LOW, False, ()),
    ],
    ids=["of these steps", "without keys", "promised before", "elsewhere"],
)
def test_a_hand_off_is_amended_if_its_parent_is_here_and_made_it_in_these_steps(
    parent: RangeId, span: Span | None, promised: bool, expected: object
) -> None:
    parts = Parts()
    feed, state = parts.feed("a"), parts.range(HERE, resolved=4)
    parts.range(CHILD)
    if promised:
        state.promises = [Promise(RaftIndex(7), ResolvedTimestamp(at(3)), span)]
    parts.committed_so_far()
    amended = parts.detached.amended(hand_off(parent, 3, (), span), parts.certain(feed))
    assert amended.told_gaps == expected


def test_only_a_detached_feed_is_stalled_attached_or_resumed() -> None:
    parts = Parts()
    one, other = parts.feed("a"), parts.feed("b")
    low, high = parts.range(HERE, LOW), parts.range(CHILD, HIGH)
    parts.gaps.set(low, other.id, (Gap(LOW, at(1)),))
    parts.detached.stall(one.id)
    assert parts.detached.mode(one.id) is None
    parts.detach(one)
    assert (set(low.gaps), set(high.gaps)) == ({"a", "b"}, {"a"})
    parts.detached.attach(one.id)
    assert (set(low.gaps), set(high.gaps)) == ({"b"}, set())
    assert parts.detached.mode(one.id) is None
    parts.detach(one)
    parts.detached.stall(one.id)
    assert parts.detached.mode(one.id) is Detached.STALLED
    parts.detached.resume(one.id)
    parts.detached.resume(one.id)
    assert parts.detached.mode(one.id) is None
    assert set(high.gaps) == {"a"}, "its scans are still to come"


def test_a_detached_feed_is_forgotten_with_its_end_and_no_other_is() -> None:
    parts = Parts()
    for name in ("a", "b"):
        parts.detach(parts.feed(name))
    parts.detached.forget_but({FeedId("b")})
    assert parts.detached.feeds == {"b"}


@pytest.mark.parametrize(
    ("scan", "start", "expected"),
    [
        (InitialScan.NO, 1, [Gap(HIGH, at(3))]),
        (InitialScan.NO, 4, [Gap(HIGH, at(4))]),
        (InitialScan.YES, 1, [Gap(HIGH, at(3))]),
        (InitialScan.ONLY, 1, []),
    ],
)
def test_what_may_be_lost_begins_above_what_is_certain_and_above_the_start(
    scan: InitialScan, start: float, expected: object
) -> None:
    feed = Parts().feed("a", scan=scan, start=start)
    assert [*lost_above(feed, [PLAIN.span], [Gap(LOW, None)], at(3))] == expected


def test_what_a_range_scans_for_may_be_lost_where_its_scan_began() -> None:
    parts = Parts()
    feed = parts.feed("a", cursor=1)
    state = parts.range(HERE, LOW, resolved=4)
    state.scan = RangeScan(HERE, Offset(0), PLAIN.span, [ScanPart(PLAIN.span, at(2))], at(5), with_prev=False)
    parts.committed_so_far()
    parts.detach(feed)
    assert state.gaps == {"a": (Gap(LOW, at(4)), Gap(HIGH, at(2)))}
    assert state.scan.since > ZERO
