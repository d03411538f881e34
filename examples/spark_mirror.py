"""The mirror of `sqlite_mirror.py` on Spark: the same gate, filled by ``foreachBatch``.

    python -m examples.spark_mirror --database mirror.db --key origin,time_hour weather

A micro-batch of Spark has whatever records have arrived, so a table that applies each of them is hardly ever
a state of the store. Here records go from the micro-batch into a gate. What the gate lets through is complete
up to one time, and is stored with its token in one transaction.

1. The token says where reading begins. So each start has a new checkpoint directory: the offsets in Spark's
   own directory say what was read, not what was stored.
2. A micro-batch that Spark gives again adds nothing: the gate passes over offsets that it has read.
3. Deleted records end the query (``failOnDataLoss``).

All rows pass the driver, because one place has to know what is complete. Large tables are for the loader
(docs/warehouse.md), which lets the tasks write and the driver only close buckets.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from itertools import groupby
from typing import Any

from pyspark import __version__ as spark_version
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from examples.sqlite_mirror import OWN, Mirror, arguments
from stack.downloads.spark_connector import spark_connector
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.subscribe.feed_catalog import FeedCatalog
from tidegate.client.subscribe.feed_history import FeedHistory
from tidegate.client.subscribe.state.sql_checkpoints import HeldRow, SqlCheckpoints
from tidegate.client.subscribe.state.sql_dialect import SQLITE
from tidegate.errors import InputError
from tidegate.spark.platform.session import start_session
from tidegate.subscribe import (
    FeedPartition,
    GateStart,
    Relations,
    RowGate,
    Subscription,
    SubscriptionSource,
    plan_subscribe,
    read_token,
    resumed,
    subscribe_statement,
)
from tidegate.subscribe.fingerprint import fingerprint
from tidegate.subscribe.gate.feed_record import RecordColumns

#: The most records of a micro-batch. All of them are in the driver's memory at the same time.
_MOST_RECORDS = 100_000


class GateBatches:
    """The function of ``foreachBatch``: gives records to the gate, and stores what it lets through."""

    def __init__(
        self,
        history: FeedHistory,
        start: GateStart,
        subscription: Subscription,
        database: sqlite3.Connection,
        held: HeldRow,
        mirror: Mirror,
    ) -> None:
        self._topic = history.table.target.topic
        self._gate = RowGate({self._topic: history.table.decoder()}, history.rows, start)
        self._subscription = subscription
        self._database = database
        self._held = held
        self._mirror = mirror

    def __call__(self, frame: DataFrame, _: int) -> None:
        """Take a micro-batch."""
        records = frame.orderBy("partition", "offset").collect()
        for partition, rows in groupby(records, key=lambda row: row.partition):
            offsets, keys, values = zip(*((row.offset, row.key, row.value) for row in rows), strict=True)
            columns = RecordColumns(
                list(offsets), list(map(_bytes, keys)), list(map(_bytes, values)), lambda _: ()
            )
            self._gate.add_records(FeedPartition(self._topic, partition), columns)
        while (opening := self._gate.open()) is not None:
            batch = self._subscription.advance(opening, self._gate.offsets())
            if batch is not None:
                with self._database:  # commits both, or neither
                    self._held.commit(str(batch.token))
                    self._mirror.apply(batch)


def start(
    session: SparkSession,
    database: sqlite3.Connection,
    table: str,
    key: Sequence[str],
    connection: KafkaConnection,
    app_id: str = "tidegate",
    topic_prefix: str = "",
) -> StreamingQuery:
    """Start the query that keeps the mirror up to date.

    Its function runs in a thread of Spark's, so ``database`` has to be open with ``check_same_thread=False``.
    """
    statement = subscribe_statement(table, envelope="upsert", key=key)
    source = FeedCatalog(connection, app_id, topic_prefix).table(statement)
    if source.feed.resolved_topic:
        raise InputError("Markers of this feed have a topic of their own, which this example does not read.")
    plan = plan_subscribe(statement, Relations([source.relation]), time.time_ns())
    history = FeedHistory.now(source)
    of_feed = SubscriptionSource(source.feed.feed_id, source.tells_before)
    held = SqlCheckpoints(database, SQLITE).acquire(f"mirror of {table}")
    if held.token:
        token = read_token(held.token, fingerprint(plan, of_feed.name))
        history.require(token)
        subscription, begin = resumed(plan, token, of_feed)
    else:
        as_of = history.choose_as_of(plan, from_beginning=True)
        offsets = history.starts(as_of, from_beginning=True)
        begin = GateStart(history.begin, offsets, silent_to={source.target.topic: source.silent_to})
        subscription = Subscription(plan, as_of, of_feed, start=begin)
    mirror = Mirror(database, table, subscription.header[OWN:], len(key))
    frames = session.readStream.format("kafka").options(**_options(history, begin)).load()
    return (
        frames.select("partition", "offset", "key", "value")
        .writeStream.foreachBatch(GateBatches(history, begin, subscription, database, held, mirror))
        .option("checkpointLocation", tempfile.mkdtemp(prefix="spark-mirror-"))
        .start()
    )


def _options(history: FeedHistory, begin: GateStart) -> dict[str, str]:
    """Return the options by which Spark reads the topic: committed records, from the offsets of ``begin``."""
    partitions = sorted(place.partition for place in history.rows)
    topic = history.table.target.topic
    offsets = {place.partition: begin.offsets.get(place, 0) for place in history.rows}
    return {
        "kafka.bootstrap.servers": history.table.connection.bootstrap_servers,
        "kafka.isolation.level": "read_committed",
        "assign": json.dumps({topic: partitions}),
        "startingOffsets": json.dumps({topic: offsets}),
        "failOnDataLoss": "true",
        "maxOffsetsPerTrigger": str(_MOST_RECORDS),
    }


def _bytes(value: Any) -> bytes | None:
    """Return the value of a binary column as bytes. Spark gives it as a bytearray."""
    return None if value is None else bytes(value)


def main() -> None:
    """Read the command line and mirror."""
    given = arguments("Keep a table of a feed as a table of SQLite, by Spark.")
    session = start_session("mirror", master="local[2]", jars=spark_connector(spark_version))
    session.sparkContext.setLogLevel("ERROR")
    connection = KafkaConnection(given.bootstrap_servers)
    with closing(sqlite3.connect(given.database, check_same_thread=False)) as database:
        query = start(
            session,
            database,
            given.table,
            given.key.split(","),
            connection,
            given.app_id,
            given.topic_prefix,
        )
        query.awaitTermination()


if __name__ == "__main__":
    main()
