"""The streaming query: Spark's Kafka source reads the log topic, and each batch goes to the batch driver."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, NamedTuple

from py4j.protocol import Py4JError
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tidegate.access.output_namespace import OutputNamespace
from tidegate.client.kafka.cluster import Cluster
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.topic_admin import TopicAdmin, open_admin
from tidegate.client.kafka.topics import Topics
from tidegate.errors import QueryEnded
from tidegate.kernel.kernel_mode import kernel_mode
from tidegate.kernel.partition_kernel import kernels_for
from tidegate.processor.catchup.gap_scans import CatchUpLimits
from tidegate.processor.config import ProcessorConfig
from tidegate.spark.changefeed.batch_driver import BatchDriver
from tidegate.spark.changefeed.checkpoint import Checkpoint, QueryIdentity, checkpoint_at
from tidegate.spark.changefeed.ledger import Ledger
from tidegate.spark.changefeed.log_watch import Log, LogWatch
from tidegate.spark.changefeed.observed_figures import observed
from tidegate.spark.changefeed.progress import Metrics, QueryProgress
from tidegate.spark.changefeed.query import HELD_BYTES, Query
from tidegate.spark.changefeed.query_feeds import QueryFeeds
from tidegate.spark.platform.executors import on_this_machine, words_of
from tidegate.spark.platform.kafka_source import log_stream
from tidegate.spark.platform.store_access import StoreAccess

#: A partition of a query has more catch-up scans under way than a partition of a worker, since an answer
#: takes a batch or two.
_CATCH_UP: Final = CatchUpLimits(scans=64)
_LAST_BATCH_S: Final = 60.0
_COMMIT_S: Final = 10.0
#: The parts of Spark that log that a query ended, that a batch took longer than its interval, or that records
#: are lost. tidegate says all of this itself. The names changed with Spark 4.1.
_TOLD_OTHERWISE: Final = (
    "org.apache.spark.sql.execution.streaming.MicroBatchExecution",
    "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution",
    "org.apache.spark.sql.execution.streaming.ProcessingTimeExecutor",
    "org.apache.spark.sql.execution.streaming.runtime.ProcessingTimeExecutor",
    "org.apache.spark.sql.kafka010.consumer.KafkaDataConsumer",
)
#: The parts of Spark that log that they were interrupted, or that there was nothing to interrupt.
_TROUBLED_BY_ENDS: Final = ("org.apache.spark.scheduler.DAGScheduler", "org.apache.hadoop.util.Shell")


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """The settings of a query: what it reads, where it keeps its state, and how fast it goes.

    ``checkpoint`` is a directory that Spark and every executor can reach, a path or URI. It holds Spark's
    checkpoint directory and tidegate's state, which belong together. ``batch_records`` bounds a micro-batch
    (0: all there is). The default is some seconds of work for two cores. So a batch ends within the minute
    for which the end of the query waits. A round has at most ``tasks`` tasks (0: as many as Spark has cores).
    Each Python worker keeps states of about ``held_mib`` MiB in memory between rounds. If that is less than
    the states of its partitions take, the worker reads states from files in every round. If the Python
    workers of a machine together need more memory than the machine has, they are killed. With
    ``available_now`` the query ends at the last record that is there when it begins; otherwise a batch begins
    every ``interval_s`` seconds. ``sink_stall_s`` is how long another cluster may acknowledge nothing before
    its feeds are detached. ``output_topics`` are patterns of the topics that feeds may write to. ``access``
    has the login for the file system of the checkpoint directory.
    """

    connection: KafkaConnection
    app_id: str
    topic_prefix: str
    checkpoint: str
    output_partitions: int = 1
    batch_records: int = 200_000
    tasks: int = 0
    held_mib: int = HELD_BYTES >> 20
    interval_s: float = 1.0
    available_now: bool = False
    sink_stall_s: float = 15.0
    output_topics: str = ""
    access: StoreAccess = field(default_factory=StoreAccess.of_environment)
    config: ProcessorConfig = field(
        default_factory=lambda: ProcessorConfig(
            catch_up=_CATCH_UP, detachable=True, kernel=kernels_for(kernel_mode())
        )
    )


class ReadyQuery(NamedTuple):
    """A query that may run: its topics exist, and its checkpoint directory belongs to it."""

    options: QueryOptions
    topics: Topics
    log: Log
    checkpoint: Checkpoint


def ready_query(options: QueryOptions) -> ReadyQuery:
    """Check everything that can refuse the query before Spark starts, and create the topics that are missing.

    Raises ``SettingsError`` for bad patterns, ``TopologyError`` for topics that do not fit, ``InputError``
    when there is no log, and as ``Checkpoint.require`` does for a checkpoint directory that belongs to
    another query or is not whole.
    """
    topics, connection = Topics.of(options), options.connection
    OutputNamespace.of(options.output_topics)
    checkpoint = checkpoint_at(options.checkpoint, options.access)
    partitions = Cluster(connection).partition_counts([topics.log])[topics.log]
    admin = open_admin(connection, connection.timeout_s)
    log = Log(partitions, admin.ids([topics.log])[topics.log])
    jobs_id = admin.ids([topics.jobs])[topics.jobs] if admin.partitions(topics.jobs) else ""
    identity = QueryIdentity(options.app_id, topics.log, log.id, log.partitions, jobs_id)
    used = checkpoint.require(identity)
    admin.ensure(topics.shared_specs(partitions))
    if not used:
        checkpoint.claim(replace(identity, jobs_id=admin.ids([topics.jobs])[topics.jobs]))
    return ReadyQuery(options, topics, log, checkpoint)


@contextmanager
def changefeed_query(
    session: SparkSession, ready: ReadyQuery, metrics: Metrics | None = None, *, alone: bool = False
) -> Iterator[StreamingQuery]:
    """Yield the running query of an application's feeds, and stop it at the end of the ``with``.

    A batch that runs at that time is waited for, for a minute at most. ``alone`` says that the session is for
    this query only. Spark's log lines about faults that tidegate reports itself are switched off then. In a
    shared session the other queries would lose such lines, too.
    """
    options, topics, log, checkpoint = ready
    if alone:
        _keep_traces_out(session)
    config = replace(options.config, log_id=log.id)
    query = Query(
        uuid.uuid4().hex,
        options.connection,
        topics.log,
        log.partitions,
        checkpoint.root,
        config,
        sink_stall_s=options.sink_stall_s,
        access=options.access,
        tasks=options.tasks,
        held_bytes=options.held_mib << 20,
    )
    namespace = OutputNamespace.of(options.output_topics)
    feeds = QueryFeeds(query, topics, options.output_partitions, namespace)
    admin = open_admin(options.connection, options.connection.timeout_s)
    look = LogWatch(admin, topics.log, log).look
    ends = partial(_ends, admin, topics.log, log)
    progress = QueryProgress(metrics or Metrics(), ends, feeds.high_waters, feeds.paused, feeds.markers)
    name = query_name(options.app_id)
    ledger = Ledger(checkpoint.filesystem, checkpoint.ours)
    batch_ends = partial(checkpoint.log_ends, log=topics.log)
    driver = BatchDriver(query, ledger, feeds, look, progress, name, batch_ends)
    parts = _fixed_tasks(session, options.tasks)
    records = log_stream(session, options.connection, topics.log, options.batch_records, parts)
    with closing(feeds), observed(records, progress.figures) as stream:
        writer = (
            stream.writeStream.queryName(name)
            .foreachBatch(driver)
            .option("checkpointLocation", checkpoint.spark)
        )
        if options.available_now:
            running = writer.trigger(availableNow=True).start()
        else:
            running = writer.trigger(processingTime=f"{options.interval_s} seconds").start()
        try:
            yield running
        except StreamingQueryException as ended:
            raise _why(driver, ended) from None
        finally:
            last = driver.end(_LAST_BATCH_S)
            feeds.give_up()  # Spark waits without limit for a batch that waits for a broker
            checkpoint.wait_for_commit(last, _COMMIT_S)
            if alone:
                _set_levels(session, _TROUBLED_BY_ENDS)
            running.stop()


def _fixed_tasks(session: SparkSession, tasks: int) -> int:
    """Return how many tasks each round has; 0 if that may change, as executors of a cluster come and go."""
    context = session.sparkContext
    return tasks or (context.defaultParallelism if on_this_machine(context.master) else 0)


def query_name(app_id: str) -> str:
    """Return the name of an application's query in Spark's pages and metrics, and for its listeners."""
    return f"tidegate spark {app_id}"


def _ends(admin: TopicAdmin, topic: str, log: Log) -> dict[int, int]:
    ends = admin.ends([(topic, number) for number in range(log.partitions)])
    return {number: end for (_, number), end in ends.items()}


def _why(driver: BatchDriver, ended: StreamingQueryException) -> Exception:
    """Return the exception with which a batch ended the query; else one with Spark's own words.

    Spark itself may raise in a batch, for example when it has lost executors. Any other exception that is not
    tidegate's own is a defect, and keeps its trace.
    """
    failure = driver.failure
    if failure is not None and not isinstance(failure, Py4JError):
        return failure
    words = str(ended).strip().partition("\n")[0] if failure is None else words_of(failure)
    return QueryEnded(
        f"Spark ended the query: {words} Nothing is lost: the next start goes on where the last batch ended."
    )


def _keep_traces_out(session: SparkSession) -> None:
    """Keep Spark and Py4J from logging faults that tidegate reports itself.

    A fault that ends a batch is raised where the query is waited for, and tasks report what the log has lost.
    Spark and Py4J would log both before, with traces of two languages.
    """
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    _set_levels(session, _TOLD_OTHERWISE)


def _set_levels(session: SparkSession, names: Iterable[str]) -> None:
    java = session.sparkContext._jvm.org.apache.logging.log4j  # type: ignore[union-attr]  # noqa: SLF001
    for name in names:
        java.core.config.Configurator.setLevel(name, java.Level.OFF)
