"""Gaps: keys that a feed misses, each in one of them, and what ranges tell of them."""

from __future__ import annotations

import pytest

from tests.hand_log import at
from tidegate.ranges.gap import (
    Gap,
    ToldGaps,
    amended,
    clipped,
    feed_of,
    joined,
    outside,
    remainder,
    told_name,
    told_of,
)
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


@pytest.mark.parametrize(("epoch", "name"), [(1, "f"), (2, "f/2"), (12, "f/12")])
def test_a_feed_is_told_by_its_id_and_its_epoch(epoch: int, name: str) -> None:
    assert told_name("f", epoch) == name
    assert feed_of(name) == "f"


_ONE, _OTHER = Gap(Span(b"a", b"c"), at(1)), Gap(Span(b"d", b"f"), None)


def test_of_a_feed_that_is_not_named_no_gaps_are_told() -> None:
    """That is not the same as a feed that misses nothing."""
    told = (ToldGaps("one", (_ONE,)), ToldGaps("other", (_OTHER,)), ToldGaps("well", ()))
    assert [told_of(feed, told) for feed in ("one", "other", "well", "late")] == [
        (_ONE,),
        (_OTHER,),
        (),
        None,
    ]
    assert told_of("one", None) is None


def test_the_gaps_of_one_feed_are_told_anew() -> None:
    told = (ToldGaps("one", (_ONE,)), ToldGaps("other", (_OTHER,)))
    assert amended(told, "one", ()) == (ToldGaps("other", (_OTHER,)), ToldGaps("one", ()))
    assert amended(told, "late", (_ONE,)) == (*told, ToldGaps("late", (_ONE,)))
    assert amended(None, "late", (_ONE,)) == (ToldGaps("late", (_ONE,)),)


_LETTERS = b"abcdefg"


@pytest.mark.parametrize("span", [Span(b"b", b"e"), Span(b"a", b"g"), Span(b"c", b"d"), Span(b"g", b"h")])
def test_gaps_are_cut_at_the_ends_of_a_span(span: Span) -> None:
    gaps = [_ONE, _OTHER]
    inside, beside = [*clipped(gaps, span)], [*outside(gaps, span)]
    for number in range(len(_LETTERS)):
        key = _LETTERS[number : number + 1]
        had = [gap.complete_to for gap in gaps if gap.span.contains(key)]
        for parts, expected in ((inside, span.contains(key)), (beside, not span.contains(key))):
            assert [gap.complete_to for gap in parts if gap.span.contains(key)] == (had if expected else [])


@pytest.mark.parametrize(
    ("others", "left"),
    [
        ("", "ag"),
        ("bc ef", "ab ce fg"),
        ("ab bc", "cg"),
        ("fg", "af"),
        ("ae cg", ""),
        ("gh", "ag"),
    ],
)
def test_what_is_left_of_a_span_is_in_none_of_the_others(others: str, left: str) -> None:
    def spans(text: str) -> list[Span]:
        return [Span(each[:1].encode(), each[1:].encode()) for each in text.split()]

    assert remainder(Span(b"a", b"g"), spans(others)) == spans(left)
