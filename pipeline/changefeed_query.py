"""The streaming query: the log topic by Spark's Kafka source, batch after batch to the driver's rounds."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from confluent_kafka.admin import AdminClient
from pyarrow import fs
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pipeline.batch_driver import BatchDriver
from pipeline.feeds import QueryFeeds
from pipeline.kafka_source import log_stream
from pipeline.ledger import Ledger
from pipeline.partition_round import Query
from tidegate.client.cluster import Cluster
from tidegate.client.connection import KafkaConnection
from tidegate.client.topic_admin import TopicAdmin
from tidegate.client.topics import Topics
from tidegate.processor.config import ProcessorConfig

_LAST_BATCH_S: Final = 60.0
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


class Log(NamedTuple):
    """The log topic: how many partitions it has, and its id, which another topic of its name has not."""

    partitions: int
    id: str


def create_topics(options: QueryOptions) -> Log:
    """Create the application's topics that are missing.

    Raises ``TopologyError`` for those that do not fit, and ``InputError`` where there is no log.
    """
    topics, connection = Topics.of(options), options.connection
    partitions = Cluster(connection).partition_counts([topics.log])[topics.log]
    client, patience_s = connection.open(AdminClient), connection.timeout_s
    admin = TopicAdmin(client, connection.bootstrap_servers, _REPLICATION, patience_s=patience_s)
    admin.ensure(topics.shared_specs(partitions))
    return Log(partitions, admin.ids([topics.log])[topics.log])


@contextmanager
def changefeed_query(session: SparkSession, options: QueryOptions) -> Iterator[StreamingQuery]:
    """The running query of an application's feeds; it is stopped at the end of the ``with``, behind the batch
    that runs then if that takes no longer than a minute.

    Raises as ``create_topics`` does.
    """
    topics, log = Topics.of(options), create_topics(options)
    root = f"{options.checkpoint.rstrip('/')}/tidegate"
    filesystem, path = fs.FileSystem.from_uri(root)
    config = replace(options.config, log_id=log.id)
    query = Query(uuid.uuid4().hex, options.connection, topics.log, log.partitions, root, config)
    feeds = QueryFeeds(query, topics, options.output_partitions)
    driver = BatchDriver(query, Ledger(filesystem, path), feeds)
    try:
        writer = (
            log_stream(session, options.connection, topics.log, options.batch_records)
            .writeStream.queryName(f"tidegate {options.app_id}")
            .foreachBatch(driver)
            .option("checkpointLocation", f"{options.checkpoint.rstrip('/')}/spark")
        )
        if options.available_now:
            running = writer.trigger(availableNow=True).start()
        else:
            running = writer.trigger(processingTime=f"{options.interval_s} seconds").start()
        try:
            yield running
        finally:
            driver.end(_LAST_BATCH_S)
            running.stop()
    finally:
        feeds.close()
