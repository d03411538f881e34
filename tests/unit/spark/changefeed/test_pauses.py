"""Tests how long feeds pause whose sinks are tried in vain."""

from __future__ import annotations

from itertools import pairwise

from tidegate.changefeed.definition.feed import FeedId
from tidegate.spark.changefeed.pauses import Pauses

_AWAY, _OTHER = FeedId("away"), FeedId("other")


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def _pause(pauses: Pauses, feed_id: FeedId = _AWAY) -> float:
    length_s = pauses.begin(feed_id)
    assert length_s is not None
    return length_s


def test_a_feed_pauses_for_a_while_and_others_do_not() -> None:
    clock = Clock()
    pauses = Pauses(clock)
    length_s = _pause(pauses)
    assert pauses.feeds() == {_AWAY}
    clock.now += length_s
    assert pauses.feeds() == frozenset()


def test_partitions_that_notice_it_as_well_do_not_prolong_a_pause() -> None:
    clock = Clock()
    pauses = Pauses(clock)
    length_s = _pause(pauses)
    clock.now += length_s / 2
    assert pauses.begin(_AWAY) is None
    assert _pause(pauses, _OTHER) == length_s
    clock.now += length_s / 2
    assert pauses.feeds() == {_OTHER}


def test_pauses_of_a_sink_that_stays_away_grow_and_are_bounded() -> None:
    clock = Clock()
    pauses = Pauses(clock)
    lengths = []
    for _ in range(10):
        lengths.append(_pause(pauses))
        clock.now += lengths[-1] + 15
    assert all(before < after for before, after in pairwise(lengths[:5]))
    assert lengths[-1] == lengths[-2] == max(lengths) == 300


def test_a_sink_that_was_well_for_long_is_given_a_short_pause_again() -> None:
    clock = Clock()
    pauses = Pauses(clock)
    first = _pause(pauses)
    clock.now += first + 1
    grown = _pause(pauses)
    assert grown == 2 * first
    clock.now += 4 * grown
    assert _pause(pauses) == first
