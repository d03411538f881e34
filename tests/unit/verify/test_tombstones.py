"""Deletions and their tombstones: what the auditor holds a Debezium feed to, and what it lets pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.changefeed.tables import FOO, deletion_of, row
from tests.unit.verify.streams import at, everywhere, numbered
from tidegate.changefeed.definition.options import Envelope, FeedOptions
from tidegate.changefeed.encoding.encoder import compile_encoder
from tidegate.changefeed.encoding.json_decoder import JsonDecoder
from tidegate.changefeed.encoding.partition import partition_of
from tidegate.hlc import Timestamp
from tidegate.rows import Row
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

TOPICS: Final = {"foo": 2}
KNOWING_NOTHING: Final = AuditOptions()
DEBEZIUM: Final = JsonDecoder(Envelope.DEBEZIUM)
ENCODE: Final = compile_encoder(FOO, FeedOptions(envelope=Envelope.DEBEZIUM)).encode


def placed(key: bytes, value: bytes | None, timestamp: Timestamp) -> TopicRecord:
    return TopicRecord("foo", partition_of(key, 2), -1, key, value, timestamp.wall_ms)


def of(version: Row, timestamp: Timestamp) -> TopicRecord:
    return placed(*ENCODE(version, timestamp), timestamp)


def bar(key: int) -> Row:
    return row(FOO, a=key, b="bar")


def put(key: int, timestamp: Timestamp) -> TopicRecord:
    return of(bar(key), timestamp)


def deletion(key: int, timestamp: Timestamp) -> TopicRecord:
    return of(deletion_of(bar(key)), timestamp)


def tombstone(key: int, timestamp: Timestamp) -> TopicRecord:
    return placed(b'{"a": %d}' % key, None, timestamp)


def audited(records: Sequence[TopicRecord], options: AuditOptions = KNOWING_NOTHING) -> AuditReport:
    return audit(numbered([*records, *everywhere(at(9), TOPICS)]), TOPICS, options, DEBEZIUM)


def kinds(report: AuditReport) -> list[ViolationKind]:
    return [violation.kind for violation in report.violations]


def test_a_deletion_and_its_tombstone_pass_and_the_tombstone_is_no_row() -> None:
    report = audited([put(1, at(3)), deletion(1, at(5)), tombstone(1, at(5))])
    assert report.verdict is Verdict.PASSED, str(report)
    assert (report.counts.rows, report.counts.tombstones, report.counts.duplicates) == (2, 1, 0)
    assert "1 tombstones after deletions" in str(report)
    assert report.as_json()["counts"]["tombstones"] == 1


def test_copies_of_both_pass() -> None:
    pair = [deletion(1, at(5)), tombstone(1, at(5))]
    report = audited([*pair, put(1, at(7)), *pair, put(1, at(7)), *everywhere(at(8), TOPICS), *pair])
    assert report.verdict is Verdict.PASSED, str(report)


def test_a_crash_between_both_passes_once_the_tombstone_came_with_the_replay() -> None:
    report = audited(
        [put(1, at(3)), deletion(1, at(5)), put(1, at(3)), deletion(1, at(5)), tombstone(1, at(5))]
    )
    assert report.verdict is Verdict.PASSED, str(report)


def test_a_deletion_without_its_tombstone_is_named_at_the_marker_that_covers_it() -> None:
    report = audited([put(1, at(3)), deletion(1, at(5))])
    assert kinds(report) == [ViolationKind.MISSING_TOMBSTONE]
    (violation,) = report.violations
    assert (violation.offset, violation.key, violation.timestamp) == (1, b'{"a": 1}', at(5))
    assert f"no tombstone follows it before the marker at {at(9)}" in violation.sentence


def test_a_tombstone_may_be_on_its_way_while_no_marker_covers_its_deletion() -> None:
    records = numbered([*everywhere(at(4), TOPICS), deletion(1, at(5))])
    assert not audit(records, TOPICS, AuditOptions(), DEBEZIUM).violations


def test_a_tombstone_without_a_deletion_is_stray() -> None:
    report = audited([put(1, at(5)), tombstone(1, at(5))])
    assert kinds(report) == [ViolationKind.STRAY_TOMBSTONE]
    assert "no deletion of key" in report.violations[0].sentence


def test_a_tombstone_before_its_deletion_is_stray() -> None:
    report = audited([tombstone(1, at(5)), deletion(1, at(5))])
    assert kinds(report) == [ViolationKind.STRAY_TOMBSTONE, ViolationKind.MISSING_TOMBSTONE]


def test_a_tombstone_of_another_key_or_record_time_is_stray() -> None:
    for stray in (tombstone(1, at(6)), tombstone(2, at(5))):
        report = audited([deletion(1, at(5)), tombstone(1, at(5)), stray])
        assert kinds(report) == [ViolationKind.STRAY_TOMBSTONE]


def test_a_tombstone_behind_a_newer_row_of_its_key_is_out_of_order() -> None:
    """Compaction would forget the newer row: the tombstone is the key's last record."""
    report = audited([put(1, at(3)), deletion(1, at(5)), put(1, at(7)), tombstone(1, at(5))])
    assert kinds(report) == [ViolationKind.OUT_OF_ORDER]
    (violation,) = report.violations
    assert (violation.offset, violation.timestamp) == (3, at(5))
    assert f"after the same key updated at {at(7)}" in violation.sentence


