"""Tests what a message to a partition makes of a feed there, and whether it is active from then on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.feeds import activation
from tests.hand_log import HandLog, at
from tests.unit.processor.driving import Driven
from tests.unit.processor.logs import PLAIN
from tidegate.changefeed.lifecycle.control import Register
from tidegate.hlc import Timestamp
from tidegate.processor.feeds.feed_control import take_up
from tidegate.processor.feeds.partition_feed import FeedStatus
from tidegate.raftlog.entry import Offset

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
