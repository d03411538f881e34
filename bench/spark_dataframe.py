"""Measures ``format("tidegate")`` beside Spark's Kafka source with ``from_json`` on the same topic.

The topic is that of `bench.subscribe`. Both queries take the records that the topic has, give typed columns
to Spark's ``noop`` sink, and end. Spark's Kafka source knows no markers: it drops no copies and finds no cut.
Rounds alternate, and medians count.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, from_json

from bench.orders import orders_table
from bench.spark_query import bench_session, processor_time
from bench.subscribe import PARTITIONS, fill_topic
from bench.topics import BenchTopics
from tidegate.changefeed.definition.feed import FeedId, FeedTarget, TableName
from tidegate.changefeed.definition.options import FeedOptions, InitialScan
from tidegate.client.feed_topics import FeedTopics
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.topic_admin import open_admin
from tidegate.hlc import Timestamp
from tidegate.spark.datasource.source_feed import FrameTable, SourceFeed
from tidegate.spark.datasource.tidegate_source import TidegateSource, register
from tidegate.spark.warehouse.columns import columns_of
from tidegate.spark.warehouse.load_source import KafkaReading

_ROUNDS: Final = 3
_TIMEOUT_S: Final = 600
_START: Final = Timestamp(1)
_ROW: Final = (
    "amount DECIMAL(10,2), created TIMESTAMP, currency STRING, customer BIGINT, id BIGINT, note STRING, "
    "paid BOOLEAN, status STRING"
)


class FrameCost(NamedTuple):
    """One source: its rows/s, its rows/s over those of Spark's Kafka source, and the processor time of all of
    Spark."""

    source: str
    rows: int
    rows_per_s: float
    of_kafka_source: float
    cpu_us_per_row: float


def frame_costs(topics: BenchTopics, directory: Path, rows: int, seed: int) -> list[FrameCost]:
    """Measure both sources on a topic of ``rows`` rows. Raises ``SettingsError``, ``StackError``."""
    topic = f"frame-{uuid.uuid4().hex[:8]}"
    topics.create(topic, PARTITIONS)
    fill_topic(topics.bootstrap, topic, rows, seed, with_before=False)
    runs: dict[str, list[tuple[float, float]]] = {}
    with bench_session() as session:
        register(session)
        session.dataSource.register(_source_of(_feed(topics.bootstrap, topic)))
        sources = {
            "Kafka source with from_json": partial(_kafka_source, session, topics.bootstrap, topic),
            'format("tidegate")': partial(_tidegate, session),
        }
        for number in range(_ROUNDS + 1):
            for name, source in sources.items():
                run = _timed(source, directory / f"{uuid.uuid4().hex}")
                if number:  # the first round starts Python workers and compiles
                    runs.setdefault(name, []).append(run)
    medians = {name: [median(column) for column in zip(*found, strict=True)] for name, found in runs.items()}
    kafka_s = medians["Kafka source with from_json"][0]
    return [
        FrameCost(name, rows, rows / wall, kafka_s / wall, cpu / rows * 1e6)
        for name, (wall, cpu) in medians.items()
    ]


def _timed(source: Callable[[], DataFrame], checkpoint: Path) -> tuple[float, float]:
    begin, cpu = perf_counter(), processor_time()
    writer = source().writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    if not query.awaitTermination(_TIMEOUT_S):
        query.stop()
    used = processor_time().since(cpu)
    return perf_counter() - begin, used.spark + used.python


def _kafka_source(session: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "kafka.isolation.level": "read_committed",
    }
    records = session.readStream.format("kafka").options(**options).load()
    value = from_json(col("value").cast("string"), f"after STRUCT<{_fields()}>, updated STRING")
    rows = records.where(col("key").isNotNull()).select(value.alias("row"))
    return rows.select("row.after.*", col("row.updated").cast("decimal(29,10)").alias("_updated"))


def _fields() -> str:
    return ", ".join(each.replace(" ", ": ", 1) for each in _ROW.split(", "))


def _tidegate(session: SparkSession) -> DataFrame:
    return session.readStream.format("tidegate-bench").load()


def _feed(bootstrap: str, topic: str) -> SourceFeed:
    """Return a source feed of the topic; no application has it."""
    options = FeedOptions(updated=True, resolved_interval_ns=0, initial_scan=InitialScan.YES)
    table = orders_table(_START)
    connection = KafkaConnection(bootstrap)
    target = FeedTarget(TableName.of(table), table.id, topic, PARTITIONS, ())
    topic_id = open_admin(connection, connection.timeout_s).ids([topic])[topic]
    frame = FrameTable(str(target.table), topic, topic_id, PARTITIONS, columns_of([table], options))
    topics = FeedTopics(options, _START, (target,), feed_id="bench")
    return SourceFeed(FeedId("bench"), topics, (frame,), KafkaReading(connection, options))


def _source_of(feed: SourceFeed) -> type[TidegateSource]:
    """Return the data source of one known feed. It travels to Python workers by value."""

    class KnownFeed(TidegateSource):
        """The rows of a feed without an application."""

        _feed = feed

        @classmethod
        def name(cls) -> str:
            return "tidegate-bench"

    return KnownFeed
