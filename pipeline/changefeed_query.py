"""The streaming query: the log topic by Spark's Kafka source, batch after batch to the driver's rounds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka.admin import AdminClient
from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pipeline.batch_driver import BatchDriver
from pipeline.feeds import QueryFeeds
from pipeline.ledger import Ledger
from pipeline.partition_round import Query
from tidegate.client.cluster import Cluster
from tidegate.client.connection import KafkaConnection
from tidegate.client.topic_admin import TopicAdmin
from tidegate.client.topics import Topics
from tidegate.processor.config import ProcessorConfig

_REPLICATION: Final = -1  # as the broker has it


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """What a query is made of.

    ``checkpoint`` is a directory that Spark and every executor can reach, a path or URI. It holds Spark's own
    checkpoint and tidegate's state, which belong together. ``batch_records`` bounds a micro-batch (0: all
    there is); ``available_now`` ends with the last record that is there at the beginning, else a batch begins
    every ``interval_s``.
    """

    connection: KafkaConnection
    app_id: str
    topic_prefix: str
    checkpoint: str
    output_partitions: int = 1
    batch_records: int = 0
    interval_s: float = 1.0
    available_now: bool = False
    config: ProcessorConfig = field(default_factory=ProcessorConfig)


def create_topics(options: QueryOptions) -> None:
    """Create the application's topics that are missing. Raises ``TopologyError`` for those that do not fit,
    and ``InputError`` where there is no log."""
    topics, connection = Topics.of(options), options.connection
    partitions = Cluster(connection).partition_counts([topics.log])[topics.log]
    client = connection.open(AdminClient)
    TopicAdmin(client, connection.bootstrap_servers, _REPLICATION, patience_s=connection.timeout_s).ensure(
        topics.shared_specs(partitions)
    )


@contextmanager
def changefeed_query(session: SparkSession, options: QueryOptions) -> Iterator[StreamingQuery]:
    """The running query of an application's feeds; it is stopped at the end of the ``with``."""
    topics = Topics.of(options)
    log = topics.log
    partitions = Cluster(options.connection).partition_counts([log])[log]
    create_topics(options)
    root = f"{options.checkpoint.rstrip('/')}/tidegate"
    filesystem, path = fs.FileSystem.from_uri(root)
    query = Query(path, options.connection, log, partitions, root, options.config)
    feeds = QueryFeeds(query, topics, options.output_partitions)
    try:
        writer = (
            _log_stream(session, options, log)
            .writeStream.queryName(f"tidegate {options.app_id}")
            .foreachBatch(BatchDriver(query, Ledger(filesystem, path), feeds))
            .option("checkpointLocation", f"{options.checkpoint.rstrip('/')}/spark")
        )
        if options.available_now:
            running = writer.trigger(availableNow=True).start()
        else:
            running = writer.trigger(processingTime=f"{options.interval_s} seconds").start()
        try:
            yield running
        finally:
            running.stop()
    finally:
        feeds.close()


def _log_stream(session: SparkSession, options: QueryOptions, log: str) -> DataFrame:
    """The log from its first record."""
    reader = (
        session.readStream.format("kafka")
        .option("subscribe", log)
        .option("startingOffsets", "earliest")
        .option("kafka.isolation.level", "read_committed")
    )
    for name, value in _kafka_options(options.connection).items():
        reader = reader.option(f"kafka.{name}", value)
    if options.batch_records:
        reader = reader.option("maxOffsetsPerTrigger", options.batch_records)
    return reader.load()


def _kafka_options(connection: KafkaConnection) -> dict[str, str]:
    """The connection as Kafka's Java client takes it."""
    return {
        "bootstrap.servers": connection.bootstrap_servers,
        "security.protocol": connection.security_protocol,
    }
