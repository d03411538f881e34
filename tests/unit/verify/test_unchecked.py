"""Tests what the auditor cannot know, and that it says so."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.verify.streams import (
    Stream,
    at,
    correct_streams,
    everywhere,
    key_of,
    marker,
    numbered,
    row,
    value_of,
)
from tidegate.changefeed.definition.options import Envelope
from tidegate.changefeed.encoding.json_decoder import JsonDecoder
from tidegate.processor.batch import SOURCE_HEADER
from tidegate.verify import (
    AuditOptions,
    ExpectedVersion,
    TopicPartition,
    TopicRecord,
    Verdict,
    ViolationKind,
    audit,
)
from tidegate.verify.memory import VersionMemory
from tidegate.verify.record import PROVENANCE_HEADERS

TOPICS = {"accounts": 2}
MS = 1_000_000


def untimed(key: int) -> TopicRecord:
    return row(key, at(5))._replace(value=b'{"after": {"k": 1}}')


def test_rows_without_updated_leave_the_audit_incomplete() -> None:
    report = audit(numbered([untimed(2), *everywhere(at(9), TOPICS)]), TOPICS)
    assert report.verdict is Verdict.INCOMPLETE
    (gap,) = report.unchecked
    assert ViolationKind.LATE_ROW in gap.kinds
    assert "WITH updated" in gap.reason


def test_rows_without_updated_must_still_be_where_they_belong() -> None:
    report = audit(numbered([untimed(2)._replace(partition=0)]), TOPICS)
    assert [violation.kind for violation in report.violations] == [ViolationKind.WRONG_PARTITION]


def test_topics_without_markers_leave_the_audit_incomplete() -> None:
    report = audit(numbered([row(2, at(5))]), TOPICS)
    assert report.verdict is Verdict.INCOMPLETE
    assert "WITH resolved" in report.unchecked[0].reason


def test_empty_topics_are_not_a_pass() -> None:
    report = audit([], TOPICS)
    assert report.verdict is Verdict.INCOMPLETE
    assert report.unchecked[0].reason == "the topics hold no records"


def test_the_only_header_that_copies_may_differ_in_is_the_processor_s() -> None:
    assert frozenset({SOURCE_HEADER}) == PROVENANCE_HEADERS


def test_in_a_truncated_partition_a_late_row_may_be_a_repeat() -> None:
    truncated = AuditOptions(truncated=frozenset({TopicPartition("accounts", 1)}))
    records = numbered([*everywhere(at(9), TOPICS), row(2, at(5))])
    report = audit(records, TOPICS, truncated)
    assert (report.verdict, report.counts.undecided) == (Verdict.INCOMPLETE, 1)


def test_markers_deleted_with_the_beginning_of_a_partition_are_not_missed() -> None:
    truncated = AuditOptions(truncated=frozenset({TopicPartition("accounts", 1)}))
    records = [marker(at(3), "accounts", 0), *everywhere(at(5), TOPICS), *everywhere(at(9), TOPICS)]
    assert audit(numbered(records), TOPICS, truncated).verdict is Verdict.PASSED
    lost_later = [*everywhere(at(5), TOPICS), marker(at(7), "accounts", 0), *everywhere(at(9), TOPICS)]
    assert audit(numbered(lost_later), TOPICS, truncated).verdict is Verdict.VIOLATED


def test_rows_deleted_with_the_beginning_of_a_partition_are_not_missed() -> None:
    truncated = AuditOptions(truncated=frozenset({TopicPartition("accounts", 1)}))
    history = [ExpectedVersion("accounts", key_of(2), at(3), value_of(2, at(3)))]
    report = audit(numbered(everywhere(at(5), TOPICS)), TOPICS, truncated, expected=history)
    assert report.verdict is Verdict.INCOMPLETE
    assert report.unchecked[0].kinds == (ViolationKind.MISSING_ROW,)


def test_past_the_horizon_a_repeat_cannot_be_told_from_a_late_row() -> None:
    options = AuditOptions(horizon_ns=10 * MS)
    records = [row(2, at(1)), *(each for ms in (5, 20, 35, 50) for each in everywhere(at(ms), TOPICS))]
    report = audit(numbered([*records, row(2, at(1))]), TOPICS, options)
    assert (report.verdict, report.counts.undecided) == (Verdict.INCOMPLETE, 1)


def test_within_the_horizon_a_late_row_is_still_found() -> None:
    options = AuditOptions(horizon_ns=10 * MS)
    records = [row(2, at(1)), *(each for ms in (5, 20, 35, 50) for each in everywhere(at(ms), TOPICS))]
    report = audit(numbered([*records, row(2, at(45))]), TOPICS, options)
    assert [violation.kind for violation in report.violations] == [ViolationKind.LATE_ROW]


@given(correct_streams, st.integers(0, 20))
def test_a_horizon_never_accuses_a_correct_stream(stream: Stream, horizon_ms: int) -> None:
    report = audit(stream.records, stream.topics, AuditOptions(horizon_ns=horizon_ms * MS))
    assert not report.violations, str(report)


@given(st.lists(st.integers(0, 60), min_size=1), st.integers(0, 9))
def test_memory_holds_every_version_above_what_it_forgot(steps_ms: list[int], horizon_ms: int) -> None:
    memory = VersionMemory(horizon_ms * MS)
    now_ms = 0
    for digest, step_ms in enumerate(steps_ms):
        now_ms += step_ms + 1
        memory.remember((b"k", at(now_ms)), digest)
        memory.marker(at(now_ms))
        forgettable = at(max(0, now_ms - horizon_ms))
        assert memory.forgotten <= forgettable
    now_ms = 0
    for digest, step_ms in enumerate(steps_ms):
        now_ms += step_ms + 1
        if at(now_ms) > memory.forgotten:
            assert memory.digest((b"k", at(now_ms))) == digest
    assert memory.highest(b"k") == at(now_ms)


def test_the_row_envelope_tells_its_timestamps_elsewhere() -> None:
    record = row(2, at(5))._replace(value=b'{"__crdb__": {"updated": "5000000.0000000000"}, "k": 1}')
    value = b'{"__crdb__":{"resolved":"9000000.0000000000"}}'
    markers = [each._replace(value=value) for each in everywhere(at(9), TOPICS)]
    report = audit(numbered([record, *markers]), TOPICS, decoder=JsonDecoder(Envelope.ROW))
    assert (report.verdict, report.covered) == (Verdict.PASSED, at(9))


def test_records_of_another_envelope_are_unreadable() -> None:
    report = audit(numbered(everywhere(at(9), TOPICS)), TOPICS, decoder=JsonDecoder(Envelope.KEY_ONLY))
    assert report.violation_counts == {ViolationKind.UNREADABLE: 2}
