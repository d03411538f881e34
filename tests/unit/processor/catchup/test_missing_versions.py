"""The gaps that feeds get: when they begin, and when keys come to a range of their partition."""

from __future__ import annotations

from collections.abc import Sequence

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
from tidegate.changefeed.definition.options import InitialScan
from tidegate.processor.catchup.detached import Detached
from tidegate.raftlog.entry import RangeId
from tidegate.ranges.gap import Gap, ToldGaps
from tidegate.ranges.handoff import HandOff


def test_a_feed_that_begins_misses_versions_of_ranges_that_have_passed_some_and_have_not_ended() -> None:
    parts = Parts()
    low, high, ended = parts.range(HERE, LOW), parts.range(CHILD, HIGH, high=3), parts.range(RangeId(6))
    ended.end()
    feed = parts.feed("late", cursor=3)
    parts.missing.begin(feed)
    assert low.gaps == {"late": (Gap(LOW, at(3)),)}
    assert (high.gaps, ended.gaps) == ({}, {}), "nothing above 3 s was passed, and nothing is to come"


@pytest.mark.parametrize(
    ("hand_offs", "expected"),
    [
        pytest.param([hand_off(ELSEWHERE, 5, (told("live", 2, HIGH),))], [Gap(HIGH, at(2))], id="told"),
        pytest.param([hand_off(ELSEWHERE, 5)], [], id="told of no feed"),
        pytest.param([hand_off(ELSEWHERE, 5, None)], [Gap(PLAIN.span, at(0))], id="gaps forgotten"),
        pytest.param([hand_off(ELSEWHERE, 5, (), None)], [Gap(PLAIN.span, at(0))], id="keys forgotten"),
        pytest.param([hand_off(ELSEWHERE, 5, None, complete=False)], [], id="out of a hole"),
        pytest.param(
            [hand_off(HERE, 5, (), LOW), hand_off(ELSEWHERE, 5, None, None)],
            [Gap(PLAIN.span, at(0))],
            id="one of two forgotten",
        ),
    ],
)
def test_a_feed_that_needs_no_past_misses_what_parents_tell_or_have_forgotten(
    hand_offs: Sequence[HandOff], expected: Sequence[Gap]
) -> None:
    parts = Parts()
    parts.feed("live")
    child = parts.range(CHILD)
    parts.missing.inherit(child, (), hand_offs)
    assert child.gaps == ({"live": tuple(expected)} if expected else {})


def test_a_detached_feed_is_certain_to_have_what_the_least_of_the_parents_had_resolved() -> None:
    parts = Parts()
    parts.detach(parts.feed("live"))
    child = parts.range(CHILD)
    parts.missing.inherit(child, (), [hand_off(ELSEWHERE, 5, (), LOW), hand_off(HERE, 3, (), HIGH)])
    assert child.gaps == {"live": (Gap(PLAIN.span, at(3)),)}
    assert parts.detached.is_spooling(parts.feeds.active[0].id)


@pytest.mark.parametrize(
    ("parent", "gaps", "mode"),
    [
        (HERE, (told("live", 2),), Detached.SPOOLING),
        (ELSEWHERE, (told("live", 2),), Detached.STALLED),
        (ELSEWHERE, (ToldGaps("live", ()),), Detached.SPOOLING),
    ],
    ids=["a range here", "a range elsewhere", "a range elsewhere, without gaps"],
)
def test_a_spooling_feed_waits_for_a_scan_if_it_misses_rows_that_no_range_here_gave(
    parent: RangeId, gaps: tuple[ToldGaps, ...], mode: Detached
) -> None:
    """Rows of a range of this partition stand in the feed's spool."""
    parts = Parts()
    feed = parts.feed("live")
    parts.detach(feed)
    parts.range(HERE)
    child = parts.range(CHILD)
    parts.missing.inherit(child, (), [hand_off(parent, 5, gaps)])
    assert parts.detached.mode(feed.id) is mode
    assert child.gaps == {"live": (Gap(PLAIN.span, at(2 if gaps[0].gaps else 5)),)}


def test_a_gap_is_told_above_the_start_of_a_feed_that_has_begun_later() -> None:
    parts = Parts()
    parts.feed("late", cursor=4)
    parts.feed("scans", scan=InitialScan.YES, start=4)
    child = parts.range(CHILD)
    parts.missing.inherit(child, (), [hand_off(ELSEWHERE, 5, (told("late", 2), told("scans", None)))])
    assert child.gaps == {"late": (Gap(PLAIN.span, at(4)),), "scans": (Gap(PLAIN.span, None),)}
