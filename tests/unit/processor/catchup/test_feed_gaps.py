"""Which feeds have gaps in which ranges, while ranges and feeds begin, break, heal and end."""

from __future__ import annotations

from typing import Final

import pytest

from tests.hand_log import at
from tests.unit.processor.catchup.partition_parts import CHILD, HERE, Parts
from tests.unit.processor.logs import PLAIN
from tidegate.changefeed.definition.feed import FeedId
from tidegate.errors import FeedError
from tidegate.hlc import ZERO_RESOLVED
from tidegate.raftlog.entry import Offset, RangeId
from tidegate.ranges.gap import Gap
from tidegate.ranges.range_state import RangeState, RangeStatus

_GAPS: Final = (Gap(PLAIN.span, at(1)),)
_MORE: Final = (Gap(PLAIN.span, None),)


def _ranges(parts: Parts) -> dict[str, list[RangeId]]:
    return {feed_id: [*found.ranges] for feed_id, found in parts.gaps.feeds.items()}


def _break(state: RangeState) -> None:
    state.quarantine_at(Offset(9), "broken", ZERO_RESOLVED)


def test_a_feed_has_gaps_until_its_last_one_is_closed_and_that_is_told_once() -> None:
    parts = Parts()
    feed, one, two = parts.feed("a"), parts.range(HERE), parts.range(CHILD)
    assert not parts.gaps.settle([one, two])
    for state in (one, two):
        parts.gaps.set(state, feed.id, _GAPS)
    parts.gaps.set(one, feed.id, _MORE)
    assert _ranges(parts) == {"a": [HERE, CHILD]}
    assert (one.gaps, two.gaps) == ({"a": _MORE}, {"a": _GAPS})
    parts.gaps.set(one, feed.id, ())
    assert (_ranges(parts), one.gaps) == ({"a": [CHILD]}, {})
    assert not parts.gaps.settle([one, two])
    parts.gaps.set(two, feed.id, ())
    parts.gaps.set(two, feed.id, ())
    assert (_ranges(parts), two.gaps) == ({}, {})
    assert parts.gaps.settle([])
    assert not parts.gaps.settle([])


def test_a_feed_with_gaps_parts_once() -> None:
    parts = Parts()
    feed, one, two = parts.feed("a"), parts.range(HERE), parts.range(CHILD)
    parts.feed("b")
    parts.gaps.set(one, feed.id, _GAPS)
    assert [*parts.committed.parted] == ["a"]
    parts.gaps.comes_last(feed.id)
    parts.gaps.feeds[feed.id].ranges[HERE] = parts.gaps.feeds[feed.id].ranges.pop(HERE)
    parts.gaps.set(two, feed.id, _GAPS)
    parts.gaps.set(one, feed.id, _MORE)
    assert _ranges(parts) == {"a": [HERE, CHILD]}


def test_a_feed_that_has_had_its_turn_comes_last() -> None:
    parts = Parts()
    state = parts.range(HERE)
    for name in ("a", "b", "c"):
        parts.gaps.set(state, parts.feed(name).id, _GAPS)
    parts.gaps.comes_last(FeedId("a"))
    assert [*parts.gaps.feeds] == ["b", "c", "a"]


def test_a_feed_that_is_not_active_has_no_gaps_that_count() -> None:
    parts = Parts()
    state = parts.range(HERE)
    parts.feeds.fail(parts.feed("failed").id, FeedError("a row"))
    for name in ("failed", "unknown"):
        parts.gaps.set(state, FeedId(name), _GAPS)
        assert state.gaps[name] == _GAPS
    assert _ranges(parts) == {}
    assert parts.committed.parted == {}


@pytest.mark.parametrize(
    ("broken", "behind", "ended", "counts"),
    [
        (False, False, False, True),
        (False, True, False, True),
        (True, True, False, True),
        (True, False, False, False),
        (False, False, True, False),
        (False, True, True, False),
    ],
)
@pytest.mark.parametrize("how", ["set", "settle", "restore"])
def test_gaps_count_in_ranges_that_are_followed_or_are_about_to_be(
    broken: bool, behind: bool, ended: bool, counts: bool, how: str
) -> None:
    parts = Parts()
    feed, state = parts.feed("a"), parts.range(HERE)
    if how == "settle":
        parts.gaps.set(state, feed.id, _GAPS)
    if broken:
        _break(state)
    if ended:
        state.status = RangeStatus.ENDED
    if behind:
        parts.behind.add(HERE)
    if how == "set":
        parts.gaps.set(state, feed.id, _GAPS)
    elif how == "settle":
        assert parts.gaps.settle([state]) is not counts
    else:
        state.gaps["a"] = _GAPS
        parts.gaps.restore()
    assert state.gaps == {"a": _GAPS}
    assert _ranges(parts) == ({"a": [HERE]} if counts else {})


def test_gaps_of_a_range_that_heals_count_again() -> None:
    parts = Parts()
    feed, state = parts.feed("a"), parts.range(HERE)
    parts.gaps.set(state, feed.id, _GAPS)
    _break(state)
    assert parts.gaps.settle([state])
    state.status, state.quarantine = RangeStatus.LIVE, None
    assert not parts.gaps.settle([state])
    assert _ranges(parts) == {"a": [HERE]}


def test_gaps_of_feeds_that_are_gone_are_dropped_and_no_others() -> None:
    parts = Parts()
    one, two = parts.range(HERE), parts.range(CHILD)
    for name in ("a", "b"):
        parts.gaps.set(one, parts.feed(name).id, _GAPS)
    parts.gaps.set(two, FeedId("b"), _GAPS)
    parts.table.touched.clear()
    parts.gaps.forget_but({FeedId("b")})
    assert _ranges(parts) == {"b": [HERE, CHILD]}
    assert (one.gaps, two.gaps) == ({"b": _GAPS}, {"b": _GAPS})
    assert [*parts.table.touched] == [HERE]


def test_when_a_range_was_heard_is_noted_with_its_first_gap() -> None:
    parts = Parts()
    feed, state, clock = parts.feed("a"), parts.range(HERE), parts.table.clock
    parts.gaps.set(state, feed.id, ())
    assert state.heard_ms is None
    clock.elapsed_ms = 5
    parts.gaps.set(state, feed.id, _GAPS)
    clock.elapsed_ms = 6
    parts.gaps.set(state, feed.id, _MORE)
    assert state.heard_ms == 5


@pytest.mark.parametrize(
    ("high", "behind", "awaits", "expected"),
    [
        (3, False, False, True),
        (4, False, False, True),
        (5, False, False, False),
        (3, True, False, False),
        (3, False, True, False),
        (5, True, True, False),
    ],
)
def test_only_a_range_that_is_followed_surely_has_nothing_above_its_highest_version(
    high: float, behind: bool, awaits: bool, expected: bool
) -> None:
    parts = Parts()
    state = parts.range(HERE, high=high)
    state.awaits_snapshot = awaits
    if behind:
        parts.behind.add(HERE)
    assert parts.gaps.has_nothing_above(state, at(4)) is expected
