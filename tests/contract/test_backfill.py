"""A backfill by Spark of logs that hold enough, and of logs that do not (docs/protocols/backfill.md)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from pyarrow import RecordBatch
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from sim.workloads.random import RandomOptions, RandomTransactions
from stack.kafka import KafkaBroker
from tests.contract.comparison import rows_by_key
from tests.contract.engine import Task
from tests.contract.kafka_run import KafkaRun
from tests.hand_log import at
from tests.logs import EVENTFUL_MIX, SimulatedLog, eventful_store, simulate
from tests.unit.client.topics import delete_before, wait_until_ended
from tests.unit.processor.logs import PLAIN
from tests.unit.spark.backfill.shortened_log import ShortenedLog
from tidegate.changefeed.definition.feed import Engine, FeedState
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.client.expectations import expected_versions
from tidegate.client.jobs import Jobs, jobs_topic
from tidegate.client.output import OutputTopics
from tidegate.errors import InputError, RetryError, StatementError
from tidegate.hlc import Timestamp
from tidegate.processor.reference import Emitted, OutputPartition
from tidegate.raftlog.encode import encode_entry, encode_key
from tidegate.raftlog.entry import Generation, RaftIndex, RangeId, ScanChunk
from tidegate.rows import Catalog
from tidegate.spark.backfill import newest_rows
from tidegate.spark.backfill.backfill import Backfill, BackfillOptions, define_backfill
from tidegate.spark.backfill.newest_rows import ScanAt
from tidegate.spark.backfill.scanned_keys import scanned_keys
from tidegate.spark.changefeed.feed_markers import FeedMarkers

pytestmark = [pytest.mark.broker, pytest.mark.together]

_SEED = 11
_SHORTENED_SEED = 4


class Past:
    """A simulated store's log on the broker, and backfills of it."""

    def __init__(self, session: SparkSession, bootstrap: str, directory: Path, log: SimulatedLog) -> None:
        print("seed", _SEED)
        self.log = log
        self.session = session
        self.run = KafkaRun(bootstrap, Task(self.log.partitions, (), {}), "", Engine.BACKFILL, timeout_s=60)
        self.run.create_topics()
        self.run.write_log()
        self.options = BackfillOptions(
            self.run.connection, self.run.app_id, self.run.prefix, directory.as_uri(), output_partitions=2
        )
        self.jobs = Jobs(self.run.connection, self.run.app_id)
        self.said: list[str] = []

    def backfill(self, options: str, table: str = "") -> FeedView:
        """Run a backfill of a feed on the first table, or another; returns the feed as it leaves it."""
        feed_id = define_backfill(self.options, self.statement(options, table))
        try:
            with Backfill(self.session, self.options, feed_id, self.said.append) as job:
                job.run()
        finally:
            wait_until_ended(self.run.bootstrap, {TopicPartition(jobs_topic(self.run.app_id), 0)})
            self.feed = self.jobs.feed(feed_id)
        return self.feed

    def statement(self, options: str, table: str = "") -> str:
        sink = f"kafka://{self.run.bootstrap}?topic_prefix={self.run.prefix}"
        return f"CREATE CHANGEFEED FOR TABLE {table or self.log.tables[0].name} INTO '{sink}' WITH {options}"

    def output(self) -> dict[OutputPartition, list[Emitted]]:
        """Return what stands on the feed's topics."""
        found: dict[OutputPartition, list[Emitted]] = {}
        topics = [target.topic for target in self.feed.targets]
        for record in OutputTopics.now(self.run.connection, topics).records():
            emitted = Emitted(record.key, record.value, record.timestamp_ms, ())
            found.setdefault(OutputPartition(record.topic, record.partition), []).append(emitted)
        return found


