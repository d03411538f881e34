"""Markers on a topic of their own are held to what they say of the rows' topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.verify.streams import Stream, at, correct_streams, marker, numbered, row
from tidegate.changefeed.encoding.json_decoder import parse_record
from tidegate.changefeed.encoding.record import MarkerRecord
from tidegate.changefeed.encoding.resolved_topic import offset_marker_value
from tidegate.errors import InputError
from tidegate.hlc import ResolvedTimestamp, Timestamp
from tidegate.verify import (
    AuditOptions,
    AuditReport,
    ExpectedVersion,
    TopicPartition,
    TopicRecord,
    Verdict,
    ViolationKind,
    audit,
)
from tidegate.verify.resolved_topic import MarkerLine

#: On two partitions, FNV-1a puts key [2] on partition 1.
TOPICS = {"accounts": 2, "markers": 2}


def aside(partition: int, timestamp: Timestamp, **offsets: int) -> TopicRecord:
    """A marker on the topic of its own; its offset there is still to be given."""
    value = offset_marker_value(ResolvedTimestamp(timestamp), offsets)
    return TopicRecord("markers", partition, -1, None, value, 0)


def both(timestamp: Timestamp, accounts: int) -> list[TopicRecord]:
    """One emission: partition 1 of the rows ends at ``accounts``, partition 0 is empty."""
    return [aside(0, timestamp, accounts=0), aside(1, timestamp, accounts=accounts)]


def checked(records: Iterable[TopicRecord], **options: object) -> AuditReport:
    """The audit of these records, those of the markers' topic first."""
    ordered = sorted(numbered(records), key=lambda record: record.topic != "markers")
    return audit(ordered, TOPICS, AuditOptions(resolved_topic="markers", **options))  # type: ignore[arg-type]


def kinds(report: AuditReport) -> list[ViolationKind]:
    return [violation.kind for violation in report.violations]


def test_rows_below_the_offsets_of_a_marker_pass() -> None:
    report = checked([row(2, at(5)), row(2, at(9)), *both(at(9), 2), row(2, at(9, 1))])
    assert report.verdict is Verdict.PASSED, str(report)
    assert (report.covered, report.counts.rows, report.counts.markers) == (at(9), 3, 2)


def test_an_unseen_row_at_the_offset_of_a_marker_that_covers_it_is_late() -> None:
    report = checked([row(2, at(5)), *both(at(9), 1), row(2, at(9))])
    assert kinds(report) == [ViolationKind.LATE_ROW]
    assert (report.violations[0].topic, report.violations[0].offset) == ("accounts", 1)


def test_a_repeat_above_the_offset_of_a_marker_is_no_violation() -> None:
    report = checked([row(2, at(5)), *both(at(9), 1), row(2, at(5))])
    assert report.verdict is Verdict.PASSED
    assert report.counts.duplicates == 1


def test_the_first_marker_counts_and_not_its_repeat_with_a_higher_offset() -> None:
    records = [row(2, at(5)), *both(at(9), 1), row(2, at(8)), *both(at(9), 2)]
    assert kinds(checked(records)) == [ViolationKind.LATE_ROW]


def test_a_marker_that_falls_is_named() -> None:
    assert set(kinds(checked([*both(at(9), 0), *both(at(8), 0)]))) == {ViolationKind.MARKER_FELL}


def test_a_marker_that_misses_a_partition_is_named() -> None:
    report = checked([*both(at(7), 0), aside(0, at(8), accounts=0), *both(at(9), 0)])
    assert [(v.kind, v.topic, v.partition) for v in report.violations] == [
        (ViolationKind.MARKER_MISSING, "markers", 1)
    ]


def test_a_marker_among_the_rows_is_named() -> None:
    report = checked([*both(at(9), 1), marker(at(9), "accounts", 1)])
    assert kinds(report) == [ViolationKind.MARKER_AMONG_ROWS]


def test_a_marker_that_names_no_offset_is_named_and_promises_nothing() -> None:
    report = checked([aside(0, at(9), accounts=0), aside(1, at(9), others=1), row(2, at(5))])
    assert kinds(report) == [ViolationKind.MARKER_WITHOUT_OFFSET]
    assert report.covered == Timestamp(0)


