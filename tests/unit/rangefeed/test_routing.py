"""The feeds of a range, and who of them receives what."""

from __future__ import annotations

from itertools import product

import pytest

from tests.unit.rangefeed.feeding import RANGE, at, checkpoint
from tidegate.hlc import ResolvedTimestamp
from tidegate.rangefeed.event import DeleteRangeEvent, FeedEvent, ValueEvent
from tidegate.rangefeed.registration import FeedRequest, Registration
from tidegate.rangefeed.routing import Registrations, Routed
from tidegate.spans import Span

PART = Span(b"c", b"f")


@pytest.mark.parametrize("left_request", [FeedRequest(RANGE), FeedRequest(PART, at(3), with_diff=True)])
def test_a_feed_that_left_receives_nothing_and_asks_for_nothing(left_request: FeedRequest) -> None:
    feeds = Registrations()
    left, stays = Registration(left_request), Registration(FeedRequest(Span(b"m", b"p")))
    feeds.add(left)
    feeds.add(stays)
    assert feeds.needs_value(PART)
    assert feeds.needs_previous(PART) == left_request.with_diff
    assert feeds.discard(left)
    assert not feeds.discard(left)
    assert list(feeds) == [stays]
    assert not feeds.needs_value(PART)
    assert not feeds.needs_previous(PART)
    feeds.publish_checkpoint(RANGE, ResolvedTimestamp(at(7)), None)
    feeds.publish_value(b"d", at(8), b"v", None, omit=False, origin_id=0, charge=None)
    assert not left.buffer
    assert [event for event, _ in stays.buffer] == [checkpoint(Span(b"m", b"p"), 7)]


def test_a_feed_leaves_those_with_its_request_where_they_are() -> None:
    feeds = Registrations()
    late, early = Registration(FeedRequest(PART, at(9))), Registration(FeedRequest(PART, at(2)))
    for feed in (late, early):
        feeds.add(feed)
    feeds.discard(late)
    assert feeds.needs_value(PART)
    feeds.publish_value(b"d", at(8), b"v", None, omit=False, origin_id=0, charge=None)
    assert not late.buffer
    assert len(early.buffer) == 1


@pytest.mark.parametrize("kind", ["values", "range deletions", "checkpoints"])
def test_a_feed_without_room_overflows_and_receives_nothing_more(kind: str) -> None:
    feeds = Registrations()
    full, roomy = Registration(FeedRequest(PART), capacity=1), Registration(FeedRequest(PART))
    for feed in (full, roomy):
        feeds.add(feed)
    for wall in (3, 4, 5):
        if kind == "values":
            feeds.publish_value(b"d", at(wall), b"v", None, omit=False, origin_id=0, charge=None)
        elif kind == "checkpoints":
            feeds.publish_checkpoint(RANGE, ResolvedTimestamp(at(wall)), None)
        else:
            feeds.publish(Routed(PART, DeleteRangeEvent(PART, at(wall))))
        assert full.overflowed == (wall > 3)
        if full.overflowed:
            full.buffer.clear()  # its reader takes what there is, and room is there again
    assert not full.buffer
    assert not roomy.overflowed
    assert len(roomy.buffer) == 3
    assert list(feeds) == [full, roomy]


_REQUESTS = [
    FeedRequest(span, at(start), with_diff, with_filtering, omit_remote)
    for span, start, with_diff, with_filtering, omit_remote in product(
        [RANGE, PART, Span(b"d", b"e")], [0, 5], [False, True], [False, True], [False, True]
    )
]
_VERSIONS = [
    (ValueEvent(key, at(wall), b"v", prev_value), omit, origin_id)
    for key, wall, prev_value, omit, origin_id in product(
        [b"c", b"d", b"f"], [5, 6], [None, b"", b"old"], [False, True], [0, 2]
    )
]


def routed(event: ValueEvent, omit: bool, origin_id: int) -> Routed:
    return Routed(Span(event.key, event.key + b"\0"), event, omit, origin_id)


def received(feed: Registration) -> list[FeedEvent]:
    """Take all events out of the feed's buffer."""
    events = [event for event, _ in feed.buffer]
    feed.buffer.clear()
    return events


def test_a_version_goes_to_the_same_feeds_in_the_same_form_by_either_way() -> None:
    quickly, plainly = Registrations(), Registrations()
    pairs = [(Registration(request), Registration(request)) for request in _REQUESTS]
    for quick, plain in pairs:
        quickly.add(quick)
        plainly.add(plain)
    most = 0
    for event, omit, origin_id in _VERSIONS:
        quickly.publish_value(*event, omit=omit, origin_id=origin_id, charge=None)
        plainly.publish(routed(event, omit, origin_id))
        both = [(received(quick), received(plain)) for quick, plain in pairs]
        assert [events for events, _ in both] == [events for _, events in both], (event, omit, origin_id)
        most = max(most, sum(len(events) for events, _ in both))
    assert most == len(_REQUESTS)


def test_there_is_room_for_a_version_unless_a_feed_that_receives_it_is_full() -> None:
    for request, version in product(_REQUESTS, _VERSIONS):
        if version[0].prev_value is not None:
            continue  # previous values take no room
        feeds = Registrations()
        feed = Registration(request, capacity=1)
        feeds.add(feed)
        assert feeds.have_room(routed(*version))
        feeds.publish(routed(*version))
        assert feeds.have_room(routed(*version)) is not bool(feed.buffer), (request, version)


def test_a_checkpoint_is_for_the_part_of_a_feeds_span_that_it_covers() -> None:
    feeds = Registrations()
    by_span = {
        (b"a", b"d"): (b"c", b"d"),
        (b"c", b"f"): (b"c", b"f"),
        (b"d", b"e"): (b"d", b"e"),
        (b"c", b"g"): (b"c", b"f"),
        (b"a", b"z"): (b"c", b"f"),
        (b"e", b"z"): (b"e", b"f"),
        (b"a", b"c"): None,
        (b"f", b"z"): None,
    }
    registered = {span: Registration(FeedRequest(Span(*span))) for span in by_span}
    for feed in registered.values():
        feeds.add(feed)
    feeds.publish_checkpoint(PART, ResolvedTimestamp(at(7)), None)
    assert {span: received(feed) for span, feed in registered.items()} == {
        span: [] if part is None else [checkpoint(Span(*part), 7)] for span, part in by_span.items()
    }
