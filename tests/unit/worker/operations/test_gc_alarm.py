"""The warning before the store removes what a feed that catches up still misses."""

from __future__ import annotations

from structlog.testing import capture_logs

from tidegate.worker.operations.gc_alarm import GcAlarm
from tidegate.worker.operations.report import LaggingReport, PartitionReport, WorkerReport


def _report(*reserves_ms: int | None) -> WorkerReport:
    lagging = tuple(
        LaggingReport(3, f"feed{number}", 1, "5.0", 7, 0, 0, reserve)
        for number, reserve in enumerate(reserves_ms)
    )
    partitions = (PartitionReport(3, "running", lagging=lagging),)
    return WorkerReport("app", None, "raftlog", 4, stall_alarm_ms=1, partitions=partitions)


def _told(*reports: WorkerReport) -> list[str]:
    alarm = GcAlarm()
    with capture_logs() as lines:
        for report in reports:
            alarm.look(report)
    return [line["feed"] for line in lines]


def test_a_feed_is_warned_of_once_when_a_tenth_is_left() -> None:
    assert _told(_report(1_000, 1_000), _report(100, 900), _report(99, 800), _report(50, 700)) == ["feed0"]


def test_a_feed_that_lags_anew_is_warned_of_anew() -> None:
    assert _told(_report(1_000), _report(99), _report(), _report(1_000), _report(99)) == ["feed0", "feed0"]


def test_a_feed_that_has_little_from_the_beginning_is_measured_by_that() -> None:
    assert _told(_report(100), _report(20), _report(9)) == ["feed0"]


def test_what_is_left_is_measured_by_the_first_that_is_known() -> None:
    """Before that nothing is known to be removed, and what there is later is not little beside it."""
    assert _told(_report(None), _report(1_000), _report(101), _report(None), _report(100)) == []
    assert _told(_report(None), _report(1_000), _report(None), _report(99)) == ["feed0"]
