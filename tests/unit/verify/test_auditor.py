"""Each rule by hand: a broken stream, and where the auditor says it is broken."""

from __future__ import annotations

import pytest

from tests.unit.verify.streams import at, everywhere, key_of, marker, numbered, row, value_of
from tidegate.errors import InputError
from tidegate.hlc import ZERO, Timestamp
from tidegate.verify import (
    AuditOptions,
    ExpectedVersion,
    TopicPartition,
    TopicRecord,
    Verdict,
    Violation,
    ViolationKind,
    audit,
)

#: On two partitions, FNV-1a puts key [2] on partition 1.
TOPICS = {"accounts": 2}


def only_violation(records: list[TopicRecord], start: Timestamp | None = None) -> Violation:
    report = audit(numbered(records), TOPICS, AuditOptions(start=start))
    assert report.verdict is Verdict.VIOLATED
    (violation,) = report.violations
    return violation


def place(violation: Violation) -> tuple[int, int | None, bytes | None]:
    return violation.partition, violation.offset, violation.key


def test_the_key_of_these_tests_is_on_partition_1() -> None:
    assert row(2, at(1)).partition == 1


def test_an_unseen_row_after_its_marker_is_late() -> None:
    violation = only_violation([row(2, at(5)), *everywhere(at(9), TOPICS), row(2, at(9))])
    assert violation.kind is ViolationKind.LATE_ROW
    assert place(violation) == (1, 2, b"[2]")
    assert violation.sentence == (
        "Offset 2 of accounts[1] holds key [2] updated at 9000000.0000000000, not seen before, after the"
        " marker at 9000000.0000000000 that covers it."
    )


def test_a_row_just_above_the_marker_is_in_time() -> None:
    report = audit(numbered([*everywhere(at(9), TOPICS), row(2, at(9, 1))]), TOPICS)
    assert report.verdict is Verdict.PASSED


def test_a_repeat_after_its_marker_is_no_violation() -> None:
    report = audit(numbered([row(2, at(5)), *everywhere(at(9), TOPICS), row(2, at(5))]), TOPICS)
    assert report.verdict is Verdict.PASSED
    assert report.counts.duplicates == 1


def test_another_partitions_marker_does_not_make_a_row_late() -> None:
    records = [marker(at(9), "accounts", 0), row(2, at(5)), marker(at(9), "accounts", 1)]
    assert audit(numbered(records), TOPICS).verdict is Verdict.PASSED


def test_versions_of_a_key_out_of_order() -> None:
    violation = only_violation([row(2, at(5)), row(2, at(3)), *everywhere(at(9), TOPICS)])
    assert violation.kind is ViolationKind.OUT_OF_ORDER
    assert place(violation) == (1, 1, b"[2]")
    assert violation.timestamp == at(3)


def test_repeats_may_come_in_any_order() -> None:
    records = [row(2, at(3)), row(2, at(5)), row(2, at(5)), row(2, at(3)), *everywhere(at(9), TOPICS)]
    report = audit(numbered(records), TOPICS)
    assert (report.verdict, report.counts.duplicates) == (Verdict.PASSED, 2)


def test_a_repeat_with_other_bytes() -> None:
    changed = row(2, at(5))._replace(value=value_of(1, at(5)))
    violation = only_violation([row(2, at(5)), changed, *everywhere(at(9), TOPICS)])
    assert violation.kind is ViolationKind.CHANGED_DUPLICATE
    assert place(violation) == (1, 1, b"[2]")


def test_a_repeat_may_come_from_elsewhere_in_the_log() -> None:
    records = [row(2, at(5), provenance="1/7/0"), row(2, at(5), provenance="9/3/1")]
    assert audit(numbered([*records, *everywhere(at(9), TOPICS)]), TOPICS).verdict is Verdict.PASSED


def test_a_repeat_with_another_header_is_changed() -> None:
    changed = row(2, at(5))._replace(headers=[("trace", b"7")])
    violation = only_violation([row(2, at(5)), changed, *everywhere(at(9), TOPICS)])
    assert violation.kind is ViolationKind.CHANGED_DUPLICATE


