"""The figures of a range's feeds are what they say: all events come out, and what is excluded does not."""

from __future__ import annotations

from random import Random

import pytest
from rich.console import Console

from bench.rangefeed import EXCLUDED_PERCENT, FEEDS, INPUTS, range_feed_costs, read_all, stored
from bench.report import Report
from tidegate.hlc import Timestamp
from tidegate.rangefeed.catchup import catch_up
from tidegate.rangefeed.range_feed import RangeFeed, RangeFeedConfig
from tidegate.rangefeed.registration import FeedRequest, Registration
from tidegate.spans import Span

WHOLE = FeedRequest(Span(b"a", b"z"))


@pytest.mark.parametrize(("kind", "events"), [("write", 100), ("commit", 50), ("closedts", 100)])
def test_every_input_is_taken_and_its_events_come_out(kind: str, events: int) -> None:
    feeds = RangeFeed(WHOLE.span, config=RangeFeedConfig(buffered_events_max=1_000))
    feeds.initialise()
    feed = feeds.register(WHOLE)
    assert feed is not None
    inputs = INPUTS[kind](100)
    assert len(inputs) == 100
    assert all(offer(feeds) for offer in inputs)
    assert read_all(feed) == 1 + events
    assert len(feeds.resolver.queue) == 0


@pytest.mark.parametrize("order", [None, Random(1)])
@pytest.mark.parametrize("percent", EXCLUDED_PERCENT)
def test_a_catch_up_gives_what_is_not_excluded(percent: int, order: Random | None) -> None:
    request = WHOLE._replace(start=Timestamp(5_000 * percent // 100))
    feed = Registration(request, catch_up(request, stored(5_000, order)))
    assert read_all(feed) == 5_000 * (100 - percent) // 100


def test_the_report_has_a_line_for_every_case() -> None:
    costs = range_feed_costs(events=1_000, versions=2_000, seed=1)
    assert [(cost.events, cost.feeds) for cost in costs.feeds] == [
        (kind, feeds) for kind in INPUTS for feeds in FEEDS
    ]
    assert all(cost.ns > 0 and cost.ns_budget > 0 for cost in costs.feeds)
    assert [cost.open_txns for cost in costs.resolver] == [1, 100, 500]
    assert len(costs.catch_up) == 2 * len(EXCLUDED_PERCENT)
    report = Report(seed=1, quick=True, range_feed=costs)
    assert report.to_json()["range_feed"]["feeds"][0]["events"] == "write"
    console = Console(record=True, width=200, file=None, quiet=False)
    with console.capture() as printed:
        report.print(console)
    assert "catch-up, processor time" in printed.get()
