"""The figures of a subscription: what they mean before anything is delivered, and with clocks that differ."""

from __future__ import annotations

from tidegate.hlc import ZERO, Timestamp
from tidegate.subscribe.figures import SubscriptionFigures, lag_s
from tidegate.subscribe.gate.feed_record import FeedPartition


def test_there_is_no_lag_before_anything_is_delivered() -> None:
    assert lag_s(ZERO, 10**18) is None


def test_lag_is_the_distance_to_the_clock_and_never_negative() -> None:
    assert lag_s(Timestamp(10**18), 10**18 + 1_500_000_000) == 1.5
    assert lag_s(Timestamp(10**18), 10**18 - 1) == 0.0  # the store's clock is ahead of ours


def test_paused_partitions_are_counted() -> None:
    paused = (FeedPartition("t", 0), FeedPartition("t", 3))
    assert SubscriptionFigures("diffs", paused=paused).paused_partitions == 2