def test_a_tombstone_has_the_lasting_headers_of_its_deletion() -> None:
    def headed(record: TopicRecord, trace: bytes, source: bytes) -> TopicRecord:
        return record._replace(headers=[("tidegate-source", source), ("trace", trace)])

    gone = headed(deletion(1, at(5)), b"7", b"1/1/0")
    same = headed(tombstone(1, at(5)), b"7", b"2/1/0")
    assert audited([gone, same]).verdict is Verdict.PASSED
    for other in (headed(tombstone(1, at(5)), b"8", b"1/1/0"), tombstone(1, at(5))):
        assert kinds(audited([gone, other])) == [ViolationKind.STRAY_TOMBSTONE]
        assert kinds(audited([gone, same, other])) == [ViolationKind.STRAY_TOMBSTONE]


def test_two_deletions_in_one_millisecond_need_two_tombstones() -> None:
    first = [deletion(1, at(5)), tombstone(1, at(5)), put(1, at(5, 1))]
    report = audited([*first, deletion(1, at(5, 2)), tombstone(1, at(5, 2))])
    assert report.verdict is Verdict.PASSED, str(report)
    for lost, timestamp in ((1, at(5)), (4, at(5, 2))):
        records = [*first, deletion(1, at(5, 2)), tombstone(1, at(5, 2))]
        del records[lost]
        report = audited(records)
        assert kinds(report) == [ViolationKind.MISSING_TOMBSTONE]
        assert report.violations[0].timestamp == timestamp


def test_the_tombstone_of_a_replayed_deletion_is_not_that_of_another_in_its_millisecond() -> None:
    first = [deletion(1, at(5)), tombstone(1, at(5)), put(1, at(5, 1))]
    second = [deletion(1, at(5, 2)), tombstone(1, at(5, 2))]
    report = audited([*first, second[0], *first, *second])
    assert report.verdict is Verdict.PASSED, str(report)
    report = audited([*first, second[0], *first, second[0]])
    assert kinds(report) == [ViolationKind.MISSING_TOMBSTONE]


def test_a_tombstone_on_the_wrong_partition_is_named() -> None:
    wrong = tombstone(1, at(5))._replace(partition=1 - tombstone(1, at(5)).partition)
    assert ViolationKind.WRONG_PARTITION in kinds(audited([wrong]))


def test_a_tombstone_whose_deletion_may_be_gone_is_undecided() -> None:
    place = TopicPartition("foo", tombstone(1, at(5)).partition)
    report = audited([tombstone(1, at(5))], AuditOptions(truncated=frozenset({place})))
    assert (report.verdict, report.counts.undecided) == (Verdict.INCOMPLETE, 1)
    forgotten = audited(
        [
            *(deletion(1, at(1)), tombstone(1, at(1)), *everywhere(at(3), TOPICS)),
            *(put(1, at(4)), *everywhere(at(5), TOPICS), *everywhere(at(7), TOPICS)),
            tombstone(1, at(1)),
        ],
        AuditOptions(horizon_ns=0),
    )
    assert (forgotten.violations, forgotten.counts.undecided) == ((), 1)


def test_a_record_without_a_value_is_a_fault_in_other_envelopes() -> None:
    record = placed(b"[1]", None, at(5))
    report = audit(numbered([record]), TOPICS)
    assert kinds(report) == [ViolationKind.UNREADABLE]


