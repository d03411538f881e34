"""One feed in a partition: the keys that it watches, and its row of state."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from tests.feeds import activation
from tests.hand_log import at
from tests.unit.processor.logs import OTHER, PLAIN
from tidegate.changefeed.definition.feed import FIRST_EPOCH, FeedEpoch
from tidegate.changefeed.lifecycle.control import Active, Register, Registered, Remove
from tidegate.errors import StateError, StateMismatch
from tidegate.processor.feeds.partition_feed import FeedStatus, PartitionFeed, feed_row, read_feed
from tidegate.processor.state import state_pb2 as pb
from tidegate.processor.state.stored_frame import pack, unpack
from tidegate.raftlog.entry import Offset
from tidegate.spans import Span

_BOTH: Final = activation([PLAIN.descriptor, OTHER.descriptor], start=at(3))
_REGISTER: Final = Register(_BOTH.definition)
_REGISTERED: Final = Registered(_BOTH.feed_id, FIRST_EPOCH, 0, Offset(7), at(2), (), ())


def _active() -> PartitionFeed:
    feed = PartitionFeed(_BOTH, _REGISTERED)
    feed.activate(_BOTH)
    return feed


def test_a_feed_watches_a_span_that_has_keys_of_any_of_its_tables() -> None:
    feed = _active()
    gap = Span(b"\x88", PLAIN.span.start)
    watched = [feed.watches(span) for span in (PLAIN.span, OTHER.split(5)[1], Span(b"\x88", b"\xff"), gap)]
    assert watched == [True, True, True, False]
    assert not PartitionFeed(_REGISTER, None).watches(PLAIN.span), "its start is not known yet"


@pytest.mark.parametrize("status", FeedStatus)
def test_a_feed_is_as_it_was_after_a_restart(status: FeedStatus) -> None:
    feed = PartitionFeed(_REGISTER, _REGISTERED) if status is FeedStatus.REGISTERED else _active()
    if status is FeedStatus.FAILED:
        feed.fail("no schema fits")
    again = read_feed(feed_row(feed))
    for each in (feed, again):
        assert (each.status, each.registered, each.message) == (status, _REGISTERED, feed.message)
        assert each.reason == ("no schema fits" if status is FeedStatus.FAILED else "")
        assert (each.emitter is not None) == (status is FeedStatus.ACTIVE)


@pytest.mark.parametrize("damaged", ["message", "registered"])
def test_a_stored_feed_with_a_damaged_message_is_told_by_name(damaged: str) -> None:
    row = unpack(pb.Feed, feed_row(_active()), "")
    setattr(row, damaged, b"{")
    with pytest.raises(StateMismatch, match="feed feed is stored with a message that is damaged"):
        read_feed(pack(row))


def test_a_stored_feed_has_a_message_and_an_answer_of_the_right_kind() -> None:
    for kind, message in (
        ("message", Remove(_BOTH.feed_id, FIRST_EPOCH).to_bytes()),
        ("registered", Active(_BOTH.feed_id, FIRST_EPOCH, 0).to_bytes()),
    ):
        row = unpack(pb.Feed, feed_row(_active()), "")
        setattr(row, kind, message)
        with pytest.raises(StateError, match="feed feed is stored with a message of the wrong kind"):
            read_feed(pack(row))


def test_a_feed_of_a_later_epoch_is_told_by_another_name() -> None:
    later = replace(_BOTH, definition=replace(_BOTH.definition, epoch=FeedEpoch(2)))
    assert [PartitionFeed(each, None).told_as for each in (_BOTH, later)] == ["feed", "feed/2"]