def test_a_key_on_the_wrong_partition() -> None:
    violation = only_violation([row(2, at(5))._replace(partition=0), *everywhere(at(9), TOPICS)])
    assert violation.kind is ViolationKind.WRONG_PARTITION
    assert place(violation) == (0, 0, b"[2]")
    assert "belongs on partition 1" in violation.sentence


def test_a_record_time_that_is_not_the_wall_time() -> None:
    violation = only_violation([row(2, at(5))._replace(timestamp_ms=6), *everywhere(at(9), TOPICS)])
    assert violation.kind is ViolationKind.WRONG_RECORD_TIME
    assert place(violation) == (1, 0, b"[2]")
    assert "should be 5 ms; it is 6 ms" in violation.sentence


def test_a_marker_that_falls() -> None:
    records = [*everywhere(at(5), TOPICS), *everywhere(at(9), TOPICS), marker(at(5), "accounts", 0)]
    violation = only_violation(records)
    assert violation.kind is ViolationKind.MARKER_FELL
    assert place(violation) == (0, 2, None)


def test_a_marker_may_be_repeated() -> None:
    records = [*everywhere(at(5), TOPICS), *everywhere(at(5), TOPICS)]
    assert audit(numbered(records), TOPICS).verdict is Verdict.PASSED


def test_a_marker_at_zero() -> None:
    violation = only_violation([marker(ZERO, "accounts", 1), *everywhere(at(5), TOPICS)])
    assert violation.kind is ViolationKind.MARKER_ZERO
    assert place(violation) == (1, 0, None)


def test_a_marker_that_one_partition_lacks() -> None:
    records = [marker(at(5), "accounts", 0), *everywhere(at(9), TOPICS)]
    violation = only_violation(records)
    assert violation.kind is ViolationKind.MARKER_MISSING
    assert place(violation) == (1, None, None)
    assert violation.timestamp == at(5)


def test_markers_that_came_while_the_ends_were_asked_for_may_be_on_some_partitions_alone() -> None:
    """One broker told the end of partition 0 after another had told that of partition 1."""
    records = [*everywhere(at(5), TOPICS), *(marker(at(ms), "accounts", 0) for ms in (7, 8, 9))]
    for settled, missing in ({0: 1, 1: 1}, 0), ({0: 2, 1: 1}, 0), ({0: 3, 1: 1}, 1), ({}, 2):
        ends = {TopicPartition("accounts", partition): end for partition, end in settled.items()}
        report = audit(numbered(records), TOPICS, AuditOptions(settled=ends))
        assert report.violation_counts.get(ViolationKind.MARKER_MISSING, 0) == missing


def test_the_newest_marker_may_still_be_on_its_way() -> None:
    records = [*everywhere(at(5), TOPICS), marker(at(9), "accounts", 0)]
    report = audit(numbered(records), TOPICS)
    assert (report.verdict, report.covered) == (Verdict.PASSED, at(5))


def test_a_partition_two_markers_behind_has_lost_one() -> None:
    records = [*everywhere(at(5), TOPICS), marker(at(7), "accounts", 0), marker(at(9), "accounts", 0)]
    assert only_violation(records).timestamp == at(7)


def test_every_topic_of_the_feed_needs_the_markers() -> None:
    topics = {"accounts": 1, "audits": 1}
    records = [*everywhere(at(5), {"accounts": 1}), *everywhere(at(9), topics)]
    report = audit(numbered(records), topics)
    assert [(each.kind, each.topic) for each in report.violations] == [
        (ViolationKind.MARKER_MISSING, "audits")
    ]


def test_a_row_at_the_start_of_the_feed_is_below_it() -> None:
    records = [row(2, at(5)), row(2, at(5, 1)), *everywhere(at(9), TOPICS)]
    violation = only_violation(records, start=at(5))
    assert violation.kind is ViolationKind.BELOW_START
    assert place(violation) == (1, 0, b"[2]")


