"""Metrics, health and status say the same, for it is one report."""

from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from tidegate.kernel.followed_records import FollowedRecords
from tidegate.kernel.traps import Traps
from tidegate.worker.operations import metrics
from tidegate.worker.operations.metrics import ReportCollector
from tidegate.worker.operations.report import (
    DeliveryReport,
    FeedReport,
    LaggingReport,
    ParkedReport,
    PartitionReport,
    QuarantineReport,
    WorkerReport,
)

_HOLE = QuarantineReport(1, 42, 1_000, "5.0000000000", "an index is missing")
_PARKED = ParkedReport(0, 7, "parked", 90, 3, 4_500, parents=(5,))
_HEALING = ParkedReport(0, 8, "healing", 80, 2, 61_000)
_SPOOLING = DeliveryReport(0, "bank", "spooling", 10, 900)
_CATCHING_UP = DeliveryReport(1, "bank", "catching up", 0, 0)
_NEAR = LaggingReport(0, "bank", 2, "5.0000000000", 7, 0, 30, 4_500)
_UNKNOWN = LaggingReport(1, "bank", 1, None, 8, 0, 0, None)
_REPORT = WorkerReport(
    "app",
    None,
    "raftlog",
    2,
    stall_alarm_ms=1_000,
    partitions=(
        PartitionReport(
            0,
            "running",
            lag_records=7,
            open_transactions=2,
            tracked_intents=9,
            resolved_lag_ms=12,
            oldest_unacknowledged_ms=1_001,
            backlog_entries=6,
            parked=(_PARKED, _HEALING),
            spilled_transactions=5,
            spill_bytes=900,
            restore_ms=250,
            lagging=(_NEAR,),
            deliveries=(_SPOOLING,),
        ),
        PartitionReport(
            1, "restoring", quarantined=(_HOLE,), lagging=(_UNKNOWN,), deliveries=(_CATCHING_UP,)
        ),
    ),
    feeds=(FeedReport("bank", 1, "5.0000000000", 34, ""),),
)


def samples(report: WorkerReport = _REPORT) -> set[str]:
    """The lines that Prometheus reads."""
    registry = CollectorRegistry()
    registry.register(ReportCollector(lambda: report))
    return set(generate_latest(registry).decode().splitlines())


def test_each_partition_has_its_gauges() -> None:
    assert {
        'tidegate_lag_records{partition="0"} 7.0',
        'tidegate_open_transactions{partition="0"} 2.0',
        'tidegate_tracked_intents{partition="0"} 9.0',
        'tidegate_resolved_lag_ms{partition="0"} 12.0',
        'tidegate_quarantined_ranges{partition="1"} 1.0',
    } <= samples()


def test_each_feed_is_seen_in_each_partition() -> None:
    assert {
        'tidegate_delivery_state{feed="bank",partition="0",state="spooling"} 1.0',
        'tidegate_delivery_state{feed="bank",partition="1",state="catching up"} 1.0',
        'tidegate_delivery_waiting_bytes{feed="bank",partition="0"} 10.0',
        'tidegate_delivery_spool_bytes{feed="bank",partition="0"} 900.0',
    } <= samples()
    shown = [(row["partition"], row["state"]) for row in _REPORT.as_json()["deliveries"]]
    assert shown == [(0, "spooling"), (1, "catching up")]


def test_how_near_a_feed_is_to_its_end_is_a_gauge_only_where_it_is_known() -> None:
    shown = {line for line in samples() if line.startswith("tidegate_feed_")}
    assert {
        'tidegate_feed_lagging_ranges{feed="bank",partition="0"} 2.0',
        'tidegate_feed_lagging_ranges{feed="bank",partition="1"} 1.0',
    } <= shown
    reserves = [line for line in shown if line.startswith("tidegate_feed_gc_reserve")]
    assert reserves == ['tidegate_feed_gc_reserve_seconds{feed="bank",partition="0"} 4.5']
    assert [row["gc_reserve_ms"] for row in _REPORT.as_json()["lagging_feeds"]] == [4_500, None]


