"""A topic that several feeds had, one after the other: each is audited by its own records."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Final

import pytest

from tests.unit.verify.streams import at, everywhere, row
from tidegate.changefeed.definition.options import InitialScan
from tidegate.verify import AuditOptions, Auditor, AuditReport, TopicRecord, Verdict
from tidegate.verify.other_feeds import FeedBounds

_TOPICS: Final = {"accounts": 1}


def _row(key: int, ms: int, committed: int | None = None) -> TopicRecord:
    """A row; with ``committed`` one of a scan at ``ms``."""
    record = row(key, at(ms), count=1)
    return record if committed is None else record._replace(timestamp_ms=committed)


def _marker(ms: int) -> TopicRecord:
    (record,) = everywhere(at(ms), _TOPICS)
    return record


#: A feed that was dropped at 150 ms, and one that began with a scan at 151 ms, above which all is its own.
_BOTH: Final = [
    _row(1, 90),
    _row(1, 100),
    _marker(150),
    _row(2, 160),
    _row(1, 151, committed=100),
    _row(2, 151, committed=80),
    _row(1, 210),
    _marker(220),
]


def _audit(records: Iterable[TopicRecord], options: AuditOptions) -> AuditReport:
    numbered = (record._replace(offset=offset) for offset, record in zip(itertools.count(), records))
    auditor = Auditor(_TOPICS, options)
    auditor.feed(numbered)
    return auditor.finish()


def _second(*, before: int | None = 150) -> AuditOptions:
    bounds = FeedBounds(at(151), scans=True, before=None if before is None else at(before))
    return AuditOptions(start=at(151), initial_scan=InitialScan.YES, bounds=bounds)


def _first(*, end: int | None = 150) -> AuditOptions:
    bounds = FeedBounds(at(50), scans=False, end=None if end is None else at(end))
    return AuditOptions(start=at(50), initial_scan=InitialScan.NO, bounds=bounds)


def test_records_of_an_earlier_feed_break_no_rule_of_this_one() -> None:
    report = _audit([record for record in _BOTH if record != _row(2, 160)], _second())
    assert report.verdict is Verdict.PASSED, str(report)
    assert (report.counts.rows, report.counts.markers, report.counts.of_other_feeds) == (3, 1, 3)
    assert report.covered == at(220)
    assert "3 records of feeds that had the topics before or after, passed over" in str(report)


def test_records_of_a_later_feed_break_no_rule_of_this_one() -> None:
    report = _audit(_BOTH, _first())
    assert report.verdict is Verdict.PASSED, str(report)
    assert (report.counts.rows, report.counts.markers, report.covered) == (2, 1, at(150))


@pytest.mark.parametrize("options", [_second(before=None), _first(end=None)], ids=["second", "first"])
def test_without_such_a_feed_they_do(options: AuditOptions) -> None:
    assert _audit(_BOTH, options).verdict is Verdict.VIOLATED


@pytest.mark.parametrize("late", [_row(1, 151, committed=100), _row(3, 200)])
def test_a_late_row_of_its_own_is_still_found(late: TopicRecord) -> None:
    records = [_row(1, 100), _marker(150), _row(2, 151, committed=80), _marker(220), late]
    report = _audit(records, _second())
    assert [violation.kind.name for violation in report.violations] == ["LATE_ROW"]


def test_rows_that_tell_no_time_are_told_by_their_record_times() -> None:
    untimed = [record._replace(value=b'{"after": null}') for record in (_row(1, 100), _row(1, 170))]
    bounds = FeedBounds(at(151), scans=False, before=at(150))
    options = AuditOptions(start=at(151), initial_scan=InitialScan.NO, bounds=bounds)
    report = _audit([*untimed, _marker(220)], options)
    assert report.violation_counts == {}
    assert (report.counts.rows, report.counts.of_other_feeds) == (1, 1)
