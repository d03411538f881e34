"""The ranges that the frontier is measured with are those of a range store, and markers are decided."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from bench.frontier import MovingRanges, forward_costs, frontier_costs
from tidegate.changefeed.definition.feed import FIRST_EPOCH, FeedId
from tidegate.changefeed.lifecycle.frontier import FeedFrontier
from tidegate.hlc import ZERO
from tidegate.processor.batch import ActiveFeed
from tidegate.processor.checkpoint import decode_report
from tidegate.spans import Span

_FEED = ActiveFeed(FeedId("feed"), FIRST_EPOCH)


def _reported(ranges: MovingRanges, first_tick: int) -> list[Span]:
    """The spans of one round of three seconds."""
    records = [record for tick in range(30) for record in ranges.tick(first_tick + tick, [_FEED])]
    return [Span(*ends) for r in map(decode_report, records) for ends in zip(r.starts, r.ends, strict=True)]


def test_every_range_reports_once_in_a_round_and_they_cover_the_table() -> None:
    ranges = MovingRanges(120, 0, Random(1))
    spans = sorted(_reported(ranges, 0))
    assert len(spans) == 120
    assert all(left.end == right.start for left, right in pairwise(spans))


def test_ranges_that_split_and_merge_still_move_the_frontier() -> None:
    ranges = MovingRanges(120, 2, Random(1))
    whole = sorted(_reported(MovingRanges(120, 0, Random(1)), 0))
    frontier, seen = FeedFrontier([Span(whole[0].start, whole[-1].end)], ZERO, 0), [ZERO]
    for tick in range(120):
        for record in ranges.tick(tick, [_FEED]):
            report = decode_report(record)
            frontier.apply_columns(0, tick, report.starts, report.ends, report.resolved)
        seen.append(frontier.high_water)
    assert len(ranges.starts) != 120
    assert len(set(seen)) > 60
    assert seen == sorted(seen)


@pytest.mark.long
def test_a_small_run_gives_every_figure() -> None:
    assert [cost.feeds for cost in frontier_costs(1, ranges=120)] == [1, 1, 10, 10]
    assert all(cost.us > 0 for cost in frontier_costs(1, ranges=120))
    assert [cost.spans for cost in forward_costs(1, forwards=20)][-1] == 16_384