def test_an_offset_beyond_the_end_is_named_and_covers_nothing() -> None:
    ends = {TopicPartition("accounts", 0): 0, TopicPartition("accounts", 1): 1}
    report = checked([row(2, at(5)), *both(at(6), 1), *both(at(9), 2)], ends=ends)
    assert kinds(report) == [ViolationKind.MARKER_BEYOND_END]
    assert "accounts[1] ends at offset 1, but the marker at 9000000.0000000000 names 2" in str(report)
    assert report.covered == at(6)


def test_a_record_that_is_no_marker_is_unreadable() -> None:
    assert kinds(checked([*both(at(9), 0), row(2, at(5), topic="markers")])) == [ViolationKind.UNREADABLE]


def test_markers_must_be_given_before_rows() -> None:
    records = numbered([row(2, at(5)), *both(at(9), 1)])
    with pytest.raises(InputError, match="markers of markers must be audited before the rows"):
        audit(records, TOPICS, AuditOptions(resolved_topic="markers"))


def test_rows_that_compaction_may_have_left_behind_are_undecided() -> None:
    records = [row(2, at(5)), *both(at(9), 1), row(2, at(8))]
    report = checked(records, compacted=frozenset({"accounts"}))
    assert report.verdict is Verdict.INCOMPLETE
    assert report.counts.undecided == 1


def test_a_version_that_compaction_may_have_removed_is_not_missing() -> None:
    expected = [ExpectedVersion("accounts", b"[2]", at(5), None)]
    records = numbered(both(at(9), 1))
    options = AuditOptions(resolved_topic="markers")
    assert kinds(audit(records, TOPICS, options, expected=expected)) == [ViolationKind.MISSING_ROW]
    options = AuditOptions(resolved_topic="markers", compacted=frozenset({"accounts"}))
    report = audit(records, TOPICS, options, expected=expected)
    assert report.verdict is Verdict.INCOMPLETE
    assert "not checked (MISSING_ROW): 2 partitions are compacted" in str(report)


def test_markers_that_were_deleted_leave_the_audit_incomplete() -> None:
    report = checked(both(at(9), 0), truncated=frozenset({TopicPartition("markers", 0)}))
    assert report.verdict is Verdict.INCOMPLETE
    assert "the beginning of 1 partitions of markers has been deleted" in str(report)


def moved_aside(stream: Stream) -> Iterator[TopicRecord]:
    """The records of a stream with each emission of a marker on a topic of its own."""
    ends: Counter[TopicPartition] = Counter()
    last: Timestamp | None = None
    for record in stream.records:
        place = TopicPartition(record.topic, record.partition)
        if record.key is not None:
            yield record._replace(offset=ends[place])
            ends[place] += 1
            last = None
            continue
        decoded = parse_record(record.key, record.value)
        assert isinstance(decoded, MarkerRecord)
        if decoded.resolved != last:  # the first of an emission stands for all of it
            last = decoded.resolved
            for number in range(max(stream.topics.values())):
                offsets = {topic: ends[TopicPartition(topic, number)] for topic in stream.topics}
                yield aside(number, decoded.resolved, **offsets)


@given(correct_streams, st.booleans())
def test_a_correct_stream_passes(stream: Stream, give_ends: bool) -> None:
    records = list(moved_aside(stream))
    rows = [record for record in records if record.topic != "markers"]
    markers = numbered(record for record in records if record.topic == "markers")
    ends = {TopicPartition(row.topic, row.partition): row.offset + 1 for row in rows} if give_ends else {}
    options = AuditOptions(resolved_topic="markers", ends=ends)
    topics = {**stream.topics, "markers": max(stream.topics.values())}
    report = audit([*markers, *rows], topics, options, expected=stream.history)
    before = audit(stream.records, stream.topics, expected=stream.history)
    assert report.verdict is Verdict.PASSED, str(report)
    assert (report.covered, report.counts.rows, report.counts.duplicates) == (
        before.covered,
        before.counts.rows,
        before.counts.duplicates,
    )


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), max_size=12), st.integers(0, 9))
def test_a_line_gives_the_highest_marker_up_to_an_offset(laid: list[tuple[int, int]], offset: int) -> None:
    line = MarkerLine()
    for where, ms in laid:
        line.add(where, at(ms))
    assert line.pass_to(offset) == max(
        (at(ms) for where, ms in laid if where <= offset), default=Timestamp(0)
    )
