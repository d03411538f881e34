"""Tests how marker lag is counted."""

from __future__ import annotations

import pytest

from bench.marker_lag import LagMeter, percentile
from tidegate.hlc import Timestamp
from tidegate.raftlog.entry import RangeId

_ROUND = Timestamp(1_000)
_LATER = Timestamp(2_000)


def _meter() -> LagMeter:
    return LagMeter(ranges=2, partitions=2)


def test_a_round_begins_with_the_heartbeat_of_the_last_range() -> None:
    meter = _meter()
    meter.heartbeat(RangeId(1), _ROUND, 5.0)
    assert not meter.closed_at
    meter.heartbeat(RangeId(2), _ROUND, 6.0)
    assert meter.closed_at == {_ROUND: 6.0}


def test_a_round_ends_when_the_last_partition_is_marked() -> None:
    meter = _meter()
    meter.closed_at[_ROUND] = 6.0
    meter.marker(0, _ROUND, 6.5)
    assert not meter.lags_s
    meter.marker(1, _ROUND, 7.0)
    assert meter.lags_s == {_ROUND: 1.0}


def test_a_marker_above_a_round_covers_it_and_one_below_does_not() -> None:
    meter = _meter()
    meter.closed_at.update({_ROUND: 6.0, _LATER: 6.5})
    for partition in range(2):
        meter.marker(partition, Timestamp(1_500), 7.0)
    assert meter.lags_s == {_ROUND: 1.0}
    assert meter.closed_at == {_LATER: 6.5}


def test_a_marker_that_was_read_before_its_heartbeat_has_no_lag() -> None:
    meter = _meter()
    for partition in range(2):
        meter.marker(partition, _ROUND, 5.0)
    for number in (1, 2):
        meter.heartbeat(RangeId(number), _ROUND, 6.0)
    assert meter.lags_s == {_ROUND: 0.0}


@pytest.mark.parametrize(("share", "expected"), [(0.5, 50), (0.99, 99), (1.0, 100), (0.001, 1)])
def test_percentiles_of_one_to_a_hundred(share: float, expected: float) -> None:
    assert percentile([float(number) for number in range(1, 101)], share) == expected
