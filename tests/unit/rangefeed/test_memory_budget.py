"""The memory that waiting events hold: charged once, returned by the last holder, bounded."""

from __future__ import annotations

from tests.unit.rangefeed.feeding import RANGE, closed, taken, write
from tidegate.rangefeed.event import EVENT_BYTES
from tidegate.rangefeed.feed_end import EndReason, FeedEnd
from tidegate.rangefeed.memory_budget import MemoryBudget
from tidegate.rangefeed.range_feed import RangeFeed, RangeFeedConfig, WhenFull
from tidegate.rangefeed.registration import FeedRequest, Registration
from tidegate.spans import Span


def feeds_within(budget: MemoryBudget, **config: int | WhenFull) -> RangeFeed:
    feeds = RangeFeed(RANGE, budget=budget, config=RangeFeedConfig(**config))  # type: ignore[arg-type]
    feeds.initialise()
    return feeds


def registered(feeds: RangeFeed, span: Span = RANGE) -> Registration:
    feed = feeds.register(FeedRequest(span))
    assert feed is not None
    taken(feed)
    return feed


def test_an_event_is_charged_once_and_returned_by_the_last_that_holds_it() -> None:
    budget = MemoryBudget()
    feeds = feeds_within(budget)
    one, other = registered(feeds), registered(feeds)
    feeds.offer_ops([write("k", 1, "0123456789")])
    held = budget.used_bytes
    assert held == 2 * EVENT_BYTES + len(b"k") + 10
    taken(one)
    assert budget.used_bytes == held
    other.end(FeedEnd(EndReason.CANCELLED))
    assert budget.used_bytes == 0


def test_what_no_feed_holds_is_returned_at_once() -> None:
    budget = MemoryBudget()
    feeds = feeds_within(budget)
    registered(feeds, Span(b"a", b"b"))
    feeds.offer_ops([write("k", 1)])
    assert budget.used_bytes == 0


def test_a_feed_that_lost_an_event_does_not_hold_it() -> None:
    budget = MemoryBudget()
    feeds = feeds_within(budget, buffered_events_max=1)
    slow = registered(feeds)
    quick = registered(feeds)
    feeds.offer_ops([write("k", 1)])
    taken(quick)
    each = budget.used_bytes
    feeds.offer_ops([write("k", 2)])
    assert budget.used_bytes == 2 * each
    taken(quick)
    assert budget.used_bytes == each
    assert len(taken(slow)) == 1
    assert slow.ended is not None
    assert budget.used_bytes == 0


def test_without_memory_all_feeds_of_the_range_end_and_let_go() -> None:
    budget = MemoryBudget(300)
    feeds = feeds_within(budget)
    one, other = registered(feeds), registered(feeds)
    taken_in = [feeds.offer_ops([write("k", wall)]) for wall in range(1, 6)]
    assert taken_in == [True, True, False, False, False]
    for feed in (one, other):
        assert feed.ended is not None
        assert feed.ended.reason is EndReason.SLOW_CONSUMER
    assert (budget.used_bytes, feeds.counters.budget_exhausted, feeds.counters.slow_consumers) == (0, 1, 2)


def test_with_back_pressure_nobody_ends_and_the_event_is_refused_until_there_is_memory() -> None:
    budget = MemoryBudget(300)
    feeds = feeds_within(budget, when_full=WhenFull.REFUSE)
    feed = registered(feeds)
    assert [feeds.offer_ops([write("k", wall)]) for wall in (1, 2, 3)] == [True, True, False]
    assert len(taken(feed)) == 2
    assert feeds.offer_ops([write("k", 3)])
    assert feed.ended is None


def test_stopping_returns_what_is_pending_and_under_way() -> None:
    budget = MemoryBudget()
    feeds = feeds_within(budget, when_full=WhenFull.REFUSE, buffered_events_max=1)
    registered(feeds)
    for wall in (1, 2, 3, 4):
        feeds.offer_closed(closed(wall))
    assert budget.used_bytes == 4 * EVENT_BYTES
    feeds.stop()
    assert budget.used_bytes == 0


def test_ranges_share_a_pool_and_none_may_take_it_all() -> None:
    pool = MemoryBudget(1_000)
    one, other = MemoryBudget(64, pool=pool), MemoryBudget(64, pool=pool)
    assert one.charge(65) is None
    charges = [one.charge(64), other.charge(64)]
    assert pool.used_bytes == 128
    for charge in charges:
        assert charge is not None
        charge.release()
    assert (pool.used_bytes, one.used_bytes) == (0, 0)


def test_a_range_gets_no_more_than_the_pool_has_left() -> None:
    pool = MemoryBudget(100)
    one, other = MemoryBudget(pool=pool), MemoryBudget(pool=pool)
    assert one.charge(60) is not None
    assert other.charge(60) is None
    assert (pool.used_bytes, other.used_bytes) == (60, 0)