def test_ranges_that_wait_are_counted_with_the_age_of_the_oldest() -> None:
    assert {
        'tidegate_parked_ranges{partition="0"} 2.0',
        'tidegate_oldest_parked_seconds{partition="0"} 61.0',
        'tidegate_backlog_entries{partition="0"} 6.0',
        'tidegate_scans{partition="0"} 1.0',
        'tidegate_parked_ranges{partition="1"} 0.0',
        'tidegate_oldest_parked_seconds{partition="1"} 0.0',
    } <= samples()


def test_status_lists_parked_ranges_the_oldest_first() -> None:
    shown = _REPORT.as_json()
    parked = [(row["range_id"], row["state"], row["parents"]) for row in shown["parked_ranges"]]
    assert parked == [(8, "healing", []), (7, "parked", [5])]
    assert (shown["partitions"][0]["parked"], shown["partitions"][0]["scans"]) == (2, 1)


def test_each_quarantined_range_is_named() -> None:
    named = [line for line in samples() if line.startswith("tidegate_quarantined_range{")]
    assert named == ['tidegate_quarantined_range{offset="1000",partition="1",range_id="42"} 1.0']


def test_of_very_many_quarantined_ranges_all_are_counted_and_the_worst_are_named() -> None:
    holes = [QuarantineReport(0, number, number, f"{number}.0000000000", "cut") for number in range(900)]
    partition = PartitionReport(0, "running", quarantined=tuple(reversed(holes)))
    report = replace(_REPORT, partitions=(partition, *_REPORT.partitions[1:]))
    shown = samples(report)
    assert 'tidegate_quarantined_ranges{partition="0"} 900.0' in shown
    named = [line for line in shown if line.startswith("tidegate_quarantined_range{")]
    assert len(named) == 50
    status = report.as_json()
    assert [row["range_id"] for row in status["quarantined_ranges"][:8]] == [0, 1, 2, 3, 4, 5, 42, 6]
    assert len(status["quarantined_ranges"]) == 50
    assert [row["quarantined"] for row in status["partitions"]] == [900, 1]


@pytest.mark.parametrize("lag", ["lag_records", "resolved_lag_ms"])
def test_a_lag_that_is_not_known_is_absent_and_not_zero(lag: str) -> None:
    assert not any(line.startswith(f'tidegate_{lag}{{partition="1"}}') for line in samples())
    assert _REPORT.as_json()["partitions"][1][lag] is None


def test_what_is_beyond_memory_has_its_gauges() -> None:
    assert {
        'tidegate_spilled_transactions{partition="0"} 5.0',
        'tidegate_spill_bytes{partition="0"} 900.0',
        'tidegate_spill_bytes{partition="1"} 0.0',
    } <= samples()


def test_the_time_to_restore_is_absent_until_it_is_known() -> None:
    found = [line for line in samples() if line.startswith("tidegate_restore_ms{")]
    assert found == ['tidegate_restore_ms{partition="0"} 250.0']


def test_a_stalled_partition_is_counted_and_named() -> None:
    assert "tidegate_stalled_partitions 1.0" in samples()
    assert [partition.partition for partition in _REPORT.stuck] == [0]
    assert _REPORT.as_json()["stalled_partitions"] == [0]


def test_each_feed_has_its_lag() -> None:
    assert 'tidegate_feed_resolved_lag_ms{feed="bank"} 34.0' in samples()


def test_status_lists_quarantined_ranges_with_offset_and_cause() -> None:
    (hole,) = _REPORT.as_json()["quarantined_ranges"]
    assert (hole["range_id"], hole["offset"], hole["cause"]) == (42, 1_000, "an index is missing")


def test_records_that_the_kernel_followed_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    followed = FollowedRecords()
    monkeypatch.setattr(metrics, "FOLLOWED", followed)
    assert "tidegate_kernel_records_total 0.0" in samples()
    followed.count = 7
    assert "tidegate_kernel_records_total 7.0" in samples()


def test_traps_of_the_kernel_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    traps = Traps()
    monkeypatch.setattr(metrics, "TRAPS", traps)
    assert "tidegate_kernel_traps_total 0.0" in samples()
    traps.trapped(RuntimeError("unreachable"))
    traps.trapped(RuntimeError("unreachable"))
    assert "tidegate_kernel_traps_total 2.0" in samples()
