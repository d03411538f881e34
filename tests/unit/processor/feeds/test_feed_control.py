"""Tests what a message to a partition makes of a feed there, and whether it is active from then on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.feeds import activation
from tests.hand_log import HandLog, at
from tests.unit.processor.driving import Driven
from tests.unit.processor.logs import PLAIN
from tidegate.changefeed.definition.feed import FeedEpoch
from tidegate.changefeed.lifecycle.control import Activate, Failed, Register, Remove
from tidegate.hlc import ZERO, Timestamp
from tidegate.processor.feeds.feed_control import refuse_message, take_up
from tidegate.processor.feeds.feed_table import PartitionFeeds
from tidegate.processor.feeds.partition_feed import FeedStatus
from tidegate.processor.feeds.version_rows import PartitionRows
from tidegate.processor.state.state_codec import NOWHERE
from tidegate.raftlog.entry import Offset, RangeId
from tidegate.ranges.mutated_keys import MutatedKeys

_FEED = activation([PLAIN.descriptor])


@pytest.mark.parametrize(
    ("start", "status"), [(at(3), FeedStatus.ACTIVE), (at(2), FeedStatus.FAILED)], ids=["above", "below"]
)
def test_a_feed_is_active_if_no_row_above_its_start_had_passed_when_it_was_registered(
    start: Timestamp, status: FeedStatus
) -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    log.open_range(1, PLAIN.span).apply(PLAIN.put(3, 1, "passed"))
    driven = Driven()
    driven.run(log.partitions[0])
    feeds, rows = driven.processor._feeds, driven.processor._state.rows
    assert not take_up(feeds, Register(_FEED.definition), Offset(9), at(3), rows, ())
    became_active = take_up(feeds, replace(_FEED, start=start), Offset(10), at(3), rows, ())
    assert feeds[_FEED.feed_id].status is status
    assert became_active is (status is FeedStatus.ACTIVE)


def _of_epoch(epoch: int) -> Activate:
    message = activation([PLAIN.descriptor], start=at(6))
    return replace(message, definition=replace(message.definition, epoch=FeedEpoch(epoch), goes_on=True))


@pytest.mark.parametrize(
    ("known", "epoch", "failed"), [(None, 1, True), (1, 2, True), (2, 2, True), (2, 1, False)]
)
def test_a_message_that_cannot_be_taken_up_fails_its_feed_unless_a_later_epoch_is_known(
    known: int | None, epoch: int, failed: bool
) -> None:
    feeds = PartitionFeeds(0)
    if known is not None:
        assert take_up(feeds, _of_epoch(known), NOWHERE, ZERO, PartitionRows(), ())
    before = feeds.take_acks()
    refuse_message(feeds, Remove(_FEED.feed_id, FeedEpoch(9)), "its text is damaged")
    assert (feeds.take_acks(), len(feeds)) == ([], len(before)), "it comes again"
    refuse_message(feeds, _of_epoch(epoch), "its text is damaged")
    acks = feeds.take_acks()
    assert [(type(ack), ack.epoch) for ack in acks] == [(Failed, epoch)] * failed
    assert feeds.is_active(_FEED.feed_id) == (not failed)


def test_an_activation_of_an_earlier_epoch_makes_no_feed_active() -> None:
    feeds = PartitionFeeds(0)
    assert take_up(feeds, _of_epoch(2), NOWHERE, ZERO, PartitionRows(), ())
    assert not take_up(feeds, _of_epoch(1), NOWHERE, ZERO, PartitionRows(), ())
    assert not take_up(feeds, _of_epoch(2), NOWHERE, ZERO, PartitionRows(), ()), "it is active already"
    assert feeds[_FEED.feed_id].epoch == 2


@pytest.mark.parametrize(("seconds", "active"), [(5, True), (6, True), (6.5, False)])
def test_a_feed_goes_on_if_no_row_that_it_has_written_was_changed_after_its_start(
    seconds: float, active: bool
) -> None:
    feeds = PartitionFeeds(0)
    changed = MutatedKeys(PLAIN.span, at(seconds), last=at(4))
    took = take_up(feeds, _of_epoch(2), NOWHERE, ZERO, PartitionRows(), [(RangeId(3), changed)])
    assert took == feeds.is_active(_FEED.feed_id) == active
    assert ("range 3 changed rows outside its op log" in feeds[_FEED.feed_id].reason) == (not active)
