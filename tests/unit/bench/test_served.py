"""The measurements of the server give what they say, on small topics."""

from __future__ import annotations

from contextlib import closing

import pytest

from bench.batch_delay import DelayMeter
from bench.served import copy_cost, event_delay
from bench.topics import BenchTopics
from stack.kafka import KafkaBroker
from tidegate.hlc import Timestamp


def test_each_reader_of_the_same_markers_has_delays_of_its_own() -> None:
    one = DelayMeter()
    other = one.of_another_reader()
    one.readable(Timestamp(5), 1.0)
    one.given(Timestamp(6), 2.0)
    other.given(Timestamp(6), 3.0)
    assert (one.delays_s(), other.delays_s()) == ([1.0], [2.0])


@pytest.mark.broker
def test_copy_gives_every_row_and_all_clients_of_events_share_one_reader(broker: KafkaBroker) -> None:
    with closing(BenchTopics(broker.bootstrap)) as topics:
        copied = copy_cost(topics, 2_000, seed=1)
        assert copied.rows == 2_000
        assert copied.of_raw > 0
        events = event_delay(topics, seconds=1, clients=3, rows_per_s=200, seed=1)
        assert events.readers == 1
        assert events.events >= 3 * 10
        assert 0 <= events.p50_ms <= events.p99_ms
