"""The feeds of a range, and who of them receives what."""

from __future__ import annotations

import pytest

from tests.unit.rangefeed.feeding import RANGE, at, checkpoint
from tidegate.hlc import ResolvedTimestamp
from tidegate.rangefeed.event import DeleteRangeEvent
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
