"""The log that splits are measured on, and the ratio."""

from __future__ import annotations

from bench.marker_lag import LagMeter
from bench.splits import Splits, summary
from bench.store import BenchStore
from sim.check import check_log
from sim.log.sink import WrittenRecord
from tests.strategies import BASE_NS
from tidegate.hlc import NANOS_PER_MS
from tidegate.kernel.kernel_mode import KernelMode
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.entry import Command, Heartbeat, RangeId, Trigger

_RANGES = 5
_STEPS = 8


def _split_log() -> tuple[LagMeter, list[WrittenRecord]]:
    store = BenchStore(partitions=2, ranges=_RANGES, seed=3, closed_lag_ms=100)
    meter = LagMeter(_RANGES, 1)
    splits = Splits(store, meter, _STEPS)
    records = store.head(BASE_NS)
    for step in range(_STEPS):
        now_ns = BASE_NS + (step + 1) * 100 * NANOS_PER_MS
        records += store.rows(200, now_ns)
        records += splits(step, now_ns)
        records += store.heartbeats(now_ns)
    records += store.settle(BASE_NS + (_STEPS + 1) * 100 * NANOS_PER_MS)
    assert splits.done == _RANGES
    return meter, records


def test_every_range_splits_once_and_the_log_keeps_the_contract() -> None:
    _, records = _split_log()
    assert check_log(records, 2) == []
    entries = [decode_entry(record.key, record.value) for record in records]
    triggers = [
        entry.range_id for entry in entries if isinstance(entry, Command) and entry.trigger is Trigger.SPLIT
    ]
    assert triggers == [RangeId(number + 1) for number in range(_RANGES)]


def test_rounds_are_closed_by_as_many_ranges_as_there_are() -> None:
    meter, records = _split_log()
    for number, record in enumerate(records):
        entry = decode_entry(record.key, record.value)
        if isinstance(entry, Heartbeat):
            meter.heartbeat(entry.range_id, entry.closed, float(number))
    assert len(meter.closed_at) == _STEPS


def test_the_ratio_is_that_of_the_99th_percentiles() -> None:
    lag = summary(KernelMode.OFF, 5_000.0, 16, [1.0] * 98 + [2.0, 9.0], [1.0] * 98 + [6.0, 9.0])
    assert (lag.quiet_p99_ms, lag.splitting_p99_ms, lag.ratio) == (2.0, 6.0, 3.0)