def test_a_record_without_a_value_is_a_row_of_an_upsert_feed() -> None:
    record = placed(b'{"a": 1}', None, at(5))
    report = audit(numbered([record]), TOPICS, AuditOptions(), JsonDecoder(Envelope.UPSERT))
    assert (report.counts.rows, report.counts.untimed, report.counts.tombstones) == (1, 1, 0)
    assert report.verdict is Verdict.INCOMPLETE


STEPS = st.lists(st.tuples(st.booleans(), st.integers(1, 2), st.integers(0, 20)), max_size=12)


@given(STEPS, st.data())
def test_any_feed_with_replays_passes_and_not_when_a_tombstone_is_lost(
    steps: list[tuple[bool, int, int]], data: st.DataObject
) -> None:
    """Each step is a put or a deletion of a key, after a replay from some record on."""
    written: list[TopicRecord] = []
    once: list[TopicRecord] = []
    for number, (deletes, key, back) in enumerate(steps, start=1):
        written += once[max(0, len(once) - back) :]
        timestamp = at(number // 2 + 1, number % 2)
        new = [deletion(key, timestamp), tombstone(key, timestamp)] if deletes else [put(key, timestamp)]
        written += new
        once += new
    records = [*numbered([*written, *everywhere(at(20), TOPICS)])]
    report = audit(records, TOPICS, AuditOptions(), DEBEZIUM)
    assert report.verdict is Verdict.PASSED or not report.counts.rows, str(report)
    lost = [record for record in once if record.value is None]
    if lost:
        gone = data.draw(st.sampled_from(lost))
        kept = [record for record in records if not _same(record, gone)]
        broken = audit(kept, TOPICS, AuditOptions(), DEBEZIUM)
        shared = sum(_same(record, gone) for record in once) > 1
        assert shared or ViolationKind.MISSING_TOMBSTONE in kinds(broken)


def _same(record: TopicRecord, other: TopicRecord) -> bool:
    return record._replace(offset=-1) == other


def test_headers_of_a_row_are_compared_with_the_history() -> None:
    record = put(1, at(5))
    for headers, verdict in (((("trace", b"7"),), Verdict.PASSED), ((), Verdict.VIOLATED)):
        expected = [ExpectedVersion("foo", record.key or b"", at(5), record.value, headers)]
        with_header = record._replace(headers=[("tidegate-source", b"1/1/0"), ("trace", b"7")])
        records = numbered([with_header, *everywhere(at(9), TOPICS)])
        report = audit(records, TOPICS, AuditOptions(), DEBEZIUM, expected)
        assert report.verdict is verdict
        if verdict is Verdict.VIOLATED:
            assert kinds(report) == [ViolationKind.WRONG_VALUE]


def test_where_keys_do_not_identify_rows_order_and_repeats_are_not_judged() -> None:
    """Two rows with the same key column, in one transaction: one key, one timestamp, two values."""
    decoder = JsonDecoder(Envelope.WRAPPED, row_keys=False)
    values = [b'{"after": {"a": %d}, "updated": "%s"}' % (a, at(5).decimal().encode()) for a in (1, 2)]
    earlier = b'{"after": {"a": 3}, "updated": "%s"}' % at(3).decimal().encode()
    records = [
        *(placed(b'["dog"]', value, at(5)) for value in values),
        placed(b'["dog"]', earlier, at(3)),
    ]
    expected = [ExpectedVersion("foo", b'["dog"]', at(5), value) for value in values]
    report = audit(numbered(records), TOPICS, AuditOptions(row_keys=False), decoder, expected)
    assert not report.violations
    assert report.verdict is Verdict.INCOMPLETE
    reasons = {kind: why for kinds_, why in report.unchecked for kind in kinds_ if "key_column" in why}
    assert {
        ViolationKind.OUT_OF_ORDER,
        ViolationKind.WRONG_VALUE,
        ViolationKind.MISSING_ROW,
    } <= reasons.keys()
    moved = records[0]._replace(partition=1 - records[0].partition)
    misplaced = audit(numbered([moved]), TOPICS, AuditOptions(row_keys=False), decoder)
    assert kinds(misplaced) == [ViolationKind.WRONG_PARTITION]
