"""One feed by itself: what waits for its reader, in which order it is given, and its end."""

from __future__ import annotations

import pytest

from tests.unit.rangefeed.feeding import RANGE, checkpoint, taken, value
from tidegate.rangefeed.event import FeedEvent
from tidegate.rangefeed.feed_end import EndReason, FeedEnd
from tidegate.rangefeed.memory_budget import MemoryBudget
from tidegate.rangefeed.registration import FeedRequest, Registration

WHOLE = FeedRequest(RANGE)
CANCELLED = FeedEnd(EndReason.CANCELLED)


def test_as_many_events_wait_as_have_room_and_nothing_comes_after_one_that_had_none() -> None:
    feed = Registration(WHOLE, capacity=2)
    overflowed = []
    for wall in (1, 2, 3):
        feed.put((value("k", wall), None))
        overflowed.append(feed.overflowed)
    assert overflowed == [False, False, True]
    assert (feed.take(1), feed.ended) == ([value("k", 1)], None)
    feed.put((value("k", 4), None))
    assert taken(feed) == [value("k", 2)]
    assert feed.ended is not None
    assert feed.ended.reason is EndReason.SLOW_CONSUMER
    assert "more than 2 events" in feed.ended.detail


def test_a_feed_that_ended_takes_nothing_in() -> None:
    feed = Registration(WHOLE)
    feed.end(CANCELLED)
    feed.put((value("k", 1), None))
    assert not feed.buffer


def test_each_feed_that_holds_an_event_holds_its_memory() -> None:
    budget = MemoryBudget()
    charge = budget.charge(10)
    assert charge is not None
    read, ended, full, over = (Registration(WHOLE, capacity=room) for room in (1, 1, 0, 1))
    over.end(CANCELLED)
    for feed in (read, ended, full, over):
        feed.put((value("k", 1), charge))
    charge.release()  # of whom made the event
    assert budget.used_bytes == 10
    taken(read)
    assert budget.used_bytes == 10
    ended.end(CANCELLED)
    assert budget.used_bytes == 0


def test_no_more_events_come_at_a_time_than_were_asked_for() -> None:
    missed: list[FeedEvent] = [value("b", wall) for wall in (1, 2)]
    feed = Registration(WHOLE, iter(missed))
    live: list[FeedEvent] = [checkpoint(RANGE, 0), *(value("k", wall) for wall in (3, 4, 5))]
    for event in live:
        feed.put((event, None))
    assert feed.take(0) == []
    assert feed.take(3) == [*missed, live[0]]
    assert feed.take(2) == live[1:3]
    assert feed.take(2) == live[3:]
    assert feed.take(2) == []


@pytest.mark.parametrize("capacity", [0, 1, 9])
@pytest.mark.parametrize("limit", [1, 2, 3, 9])
def test_a_catch_up_comes_whole_whatever_has_room_behind_it(capacity: int, limit: int) -> None:
    missed: list[FeedEvent] = [value("b", wall) for wall in (1, 2, 3)]
    feed = Registration(WHOLE, iter(missed), capacity=capacity)
    for wall in (4, 5):
        feed.put((value("k", wall), None))
    received = [event for _ in range(9) for event in feed.take(limit)]
    assert received == [*missed, *(value("k", wall) for wall in (4, 5))][: 3 + capacity]
    assert (feed.ended is None) is (capacity == 9)


def test_a_feed_is_steady_once_its_reader_has_a_checkpoint() -> None:
    feed = Registration(WHOLE, iter([value("b", 1)]))
    pieces: list[list[FeedEvent]] = [[], [], [checkpoint(RANGE, 0), value("k", 2)], [value("k", 3)]]
    steady = []
    for live in pieces:
        for event in live:
            feed.put((event, None))
        taken(feed)
        steady.append(feed.steady)
    assert steady == [False, False, True, True]


def test_the_first_end_counts_and_is_told_once() -> None:
    told: list[FeedEnd | None] = []
    feed = Registration(WHOLE, on_end=lambda feed: told.append(feed.ended))
    feed.end(CANCELLED)
    feed.end(FeedEnd(EndReason.RANGE_SPLIT))
    assert feed.ended == CANCELLED
    assert told == [CANCELLED]


def test_after_the_end_of_a_feed_neither_its_catch_up_nor_what_waits_comes() -> None:
    feed = Registration(WHOLE, iter([value("b", wall) for wall in (1, 2, 3)]))
    feed.put((checkpoint(RANGE, 0), None))
    assert feed.take(1) == [value("b", 1)]
    feed.end(CANCELLED)
    assert taken(feed) == []