@pytest.mark.parametrize(
    "value",
    [b"{", b"[1]", b"\xff", b'{"after": null}', b'{"resolved":"now"}', b'{"resolved":7.5}', b"", None],
)
def test_a_null_key_without_a_resolved_timestamp_is_unreadable(value: bytes | None) -> None:
    broken = marker(at(5), "accounts", 1)._replace(value=value)
    violation = only_violation([broken, *everywhere(at(9), TOPICS)])
    assert violation.kind is ViolationKind.UNREADABLE
    assert place(violation) == (1, 0, None)


def test_a_committed_version_that_is_not_there() -> None:
    history = [ExpectedVersion("accounts", key_of(2), at(5), value_of(2, at(5)))]
    report = audit(numbered(everywhere(at(5), TOPICS)), TOPICS, expected=history)
    (violation,) = report.violations
    assert violation.kind is ViolationKind.MISSING_ROW
    assert place(violation) == (1, None, b"[2]")


def test_a_version_above_its_marker_need_not_be_there_yet() -> None:
    history = [ExpectedVersion("accounts", key_of(2), at(6), value_of(2, at(6)))]
    report = audit(numbered(everywhere(at(5), TOPICS)), TOPICS, expected=history)
    assert report.verdict is Verdict.PASSED


def test_a_version_at_the_start_belongs_to_no_feed() -> None:
    history = [ExpectedVersion("accounts", key_of(2), at(3), value_of(2, at(3)))]
    report = audit(numbered(everywhere(at(5), TOPICS)), TOPICS, AuditOptions(start=at(3)), expected=history)
    assert (report.verdict, report.counts.expected) == (Verdict.PASSED, 0)


def test_a_row_that_nobody_committed() -> None:
    records = numbered([*everywhere(at(5), TOPICS), row(2, at(7))])
    (violation,) = audit(records, TOPICS, expected=[]).violations
    assert violation.kind is ViolationKind.INVENTED_ROW
    assert place(violation) == (1, 1, b"[2]")


def test_a_value_that_nobody_committed() -> None:
    history = [ExpectedVersion("accounts", key_of(2), at(3), value_of(2, at(4)))]
    records = numbered([row(2, at(3)), *everywhere(at(5), TOPICS)])
    (violation,) = audit(records, TOPICS, expected=history).violations
    assert violation.kind is ViolationKind.WRONG_VALUE
    assert place(violation) == (1, 0, b"[2]")


def test_all_violations_are_counted_and_the_first_are_kept() -> None:
    records = [row(2, at(ms))._replace(timestamp_ms=0) for ms in range(1, 8)]
    report = audit(numbered(records), TOPICS, AuditOptions(violation_limit=2))
    assert [violation.offset for violation in report.violations] == [0, 1]
    assert report.violation_counts == {ViolationKind.WRONG_RECORD_TIME: 7}


def test_records_out_of_offset_order_are_refused() -> None:
    first, second = numbered([row(2, at(5)), row(2, at(6))])
    with pytest.raises(InputError, match=r"accounts\[1\] must be audited in offset order"):
        audit([second, first], TOPICS)


def test_offsets_may_have_gaps() -> None:
    records = [row(2, at(5))._replace(offset=10), marker(at(9), "accounts", 1)._replace(offset=40)]
    assert audit(records, TOPICS).verdict is Verdict.PASSED


def test_a_record_of_another_topic_is_refused() -> None:
    with pytest.raises(InputError, match=r"others\[1\]"):
        audit(numbered([row(2, at(5), topic="others")]), TOPICS)


def test_a_history_of_another_topic_is_refused() -> None:
    with pytest.raises(InputError, match="others"):
        audit([], TOPICS, expected=[ExpectedVersion("others", b"[2]", at(1), None)])


def test_a_history_that_contradicts_itself_is_refused() -> None:
    versions = [ExpectedVersion("accounts", b"[2]", at(1), value) for value in (b"1", b"2")]
    with pytest.raises(InputError, match="two values for key"):
        audit([], TOPICS, expected=versions)


def test_an_audit_of_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="no topic"):
        audit([], {})


def test_a_topic_partition_reads_as_people_write_it() -> None:
    assert str(TopicPartition("accounts", 1)) == "accounts[1]"
