"""Tests what a feed owes for a history, by what the reference engine writes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sim.log.history import HistoryVersion
from tests.unit.client.history_log import catalog, feed, log
from tidegate.changefeed.definition.options import Envelope, FeedOptions, InitialScan, OnOversize
from tidegate.changefeed.encoding.decoder import decoder_for
from tidegate.changefeed.lifecycle.control import Activate
from tidegate.client.expectations import expected_versions
from tidegate.errors import UnknownTable
from tidegate.hlc import Timestamp
from tidegate.processor.reference import ReferenceEngine
from tidegate.verify import (
    AuditOptions,
    AuditReport,
    ExpectedVersion,
    TopicRecord,
    Verdict,
    ViolationKind,
    audit,
)


def output(feed: Activate) -> list[TopicRecord]:
    """Return what the reference engine writes for the log."""
    engine = ReferenceEngine(len(log().partitions), [feed])
    for number, records in enumerate(log().partitions):
        engine.step(number, records)
    return [
        TopicRecord(*place, offset, record.key, record.value, record.timestamp_ms or 0, record.headers)
        for place, records in engine.output.items()
        for offset, record in enumerate(records)
    ]


def owed(feed: Activate) -> list[ExpectedVersion]:
    topics = {target.table_id: target.topic for target in feed.targets}
    return list(expected_versions(log().history, catalog(), feed.definition.options, topics))


def audited(feed: Activate, expected: list[ExpectedVersion]) -> AuditReport:
    counts = {target.topic: target.partitions for target in feed.targets}
    options = feed.definition.options
    return audit(output(feed), counts, AuditOptions(start=feed.start), decoder_for(options), expected)


def test_the_engine_writes_what_the_history_asks_for() -> None:
    wanted = feed(FeedOptions(updated=True, mvcc_timestamp=True, resolved_interval_ns=0, topic_prefix="p."))
    report = audited(wanted, owed(wanted))
    assert report.verdict is Verdict.PASSED, str(report)
    assert report.counts.expected == report.counts.rows > 0


def test_rows_that_were_left_out_are_held_to_the_history_and_counted() -> None:
    options = FeedOptions(updated=True, resolved_interval_ns=0)
    limit = sorted(len(each.key) + len(each.value or b"") for each in owed(feed(options)))[50]
    wanted = feed(replace(options, on_oversize=OnOversize.KEY_ONLY, max_row_bytes=limit))
    report = audited(wanted, owed(wanted))
    assert report.verdict is Verdict.PASSED, str(report)
    assert 0 < report.counts.left_out < report.counts.rows
    assert f"{report.counts.left_out} rows were too large: their keys are there" in str(report)
    others = feed(replace(options, on_oversize=OnOversize.KEY_ONLY, max_row_bytes=limit - 1))
    assert "WRONG_VALUE" in {kind.name for kind in audited(wanted, owed(others)).violation_counts}


TOLD = [
    FeedOptions(updated=True, diff=True),
    FeedOptions(updated=True, key_in_value=True, topic_in_value=True, full_table_name=True),
    FeedOptions(envelope=Envelope.BARE, updated=True),
    FeedOptions(envelope=Envelope.ENRICHED, updated=True, diff=True),
    FeedOptions(envelope=Envelope.DEBEZIUM),
]


@pytest.mark.parametrize("options", TOLD, ids=lambda options: options.envelope.value)
def test_every_envelope_that_tells_timestamps_is_checked_in_full(options: FeedOptions) -> None:
    wanted = feed(replace(options, resolved_interval_ns=0))
    report = audited(wanted, owed(wanted))
    assert report.verdict is Verdict.PASSED, str(report)
    assert report.counts.expected == report.counts.rows > 0
    assert (report.counts.tombstones > 0) is (options.envelope is Envelope.DEBEZIUM)


def test_a_row_that_shows_another_one_before_it_is_wrong() -> None:
    wanted = feed(FeedOptions(updated=True, diff=True, resolved_interval_ns=0))
    versions = list(log().history)
    without_first = versions[len(versions) // 3 :]
    topics = {target.table_id: target.topic for target in wanted.targets}
    forgetful = list(expected_versions(without_first, catalog(), wanted.definition.options, topics))
    assert "WRONG_VALUE" in {kind.name for kind in audited(wanted, forgetful).violation_counts}


UNTOLD = [
    FeedOptions(envelope=Envelope.UPSERT),
    FeedOptions(envelope=Envelope.KEY_ONLY),
    FeedOptions(envelope=Envelope.ENRICHED),
    FeedOptions(envelope=Envelope.ROW, updated=True),
]


@pytest.mark.parametrize("options", UNTOLD, ids=lambda options: options.envelope.value)
def test_rows_without_timestamps_are_held_to_the_history_by_their_record_times(options: FeedOptions) -> None:
    wanted = feed(replace(options, resolved_interval_ns=0))
    versions = owed(wanted)
    report = audited(wanted, versions)
    assert (report.verdict, report.violations) == (Verdict.INCOMPLETE, ()), str(report)
    assert report.counts.untimed > 0
    unchecked = {kind for kinds, _ in report.unchecked for kind in kinds}
    assert ViolationKind.OUT_OF_ORDER in unchecked
    assert not unchecked & {ViolationKind.MISSING_ROW, ViolationKind.WRONG_VALUE}
    more = versions[-1]._replace(timestamp=Timestamp(versions[-1].timestamp.wall - 10**7))
    assert {kind.name for kind in audited(wanted, [*versions, more]).violation_counts} == {"MISSING_ROW"}
    fewer = {kind.name for kind in audited(wanted, versions[:-1]).violation_counts}
    assert fewer <= {"INVENTED_ROW", "WRONG_VALUE"}
    assert fewer


def test_a_feed_with_other_options_owes_other_bytes() -> None:
    wanted = feed(FeedOptions(updated=True, resolved_interval_ns=0))
    report = audited(wanted, owed(feed(FeedOptions(updated=True, mvcc_timestamp=True))))
    assert {kind.name for kind in report.violation_counts} == {"WRONG_VALUE"}


def test_a_feed_without_updated_can_only_be_checked_in_part() -> None:
    wanted = feed(FeedOptions(envelope=Envelope.KEY_ONLY, resolved_interval_ns=0))
    assert audited(wanted, owed(wanted)).verdict is Verdict.INCOMPLETE


@pytest.mark.parametrize("scan", InitialScan)
def test_a_scan_shows_the_rows_that_are_alive_at_the_start(scan: InitialScan) -> None:
    wanted = feed(FeedOptions(updated=True, initial_scan=scan))
    topics = {target.table_id: target.topic for target in wanted.targets}
    options, start = wanted.definition.options, wanted.start
    versions = list(expected_versions(log().history, catalog(), options, topics, start=start))
    scanned = [version for version in versions if version.scanned_at is not None]
    alive = [version.timestamp for version in log().history.as_of(start).values()]
    assert sorted(version.timestamp for version in scanned) == sorted([] if scan is InitialScan.NO else alive)
    assert {version.scanned_at for version in scanned} <= {start}
    above = sorted(version.timestamp for version in log().history if version.timestamp > start)
    others = sorted(version.timestamp for version in versions if version.scanned_at is None)
    assert others == ([] if scan is InitialScan.ONLY else above)


def test_versions_of_tables_that_the_feed_has_not_are_left_out() -> None:
    assert list(expected_versions(log().history, catalog(), FeedOptions(), {999: "others"})) == []


def test_a_version_before_its_table_is_refused() -> None:
    early = HistoryVersion(log().tables[0].id, b"k", Timestamp(1), b"")
    with pytest.raises(UnknownTable):
        list(expected_versions([early], catalog(), FeedOptions(), {early.table_id: "accounts"}))
