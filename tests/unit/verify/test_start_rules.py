"""Feeds that begin in the past or with a scan: what the auditor expects of their rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.verify.streams import at, everywhere, key_of, numbered, row, value_of
from tidegate.changefeed.definition.options import InitialScan
from tidegate.hlc import Timestamp
from tidegate.verify import (
    AuditOptions,
    AuditReport,
    ExpectedVersion,
    TopicRecord,
    Verdict,
    ViolationKind,
    audit,
)

TOPICS = {"accounts": 2}
START = at(5, 3)
SCAN = AuditOptions(start=START, initial_scan=InitialScan.YES)
ONLY = replace(SCAN, initial_scan=InitialScan.ONLY)
DONE = replace(ONLY, succeeded=True)
MARKED = everywhere(at(9), TOPICS)


def scanned(key: int, committed_ms: int) -> TopicRecord:
    """A row of the initial scan: it tells the start, and has the record time of its version."""
    return row(key, START)._replace(timestamp_ms=committed_ms)


def owed(key: int, committed_ms: int) -> ExpectedVersion:
    return ExpectedVersion("accounts", key_of(key), at(committed_ms), value_of(key, START), scanned_at=START)


def live(key: int, timestamp: Timestamp) -> ExpectedVersion:
    return ExpectedVersion("accounts", key_of(key), timestamp, value_of(key, timestamp))


def outcome(
    records: list[TopicRecord], options: AuditOptions, expected: list[ExpectedVersion] | None = None
) -> AuditReport:
    return audit(numbered(records), TOPICS, options, expected=expected)


def only_kind(
    records: list[TopicRecord], options: AuditOptions, expected: list[ExpectedVersion] | None = None
) -> ViolationKind:
    (violation,) = outcome(records, options, expected).violations
    return violation.kind


def untimed(record: TopicRecord) -> TopicRecord:
    return record._replace(value=b'{"after": {"k": 1}}')


# ---- with a scan


def test_a_scan_row_tells_the_start_and_keeps_the_record_time_of_its_version() -> None:
    records = [scanned(2, 3), scanned(4, 5), row(2, at(6)), *MARKED]
    report = outcome(records, SCAN, [owed(2, 3), owed(4, 5), live(2, at(6))])
    assert (report.verdict, report.counts.expected) == (Verdict.PASSED, 3), str(report)


def test_a_row_below_the_start_is_no_scan_row() -> None:
    assert only_kind([row(2, at(5, 2)), *MARKED], SCAN) is ViolationKind.BELOW_START


def test_without_a_scan_nothing_stands_at_the_start() -> None:
    options = replace(SCAN, initial_scan=InitialScan.NO)
    assert only_kind([row(2, START), *MARKED], options) is ViolationKind.BELOW_START


def test_the_scan_row_comes_before_the_live_rows_of_its_key() -> None:
    assert only_kind([row(2, at(6)), scanned(2, 3), *MARKED], SCAN) is ViolationKind.OUT_OF_ORDER


def test_a_scan_row_may_be_repeated_behind_live_rows() -> None:
    records = [scanned(2, 3), row(2, at(6)), scanned(2, 3), *MARKED]
    report = outcome(records, SCAN)
    assert (report.verdict, report.counts.duplicates) == (Verdict.PASSED, 1)


def test_a_scan_row_behind_a_marker_is_late() -> None:
    assert only_kind([*MARKED, scanned(2, 3)], SCAN) is ViolationKind.LATE_ROW


def test_a_scan_shows_one_version_of_a_key() -> None:
    records = [scanned(2, 3), scanned(2, 4), *MARKED]
    assert only_kind(records, SCAN) is ViolationKind.CHANGED_DUPLICATE


def test_a_scan_row_is_no_deletion() -> None:
    value = f'{{"after": null, "updated": "{START}"}}'.encode()
    records = [scanned(2, 3)._replace(value=value), *MARKED]
    assert only_kind(records, SCAN) is ViolationKind.WRONG_SCAN_ROW


def test_a_scan_row_committed_after_the_scan() -> None:
    assert only_kind([scanned(2, 6), *MARKED], SCAN) is ViolationKind.WRONG_RECORD_TIME
    value = f'{{"after": {{}}, "updated": "{START}", "mvcc_timestamp": "{at(5, 4)}"}}'.encode()
    records = [scanned(2, 5)._replace(value=value), *MARKED]
    assert only_kind(records, SCAN) is ViolationKind.WRONG_SCAN_ROW


def test_a_scan_row_that_tells_when_it_was_committed_has_that_record_time() -> None:
    value = f'{{"after": {{}}, "updated": "{START}", "mvcc_timestamp": "{at(3)}"}}'.encode()
    assert outcome([scanned(2, 3)._replace(value=value), *MARKED], SCAN).verdict is Verdict.PASSED
    records = [scanned(2, 2)._replace(value=value), *MARKED]
    assert only_kind(records, SCAN) is ViolationKind.WRONG_RECORD_TIME


def test_a_row_that_tells_only_its_own_timestamp_is_told_from_scan_rows_by_it() -> None:
    def telling(key: int, committed: Timestamp) -> TopicRecord:
        return row(key, committed)._replace(
            value=f'{{"after": {{}}, "mvcc_timestamp": "{committed}"}}'.encode()
        )

    records = [telling(2, at(3)), telling(2, at(6)), *MARKED]
    assert outcome(records, SCAN).verdict is Verdict.PASSED
    assert only_kind([telling(2, at(6)), telling(2, at(3)), *MARKED], SCAN) is ViolationKind.OUT_OF_ORDER


def test_the_history_says_which_version_a_scan_shows() -> None:
    records = [scanned(2, 3), *MARKED]
    assert only_kind(records, SCAN, [owed(2, 4)]) is ViolationKind.WRONG_RECORD_TIME
    assert only_kind(records, SCAN, []) is ViolationKind.INVENTED_ROW
    assert only_kind(MARKED, SCAN, [owed(2, 3)]) is ViolationKind.MISSING_ROW


# ---- only the scan


def test_a_feed_that_has_succeeded_needs_no_marker() -> None:
    report = outcome([scanned(2, 3)], DONE, [owed(2, 3)])
    assert (report.verdict, report.covered) == (Verdict.PASSED, START), str(report)


def test_a_feed_that_has_succeeded_has_all_rows_of_its_scan() -> None:
    report = outcome([scanned(2, 3)], DONE, [owed(2, 3), owed(4, 3)])
    (violation,) = report.violations
    assert (violation.kind, violation.key) == (ViolationKind.MISSING_ROW, b"[4]")
    assert "the feed, which has succeeded" in violation.sentence


def test_a_feed_without_rows_may_have_succeeded() -> None:
    assert outcome([], DONE, []).verdict is Verdict.PASSED
    assert outcome([], DONE).verdict is Verdict.INCOMPLETE


def test_before_it_has_succeeded_rows_of_the_scan_may_still_come() -> None:
    report = outcome([scanned(2, 3)], ONLY, [owed(2, 3), owed(4, 3)])
    assert report.verdict is Verdict.INCOMPLETE
    (gap,) = report.unchecked
    assert gap.kinds == (ViolationKind.MISSING_ROW,)
    assert "has not succeeded yet" in gap.reason


def test_a_marker_says_that_the_scan_is_whole_as_well() -> None:
    records = [scanned(2, 3), *everywhere(START, TOPICS)]
    assert only_kind(records, ONLY, [owed(2, 3), owed(4, 3)]) is ViolationKind.MISSING_ROW


@pytest.mark.parametrize("options", [ONLY, DONE])
def test_nothing_follows_a_scan_that_is_all(options: AuditOptions) -> None:
    assert only_kind([scanned(2, 3), row(2, at(6))], options) is ViolationKind.AFTER_SCAN
    assert only_kind([untimed(row(2, at(6)))], options) is ViolationKind.AFTER_SCAN


# ---- without `updated`


def test_rows_that_tell_no_timestamp_are_held_to_the_scan_by_their_record_times() -> None:
    expected = [owed(2, 3)._replace(value=b'{"after": {"k": 1}}')]
    records = [untimed(scanned(2, 3)), *MARKED]
    report = outcome(records, SCAN, expected)
    assert (report.verdict, report.violations) == (Verdict.INCOMPLETE, ())
    unchecked = {kind for kinds, _ in report.unchecked for kind in kinds}
    assert {ViolationKind.OUT_OF_ORDER, ViolationKind.WRONG_SCAN_ROW} <= unchecked
    assert ViolationKind.MISSING_ROW not in unchecked
    assert only_kind([untimed(scanned(2, 2)), untimed(scanned(2, 3)), *MARKED], SCAN, expected) is (
        ViolationKind.INVENTED_ROW
    )
    assert only_kind(MARKED, SCAN, expected) is ViolationKind.MISSING_ROW


def test_a_deletion_with_a_record_time_before_the_start_is_no_scan_row() -> None:
    deletion = scanned(2, 3)._replace(value=b'{"after": null}')
    assert only_kind([deletion, *MARKED], SCAN) is ViolationKind.WRONG_SCAN_ROW


def test_without_a_scan_a_record_time_before_the_start_is_below_it() -> None:
    options = replace(SCAN, initial_scan=InitialScan.NO)
    assert only_kind([untimed(row(2, at(4))), *MARKED], options) is ViolationKind.BELOW_START
    assert outcome([untimed(row(2, at(5))), *MARKED], options).violations == ()


# ---- a feed that nobody names


def test_rows_of_topics_without_a_named_feed_may_be_those_of_a_scan() -> None:
    unknown = AuditOptions(initial_scan=None)
    records = [scanned(2, 3), scanned(4, 1), row(2, at(6)), *MARKED]
    assert outcome(records, unknown).verdict is Verdict.PASSED
    assert only_kind([*records, row(6, at(10))._replace(timestamp_ms=9)], unknown) is (
        ViolationKind.WRONG_RECORD_TIME
    )
    assert only_kind([row(2, at(4)), *records], unknown) is ViolationKind.WRONG_RECORD_TIME