@pytest.fixture(scope="module")
def past(spark_session: SparkSession, broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Past:
    return Past(spark_session, broker.bootstrap, tmp_path_factory.mktemp("backfill"), _simulated(_SEED))


def test_a_scan_that_is_all_of_a_feed_shows_what_the_store_had_at_its_start(past: Past) -> None:
    _scan_is_the_stores(past)


def test_scans_of_others_are_the_base_where_retention_has_shortened_the_log(
    spark_session: SparkSession, broker: KafkaBroker, tmp_path: Path
) -> None:
    shortened = ShortenedLog(_SHORTENED_SEED)
    whole = SimulatedLog(tuple(map(tuple, shortened.whole)), shortened.history, shortened.tables)
    past = Past(spark_session, broker.bootstrap, tmp_path, whole)
    for partition, records in enumerate(shortened.partitions):
        delete_before(past.run.bootstrap, f"{past.options.topic_prefix}raftlog", partition, records[0].offset)
    _scan_is_the_stores(past)
    assert any("where scans in it begin" in said for said in past.said), past.said


def test_a_scan_counts_by_the_time_of_the_first_record_that_a_partition_has_left(
    spark_session: SparkSession,
) -> None:
    """The record time of a later record may be as wrong as a source's clock."""
    key, value = encode_key(RangeId(1)), encode_entry(_scan_of_all(at(20)))
    times = [(10, 18), (11, 1), (12, 25)]
    rows = [(0, offset, at(second).wall_ms, key, value) for offset, second in times]
    records = spark_session.createDataFrame(
        rows, "partition int, offset long, ms long, key binary, value binary"
    ).withColumn("timestamp", sql.timestamp_millis("ms"))
    assert [each.at for each in scanned_keys(records, 1, [PLAIN.span], [0])] == [at(20)]
    later = records.where("offset > 10").withColumn("timestamp", sql.expr("timestamp + interval 19 seconds"))
    assert scanned_keys(later, 1, [PLAIN.span], [0]) == []


def _scan_of_all(upto: Timestamp) -> ScanChunk:
    where = RangeId(1), Generation(1), RaftIndex(1)
    return ScanChunk(*where, 1, PLAIN.span, None, upto, False, (), True)


def _scan_is_the_stores(past: Past) -> None:
    feed = past.backfill("initial_scan='only'")
    assert feed.status is FeedState.SUCCEEDED
    assert feed.definition is not None
    assert feed.current_state is not None
    start = feed.current_state.start
    assert feed.high_water == start
    catalog = Catalog()
    for table in past.log.tables:
        catalog.add(table)
    topics = {target.table_id: target.topic for target in feed.targets}
    expected = expected_versions(past.log.history, catalog, feed.definition.options, topics, start=start)
    shown = {(key.key, each.value) for key, rows in rows_by_key(past.output()).items() for each in rows}
    assert shown == {(each.key, each.value) for each in expected if each.scanned_at is not None}
    assert shown, "the store is empty"


def test_a_feed_that_begins_at_the_present_has_no_past(past: Past) -> None:
    with pytest.raises(StatementError, match="begins at the present, and has no past to backfill"):
        define_backfill(past.options, past.statement("updated, initial_scan='no'"))


def test_a_table_that_the_log_does_not_know_is_named(past: Past) -> None:
    with pytest.raises(InputError, match=r"no log partition has a descriptor of .*nowhere: check the name"):
        past.backfill("initial_scan='only'", "nowhere")
    assert past.feed.status is FeedState.PENDING


def test_a_feed_that_is_dropped_meanwhile_is_left_alone(past: Past) -> None:
    """Its topics may be another's by then."""
    with _prefixed(past, "dropped-"):
        feed_id = define_backfill(past.options, past.statement("initial_scan='yes'"))
        with Backfill(past.session, past.options, feed_id, past.said.append) as job:
            definition = job._require_ours()
            past.jobs.drop(feed_id)
            with pytest.raises(InputError, match=f"Feed {feed_id} is dropped: the backfill ends"):
                job._begin(definition, Timestamp(1), (), job._log(None))


def test_a_log_with_a_time_that_spark_cannot_hold_is_named(
    spark_session: SparkSession, broker: KafkaBroker, tmp_path: Path
) -> None:
    log = _simulated(_SEED)
    first = log.partitions[0]
    odd = (*first[:-1], first[-1]._replace(timestamp=2**63 - 1))
    odd_log = replace(log, partitions=(odd, *log.partitions[1:]))
    past = Past(spark_session, broker.bootstrap, tmp_path, odd_log)
    with pytest.raises(InputError, match="more than 292,277 years from 1970"):
        past.backfill("initial_scan='only'")


def _die(_: ScanAt, __: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
    """End the Python worker, as the kernel does when memory is short."""
    os._exit(1)


def test_a_python_worker_that_dies_is_a_sentence_and_the_command_may_be_run_again(
    past: Past, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _prefixed(past, "dying-"):
        with monkeypatch.context() as patch:
            patch.setattr(newest_rows, "write_rows", _die)
            with pytest.raises(RetryError, match=r"Python worker exited .*Run the same command again"):
                past.backfill("initial_scan='only'")
        assert past.feed.high_water is None
        past.backfill("initial_scan='only'")
        assert past.feed.status is FeedState.SUCCEEDED


@pytest.mark.parametrize("broken", ["__init__", "publish"])
def test_a_feed_whose_markers_fail_fails_and_does_not_go_on(
    past: Past, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(FeedMarkers, broken, fail)
    with _prefixed(past, f"marks-{broken.strip('_')}-"):
        with pytest.raises(InputError, match="is failed: the backfill ends"):
            past.backfill("initial_scan='only'")
        assert past.feed.status is FeedState.FAILED
        assert past.feed.current_state is not None
        assert "ZeroDivisionError" in past.feed.current_state.error


def test_a_log_that_retention_has_shortened_is_refused(past: Past) -> None:
    """Above a cursor what it holds is of use all the same. Comes last: what is gone is gone."""
    log = past.options.topic_prefix + "raftlog"
    with _prefixed(past, "amid-"):
        feed_id = define_backfill(past.options, past.statement("initial_scan='yes'"))
        with Backfill(past.session, past.options, feed_id, past.said.append) as job:
            surveyed = job._log(None)
            job._require_whole(surveyed)
            for partition, records in enumerate(past.log.partitions):
                delete_before(past.run.bootstrap, log, partition, len(records) // 2)
            with pytest.raises(InputError, match=r"removed records .* while they were read"):
                job._require_whole(surveyed)
    with _prefixed(past, "late-"):
        with pytest.raises(InputError, match=r"does not hold all versions .* Range \d+ lacks versions of"):
            past.backfill("initial_scan='yes', updated")
        assert past.feed.status is FeedState.PENDING
    with _prefixed(past, "cursor-"):
        first = min(version.timestamp for version in past.log.history)
        past.backfill(f"cursor='{first.decimal()}', updated, resolved")
        assert any("they are not complete above the cursor. Range" in said for said in past.said)
        assert past.feed.runs_on(Engine.WORKERS)
        assert past.feed.high_water is None, "nobody says that it is complete"


@contextmanager
def _prefixed(past: Past, more: str) -> Iterator[None]:
    """Feeds have topics of their own meanwhile."""
    before = past.run.prefix
    past.run.prefix = before + more
    try:
        yield
    finally:
        past.run.prefix = before


def _simulated(seed: int) -> SimulatedLog:
    workload = RandomTransactions(RandomOptions(tables=2, ranges=3, keys=30, outcomes=EVENTFUL_MIX), seed)
    store = replace(eventful_store(3), split_every_ms=400, merge_every_ms=500)
    return simulate(workload, store, seed=seed, transactions=120)
