"""Tests how a feed's markers are decided: by the minimum over all that it watches."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.changefeed.definition.options import InitialScan
from tidegate.changefeed.lifecycle.frontier import FeedFrontier
from tidegate.hlc import NANOS_PER_SECOND, ZERO, ResolvedTimestamp, Timestamp
from tidegate.spans import Span

_LEFT, _RIGHT = Span(b"a", b"m"), Span(b"m", b"z")
_WHOLE = Span(b"a", b"z")
_START = Timestamp(10, 3)

Report: TypeAlias = tuple[int, int, Span, int]  # partition, offset, span, resolved wall


def _resolved(wall: int) -> ResolvedTimestamp:
    return ResolvedTimestamp(Timestamp(wall))


def _frontier(interval_ns: int | None = 0, high_water: int | None = None) -> FeedFrontier:
    persisted = None if high_water is None else Timestamp(high_water)
    return FeedFrontier([_WHOLE], _START, interval_ns, persisted)


def _apply(
    frontier: FeedFrontier, partition: int, offset: int, ranges: Sequence[tuple[Span, ResolvedTimestamp]]
) -> bool:
    """A checkpoint of these ranges."""
    spans = [span for span, _ in ranges]
    columns = [span.start for span in spans], [span.end for span in spans], [each for _, each in ranges]
    return frontier.apply_columns(partition, offset, *columns)


def _both(frontier: FeedFrontier, wall: int) -> ResolvedTimestamp | None:
    _apply(frontier, 0, wall, [(_LEFT, _resolved(wall))])
    _apply(frontier, 1, wall, [(_RIGHT, _resolved(wall))])
    return frontier.due_marker()


def test_a_span_that_nobody_reported_holds_the_feed_back() -> None:
    frontier = _frontier()
    assert not _apply(frontier, 0, 5, [(_LEFT, _resolved(99))])
    assert frontier.high_water == _START
    assert frontier.due_marker() is None
    assert frontier.laggard() == _RIGHT


def test_the_high_water_is_the_minimum_over_all_spans() -> None:
    frontier = _frontier()
    _apply(frontier, 0, 5, [(_LEFT, _resolved(99))])
    assert _apply(frontier, 1, 7, [(_RIGHT, _resolved(50))])
    assert frontier.high_water == frontier.due_marker() == Timestamp(50)


def test_a_checkpoint_that_is_wider_than_the_feed_counts_where_they_meet() -> None:
    frontier = _frontier()
    _apply(frontier, 0, 5, [(Span(b"", b"\xff"), _resolved(50))])
    assert frontier.due_marker() == Timestamp(50)


def test_a_checkpoint_below_the_start_gives_no_marker() -> None:
    assert _both(_frontier(), 9) is None
    assert _both(_frontier(), 10) is None
    assert _both(_frontier(), 11) == Timestamp(11)


@pytest.mark.parametrize("late", [20, 50])
def test_late_and_repeated_checkpoints_change_nothing(late: int) -> None:
    frontier = _frontier()
    marker = _both(frontier, 50)
    assert marker is not None
    frontier.marked(marker)
    assert not _apply(frontier, 0, 3, [(_LEFT, _resolved(late))])
    assert frontier.high_water == Timestamp(50)
    assert frontier.due_marker() is None
    assert frontier.positions == {0: 50, 1: 50}


def test_markers_keep_their_distance_in_hlc_time() -> None:
    frontier = _frontier(10 * NANOS_PER_SECOND)
    first = _both(frontier, NANOS_PER_SECOND)
    assert first is not None
    frontier.marked(first)
    assert _both(frontier, 11 * NANOS_PER_SECOND - 1) is None
    assert _both(frontier, 11 * NANOS_PER_SECOND) == Timestamp(11 * NANOS_PER_SECOND)


def test_a_feed_without_markers_has_a_high_water_all_the_same() -> None:
    frontier = _frontier(None)
    assert _both(frontier, 50) is None
    assert frontier.high_water == Timestamp(50)


def test_a_restarted_frontier_begins_at_the_persisted_high_water_and_does_not_mark_it_again() -> None:
    frontier = _frontier(high_water=70)
    assert frontier.high_water == Timestamp(70)
    assert frontier.due_marker() is None
    assert _both(frontier, 60) is None
    assert _both(frontier, 80) == Timestamp(80)


def test_a_restart_with_the_spans_ahead_waits_for_the_laggard_alone() -> None:
    before = _frontier()
    _apply(before, 0, 5, [(_LEFT, _resolved(60 * NANOS_PER_SECOND))])
    _apply(before, 1, 5, [(_RIGHT, _resolved(20))])
    restarted = FeedFrontier([_WHOLE], _START, 0, before.high_water, before.ahead())
    assert restarted.high_water == before.high_water == Timestamp(20)
    assert restarted.laggard() == before.laggard() == _RIGHT
    assert _apply(restarted, 1, 6, [(_RIGHT, _resolved(30 * NANOS_PER_SECOND))])
    assert restarted.high_water == Timestamp(30 * NANOS_PER_SECOND)


def test_a_restart_without_them_waits_for_every_span_and_then_is_as_far() -> None:
    restarted = _frontier(high_water=20)
    assert not _apply(restarted, 1, 6, [(_RIGHT, _resolved(30 * NANOS_PER_SECOND))])
    assert restarted.high_water == Timestamp(20)
    assert _apply(restarted, 0, 5, [(_LEFT, _resolved(60 * NANOS_PER_SECOND))])
    assert restarted.high_water == Timestamp(30 * NANOS_PER_SECOND)


def test_spans_ahead_outside_of_the_targets_and_below_the_high_water_change_nothing() -> None:
    left = [(Span(b"A", b"b"), _resolved(99)), (_RIGHT, _resolved(30)), (Span(b"z", b"zz"), _resolved(1))]
    restarted = FeedFrontier([_WHOLE], _START, 0, Timestamp(50), left)
    assert restarted.high_water == Timestamp(50)
    assert restarted.laggard() == Span(b"b", b"z")


def _scanning(scan: InitialScan, **persisted: Any) -> FeedFrontier:
    return FeedFrontier([_WHOLE], _START, 0, scan=scan, **persisted)


_SCANS = pytest.mark.parametrize("scan", [InitialScan.YES, InitialScan.ONLY])


@_SCANS
@pytest.mark.parametrize("wall", [1, 10, 99])
def test_a_scan_is_not_done_before_every_span_was_reported_at_its_start(scan: InitialScan, wall: int) -> None:
    """10.3 is above 10: a resolved timestamp has no logical part."""
    frontier = _scanning(scan)
    assert (frontier.high_water, frontier.scanned) == (ZERO, False)
    _apply(frontier, 0, 5, [(_LEFT, _resolved(99))])
    _apply(frontier, 1, 5, [(_RIGHT, _resolved(wall))])
    assert frontier.scanned is (wall == 99)
    assert (frontier.high_water >= _START) is (wall == 99)
    assert frontier.high_water == ZERO or wall == 99
    assert (frontier.due_marker() is not None) is (wall == 99 and scan is InitialScan.YES)


def test_the_first_marker_of_a_feed_that_begins_with_a_scan_is_above_its_start() -> None:
    frontier = FeedFrontier([_WHOLE], Timestamp(10), 0, scan=InitialScan.YES)
    assert _both(frontier, 10) is None
    assert frontier.high_water == Timestamp(10)
    restarted = FeedFrontier([_WHOLE], Timestamp(10), 0, frontier.high_water, scan=InitialScan.YES)
    assert (restarted.scanned, restarted.marker, restarted.due_marker()) == (True, None, None)
    assert _both(restarted, 11) == Timestamp(11)


def test_a_feed_that_is_a_scan_only_stops_at_its_start_and_has_no_markers() -> None:
    frontier = _scanning(InitialScan.ONLY)
    assert _both(frontier, 99) is None
    assert frontier.high_water == _START
    restarted = _scanning(InitialScan.ONLY, high_water=_START)
    assert (restarted.high_water, restarted.scanned, restarted.marker) == (_START, True, None)


@_SCANS
def test_a_restart_amid_a_scan_keeps_what_was_reported_and_nothing_that_was_not(scan: InitialScan) -> None:
    before = _scanning(scan)
    assert before.ahead() == ()
    _apply(before, 0, 5, [(_LEFT, _resolved(60 * NANOS_PER_SECOND))])
    ((span, at),) = before.ahead()
    assert (span, at) == (_LEFT, Timestamp(60 * NANOS_PER_SECOND))
    restarted = _scanning(scan, ahead=before.ahead())
    assert (restarted.high_water, restarted.scanned, restarted.laggard()) == (ZERO, False, _RIGHT)
    assert _apply(restarted, 1, 6, [(_RIGHT, _resolved(30 * NANOS_PER_SECOND))])
    assert restarted.scanned


def test_what_is_a_moment_ahead_is_not_stored() -> None:
    frontier = _frontier()
    _apply(frontier, 0, 5, [(_LEFT, _resolved(8 * NANOS_PER_SECOND))])
    assert frontier.ahead() == ()


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 90)).filter(lambda r: r[0] < r[1]),
        max_size=9,
    ),
    st.integers(0, 9),
)
def test_a_restart_at_any_moment_is_never_further_than_without_it(
    reports: list[tuple[int, int, int]], restart: int
) -> None:
    """And as far, to a second, once the spans that hold it back are reported."""
    spans = [(Span(bytes([97 + a]), bytes([97 + b])), _resolved(s * NANOS_PER_SECOND)) for a, b, s in reports]
    steady, owner = _frontier(), _frontier()
    for step, report in enumerate(spans):
        if step == restart:
            owner = FeedFrontier([_WHOLE], _START, 0, owner.high_water, owner.ahead())
        _apply(steady, 0, step, [report])
        _apply(owner, 0, step, [report])
        assert owner.high_water <= steady.high_water
    late, wall = [(_WHOLE, _resolved(45 * NANOS_PER_SECOND))], Timestamp(45 * NANOS_PER_SECOND)
    for frontier in (steady, owner):
        _apply(frontier, 0, 99, late)
    assert wall <= owner.high_water <= steady.high_water


def test_positions_are_the_last_that_each_partition_reported() -> None:
    frontier = _frontier()
    _apply(frontier, 2, 9, [])
    _apply(frontier, 2, 4, [])
    _apply(frontier, 0, 0, [])
    assert frontier.positions == {2: 9, 0: 0}


_spans = st.tuples(st.integers(0, 9), st.integers(0, 9)).filter(lambda ends: ends[0] < ends[1])
_reports = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.integers(0, 20),
        _spans.map(lambda ends: Span(bytes([97 + ends[0]]), bytes([97 + ends[1]]))),
        st.integers(0, 40),
    ),
    max_size=12,
)


def _after(reports: Sequence[Report]) -> FeedFrontier:
    frontier = FeedFrontier([Span(b"b", b"i")], _START, 0)
    for partition, offset, span, wall in reports:
        _apply(frontier, partition, offset, [(span, _resolved(wall))])
    return frontier


@given(_reports)
def test_the_high_water_is_what_every_single_key_was_reported_at(reports: list[Report]) -> None:
    def reached(key: bytes) -> Timestamp:
        walls = [wall for _, _, span, wall in reports if span.contains(key)]
        return max([Timestamp(wall) for wall in walls], default=ZERO)

    lowest = min(reached(bytes([key])) for key in b"bcdefgh")
    assert _after(reports).high_water == max(_START, lowest)


@given(_reports, st.randoms(use_true_random=False))
def test_the_order_and_repetition_of_checkpoints_do_not_matter(reports: list[Report], random: Random) -> None:
    shuffled = [*reports, *reports]
    random.shuffle(shuffled)
    once, again = _after(reports), _after(shuffled)
    assert (once.high_water, once.positions) == (again.high_water, again.positions)


@given(_reports)
def test_markers_rise_and_are_never_above_the_high_water(reports: list[Report]) -> None:
    frontier, last = FeedFrontier([Span(b"b", b"i")], _START, 7), _START
    for partition, offset, span, wall in reports:
        _apply(frontier, partition, offset, [(span, _resolved(wall))])
        marker = frontier.due_marker()
        if marker is not None:
            assert last < marker <= frontier.high_water
            assert last == _START or marker.wall - last.wall >= 7
            frontier.marked(marker)
            last = marker
