"""The warehouse loader on a real broker, by Spark: feeds of two stores, loaded part by part and crashed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Final

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from examples.closed_join import closed_join
from sim.workloads.bank import Bank, BankOptions
from sim.workloads.shop import Shop, ShopOptions
from stack.kafka import KafkaBroker
from tests.contract.engine import run_reference
from tests.contract.loaded_tables import TrueTable, every_closed_bucket, loaded_rows
from tests.feeds import activation
from tests.logs import BASE_NS, EVENTFUL_MIX, eventful_store, simulate
from tidegate.changefeed.definition.feed import FeedId, FeedState
from tidegate.changefeed.definition.options import Envelope, FeedOptions, Format, InitialScan
from tidegate.changefeed.encoding.decoder import decoder_for
from tidegate.changefeed.encoding.record import RecordDecoder
from tidegate.changefeed.lifecycle.job_records import DefinitionRecord
from tidegate.changefeed.lifecycle.registration import Prepare, starting_state
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.errors import RetryError
from tidegate.hlc import Timestamp
from tidegate.processor.reference import Emitted
from tidegate.spark.warehouse.buckets import Buckets
from tidegate.spark.warehouse.columns import Columns, LoadedColumn
from tidegate.spark.warehouse.delta_tables import DeltaFollowers, closed_by_version
from tidegate.spark.warehouse.load import LoadOptions, load_to_now
from tidegate.spark.warehouse.load_pass import Loader
from tidegate.spark.warehouse.load_source import FeedsSource, KafkaReading
from tidegate.spark.warehouse.manifest import LoadedTable, LoadPosition
from tidegate.spark.warehouse.partition_task import LoadTask
from tidegate.spark.warehouse.snapshots import Warehouse
from tidegate.spark.warehouse.spark_tasks import spark_tasks
from tidegate.verify import TopicPartition, TopicRecord

pytestmark = [pytest.mark.broker, pytest.mark.together]

_PARTITIONS: Final = 3
_PARTS: Final = 2
_BUCKETS: Final = Buckets(3_000_000_000)
_START: Final = Timestamp(BASE_NS - _BUCKETS.length_ns)


class Crash(Exception):
    """The driver is gone."""


class StoredFeeds:
    """A feed on the items of a shop and one on the accounts of a bank, and what they wrote, on a broker.

    The rows are the reference engine's; stretches of them stand there twice, as after a crash.
    """

    def __init__(self, broker: KafkaBroker, prefix: str, seed: int) -> None:
        self.connection = KafkaConnection(broker.bootstrap)
        self.prefix = prefix
        self.app_id = f"{prefix}app"
        self._rng = Random(seed)
        self._producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
        shop = Shop(ShopOptions(items=40, alter_at=60, outcomes=EVENTFUL_MIX), seed)
        bank = Bank(BankOptions(accounts=20, ranges=2, outcomes=EVENTFUL_MIX), seed)
        self.logs = [
            simulate(workload, eventful_store(_PARTITIONS), seed=seed, transactions=transactions)
            for workload, transactions in ((shop, 90), (bank, 150))
        ]
        bare = FeedOptions(updated=True, resolved_interval_ns=0, topic_prefix=prefix)
        enriched = FeedOptions(
            envelope=Envelope.ENRICHED,
            updated=True,
            mvcc_timestamp=True,
            resolved_interval_ns=0,
            topic_prefix=prefix,
        )
        self.feeds = [
            activation(
                {table.id: table for table in log.tables}.values(),
                options,
                start=_START,
                feed_id=str(number),
                output_partitions=2,
                sink_uri=f"kafka://{broker.bootstrap}",
            )
            for number, (log, options) in enumerate(zip(self.logs, (enriched, bare), strict=True))
        ]
        self.ends: list[Timestamp] = []
        self._written: dict[tuple[str, int], list[Emitted]] = {}
        for log, feed in zip(self.logs, self.feeds, strict=True):
            engine = run_reference(log.partitions, [feed], 23)
            self.ends.append(engine.high_water(feed.feed_id))
            self._written |= {
                (place.topic, place.partition): records for place, records in engine.output.items()
            }

    @property
    def tables(self) -> list[TrueTable]:
        """The tables as the stores know them."""
        return [
            TrueTable(feed.targets[0].topic, log.tables, log.history)
            for log, feed in zip(self.logs, self.feeds, strict=True)
        ]

    def options(self, directory: Path) -> LoadOptions:
        """Return the options with which they are loaded."""
        ids = tuple(feed.feed_id for feed in self.feeds)
        return LoadOptions(
            self.connection,
            self.app_id,
            self.prefix,
            ids,
            directory.as_uri(),
            bucket_ns=_BUCKETS.length_ns,
            delta=True,
            records=300,
        )

    def create(self) -> None:
        """The topics, the feeds' definitions and states, and the tables' descriptors in the log."""
        topics = [
            NewTopic(f"{self.prefix}raftlog", 1),
            NewTopic(f"{self.app_id}-jobs", 1, config={"cleanup.policy": "compact"}),
            *(NewTopic(feed.targets[0].topic, 2, config={"retention.ms": "-1"}) for feed in self.feeds),
        ]
        admin = AdminClient({"bootstrap.servers": self.connection.bootstrap_servers})
        for future in admin.create_topics(topics).values():
            future.result(30)
        for feed in self.feeds:
            # The stores were empty at the feeds' start, so a scan would have found no rows.
            options = replace(feed.definition.options, initial_scan=InitialScan.YES)
            definition = replace(feed.definition, options=options)
            starting = starting_state(definition, Prepare(feed.start, (), {}), feed.targets)
            running = replace(starting, state=FeedState.RUNNING)
            for record in (DefinitionRecord(definition), running):
                self._producer.produce(f"{self.app_id}-jobs", record.to_bytes(), record.key, 0)
        for log in self.logs:
            for entry in log.partitions[0]:
                self._producer.produce(f"{self.prefix}raftlog", entry.value, entry.key, 0)
        assert self._producer.flush(60) == 0

    def write(self, part: int) -> None:
        """One of ``_PARTS`` parts of what the feeds wrote, and a stretch of the rows before once more."""
        for (topic, partition), records in self._written.items():
            first, end = (len(records) * number // _PARTS for number in (part, part + 1))
            again = self._rng.randrange(first + 1)
            repeats = [record for record in records[again : again + 20][: first - again] if record.key]
            for record in [*repeats, *records[first:end]]:
                self._producer.produce(topic, record.value, record.key, partition)
        assert self._producer.flush(60) == 0


def _crashed(session: SparkSession, feeds: StoredFeeds, options: LoadOptions, at: str) -> None:
    """Load by a driver that dies before its first step of this name."""

    def step(name: str) -> None:
        if name == at:
            raise Crash

    source = FeedsSource(
        options.connection, options.app_id, f"{feeds.prefix}raftlog", [FeedId("0"), FeedId("1")]
    )
    delta = DeltaFollowers(options.root, at_step=step)
    loader = Loader(source, spark_tasks(session), options.root, _BUCKETS, delta, at_step=step)
    with pytest.raises(Crash):
        loader.run_pass()


@pytest.mark.slow
def test_loaded_tables_are_those_of_the_stores_at_every_closed_bucket(
    broker: KafkaBroker, topic_prefix: str, tmp_path: Path, spark_session: SparkSession
) -> None:
    seed = 11
    print("seed", seed)
    feeds = StoredFeeds(broker, topic_prefix, seed)
    feeds.create()
    options = feeds.options(tmp_path)
    root, before = options.root, Timestamp(0)
    for part, crash in enumerate(("W7 current", "W6")):
        feeds.write(part)
        _crashed(spark_session, feeds, options, crash)
        last = load_to_now(spark_session, options)
        assert Warehouse(root).closed == Timestamp(last.closed) > before
        before = Warehouse(root).closed
    assert before == Timestamp(_BUCKETS.closed_by(min(feeds.ends)))
    for table in feeds.tables:
        for at in every_closed_bucket(root, _BUCKETS):
            assert loaded_rows(Warehouse(root).rows(table.topic, at)) == table.rows(at)
        _check_delta(root, table)
        changes = Warehouse(root).changes(table.topic)
        assert len(changes) == _versions(table, before), "a version is there twice, or is missing"
    _check_join(spark_session, root, feeds.tables)


def _versions(table: TrueTable, upto: Timestamp) -> int:
    return sum(_START < version.timestamp <= upto for version in table.history)


def _check_delta(root: str, table: TrueTable) -> None:
    current = DeltaTable(f"{root}/{table.topic}/current")
    for version, closed in closed_by_version(current):
        current.load_as_version(version)
        assert loaded_rows(current.to_pyarrow_table()) == table.rows(Timestamp(closed))


def _check_join(session: SparkSession, root: str, tables: Sequence[TrueTable]) -> None:
    """The example's join, at some closed bucket in the middle."""
    items, accounts = tables
    times = list(every_closed_bucket(root, _BUCKETS))
    at = times[len(times) // 2]
    joined = closed_join(session, root, items.topic, accounts.topic, ["id"], at).collect()
    expected = {row["id"] for row in items.rows(at)} & {row["id"] for row in accounts.rows(at)}
    assert {row["id"] for row in joined} == expected
    assert len(joined) == len(expected) > 0


@dataclass(frozen=True, slots=True)
class DyingReading:
    """Ends the Python worker that reads, as the kernel does when memory is short."""

    def decoder(self) -> RecordDecoder:
        """See ``TopicReading``."""
        return decoder_for(FeedOptions(updated=True))

    def records(self, place: TopicPartition, start: int, end: int) -> Iterator[TopicRecord]:
        """See ``TopicReading``."""
        os._exit(1)


def test_a_python_worker_that_dies_is_a_sentence_and_the_pass_may_be_run_again(
    spark_session: SparkSession, tmp_path: Path
) -> None:
    columns = Columns(("id",), (LoadedColumn("id", "INT8"),))
    table = LoadedTable("pets", "id of pets", 1, "1", Format.JSON, columns)
    closed, place = _BUCKETS.of(_START), TopicPartition("pets", 0)
    task = LoadTask(DyingReading(), tmp_path.as_uri(), table, place, _BUCKETS, closed, LoadPosition(), end=1)
    with pytest.raises(RetryError, match=r"tries: Job aborted .*Python worker exited .*as they are\."):
        spark_tasks(spark_session)([task])


def test_a_task_whose_broker_is_away_is_a_sentence(spark_session: SparkSession, tmp_path: Path) -> None:
    reading = KafkaReading(KafkaConnection("127.0.0.1:1", timeout_s=1), FeedOptions(updated=True))
    columns = Columns(("id",), (LoadedColumn("id", "INT8"),))
    table = LoadedTable("pets", "id of pets", 1, "1", Format.JSON, columns)
    closed, place = _BUCKETS.of(_START), TopicPartition("pets", 0)
    task = LoadTask(reading, tmp_path.as_uri(), table, place, _BUCKETS, closed, LoadPosition(), end=1)
    with pytest.raises(RetryError, match=r"tries: Kafka at 127\.0\.0\.1:1 gave no answer .*as they are\."):
        spark_tasks(spark_session)([task])
