"""A topic that several feeds had, one after the other: each is audited by its own records."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Final

import pytest

from tests.unit.verify.streams import at, everywhere, row
from tidegate.changefeed.definition.options import InitialScan
from tidegate.verify import AuditOptions, Auditor, AuditReport, ExpectedVersion, TopicRecord, Verdict
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


def _audit(
    records: Iterable[TopicRecord],
    options: AuditOptions,
    expected: Iterable[ExpectedVersion] | None = None,
) -> AuditReport:
    numbered = (record._replace(offset=offset) for offset, record in zip(itertools.count(), records))
    auditor = Auditor(_TOPICS, options, expected=expected)
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


_UNREADABLE: Final = TopicRecord("accounts", 0, 0, b"[9]", b"\0\0\0\0\1...", 0)


def test_what_cannot_be_read_breaks_no_rule_where_another_feed_may_have_written_it() -> None:
    """A feed in Avro had the topic before, or has it now."""
    before, after = (_UNREADABLE._replace(timestamp_ms=ms) for ms in (100, 200))
    own = [record for record in _BOTH if record != _row(2, 160)]
    first = [_row(1, 90), _row(1, 100), _marker(150)]
    for records, options in ([before, *own], _second()), ([*first, after], _first()):
        report = _audit(records, options)
        assert report.verdict is Verdict.INCOMPLETE, str(report)
        assert "1 records may be those of another feed that had the topics" in str(report)
    behind = _audit([*first, _marker(220), after, after], _first())
    assert (behind.verdict, behind.counts.of_other_feeds) == (Verdict.PASSED, 3)


@pytest.mark.parametrize(
    ("records", "options"),
    [
        ([_UNREADABLE._replace(timestamp_ms=200), _marker(220)], _second()),
        ([_UNREADABLE._replace(timestamp_ms=100), _marker(150)], _first()),
        ([_UNREADABLE._replace(timestamp_ms=100), _marker(220)], _second(before=None)),
    ],
)
def test_what_cannot_be_read_and_is_its_own_is_found(
    records: list[TopicRecord], options: AuditOptions
) -> None:
    report = _audit(records, options)
    assert [violation.kind.name for violation in report.violations] == ["UNREADABLE"]


def test_older_rows_without_a_time_may_be_another_feeds_where_the_feed_has_a_scan() -> None:
    deleted = _row(1, 100)._replace(value=b'{"after": null}')
    unknown = _row(2, 100)._replace(value=b'{"after": {"id": 2}}')
    scanned = _row(3, 120)._replace(value=b'{"after": {"id": 3}}')
    key = scanned.key or b""
    history = [ExpectedVersion("accounts", key, at(120), scanned.value, (), at(151))]
    for expected in None, history:
        report = _audit([deleted, unknown, scanned, _marker(220)], _second(), expected)
        assert report.verdict is Verdict.INCOMPLETE, str(report)
        assert "3 records may be those of another feed that had the topics" in str(report)
    alone = _audit([deleted, scanned, _marker(220)], _second(before=None))
    assert [violation.kind.name for violation in alone.violations] == ["WRONG_SCAN_ROW"]
    lost = _audit([deleted, unknown, _marker(220)], _second(), history)
    assert [violation.kind.name for violation in lost.violations] == ["MISSING_ROW"]
