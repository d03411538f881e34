"""Gaps: keys that a feed misses, each in one of them."""

from __future__ import annotations

from tests.hand_log import at
from tidegate.ranges.gap import Gap, joined
from tidegate.spans import Span


def test_neighbours_that_are_complete_to_the_same_are_one() -> None:
    left, right = Gap(Span(b"a", b"c"), at(1)), Gap(Span(b"c", b"e"), at(1))
    assert joined([right, left]) == (Gap(Span(b"a", b"e"), at(1)),)


def test_where_gaps_overlap_the_lowest_counts() -> None:
    high, low, nothing = (
        Gap(Span(b"a", b"e"), at(5)),
        Gap(Span(b"b", b"d"), at(2)),
        Gap(Span(b"d", b"f"), None),
    )
    assert joined([high, nothing, low]) == (
        Gap(Span(b"a", b"b"), at(5)),
        Gap(Span(b"b", b"d"), at(2)),
        Gap(Span(b"d", b"f"), None),
    )
