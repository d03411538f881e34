"""Tests how delays of batches are counted."""

from __future__ import annotations

from bench.batch_delay import DelayMeter
from tidegate.hlc import Timestamp


def test_a_marker_can_be_read_when_the_last_partition_has_it() -> None:
    meter = DelayMeter()
    meter.readable(Timestamp(5), 1.0)
    meter.readable(Timestamp(5), 1.5)
    meter.readable(Timestamp(5), 1.25)
    meter.given(Timestamp(5, 1), 2.0)
    assert meter.delays_s() == [0.5]


def test_a_batch_counts_for_every_marker_below_its_frontier_and_for_none_at_or_above() -> None:
    meter = DelayMeter()
    for wall in (5, 6, 7):
        meter.readable(Timestamp(wall), 1.0)
    meter.given(Timestamp(5), 1.5)
    meter.given(Timestamp(6, 1), 2.0)
    assert meter.delays_s() == [1.0, 1.0]
