"""Timed runs of Spark: of the changefeed query, put together as in
``tidegate.spark.changefeed.changefeed_query``, and of Spark's own copy from topic to topic.

The log is filled beforehand. Both queries take the records that are there, and end (the trigger
``availableNow``). Processor time is that of this process and all that it has started.
"""

from __future__ import annotations

import os
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from json import loads
from operator import sub
from pathlib import Path
from time import perf_counter
from typing import Any, Final, NamedTuple, TypeVar

import psutil  # type: ignore[import-untyped]  # no stubs
import pyspark
from confluent_kafka import Producer
from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from bench.topics import BenchTopics
from bench.workload import OUTPUT_PARTITIONS, bench_feed
from stack.downloads.spark_connector import spark_connector
from stack.places import CHECKOUT
from tidegate.changefeed.definition.feed import Engine, FeedId
from tidegate.changefeed.lifecycle.control import Activate, ControlMessage
from tidegate.changefeed.lifecycle.job_records import DefinitionRecord
from tidegate.changefeed.lifecycle.registration import Prepare, starting_state
from tidegate.client.jobs import Jobs
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.topics import Topics
from tidegate.errors import RetryError
from tidegate.hlc import ZERO
from tidegate.rows import TableDescriptor
from tidegate.spark.changefeed.batch_driver import BatchDriver
from tidegate.spark.changefeed.changefeed_query import QueryOptions, changefeed_query, ready_query
from tidegate.spark.changefeed.ledger import Account, Ledger
from tidegate.spark.changefeed.progress import Metrics
from tidegate.spark.changefeed.query import Query
from tidegate.spark.changefeed.query_feeds import QueryFeeds
from tidegate.spark.changefeed.rounds import Round, RoundId
from tidegate.spark.changefeed.task.answers import Answer
from tidegate.spark.platform.kafka_source import consumers_for, java_config, log_stream
from tidegate.spark.platform.session import start_session

_THREADS: Final = 2
_MOST_PARTITIONS: Final = 256
_CONFIG: Final = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
    **consumers_for(_MOST_PARTITIONS),
}
#: Settings that make the copy fast: with the sink's defaults it takes a third more time.
_SINK: Final = {"kafka.linger.ms": "20", "kafka.batch.size": "262144"}
_TIMEOUT_S: Final = 600
_MIB: Final = 1 << 20
_RESULT = TypeVar("_RESULT")


@contextmanager
def bench_session(master: str = f"local[{_THREADS}]") -> Iterator[SparkSession]:
    """Spark on two threads or on ``master``, stopped at the end. Raises ``SettingsError``, ``StackError``."""
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(CHECKOUT), os.environ.get("PYTHONPATH"))))
    jars = spark_connector(pyspark.__version__)
    session = start_session("tidegate bench", master=master, jars=jars, config=_CONFIG)
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


class ProcessorTime(NamedTuple):
    """Processor time in seconds: of Spark's Java process, its Python workers, the broker, and the driver,
    which is this process with all the rest."""

    spark: float = 0.0
    python: float = 0.0
    broker: float = 0.0
    driver: float = 0.0

    def since(self, begin: ProcessorTime) -> ProcessorTime:
        """Return the processor time that came after ``begin``."""
        return ProcessorTime(*map(sub, self, begin))


#: The owner of a process, by a text in the process's command line.
_OWNERS: Final = {"org.apache.spark": "spark", "pyspark.daemon": "python", "kafka.Kafka": "broker"}


def processor_time() -> ProcessorTime:
    """Return the processor time so far of this process and all that it has started; only the difference of
    two such times has a meaning."""
    this = psutil.Process()
    found: dict[str, float] = defaultdict(float)
    for process in (this, *this.children(recursive=True)):
        try:
            times, owner = process.cpu_times(), owner_of(process)
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
        found[owner] += times.user + times.system + times.children_user + times.children_system
    return ProcessorTime(**found)


def owner_of(process: psutil.Process) -> str:
    """Return the owner of a process: ``spark`` (Java), ``python`` (its Python workers), ``broker`` or
    ``driver``."""
    command = " ".join(process.cmdline())
    return next((owner for mark, owner in _OWNERS.items() if mark in command), "driver")


def memory_mib() -> dict[str, float]:
    """Return the memory in MiB of this process (``driver``), Spark's Java process (``spark``), and all of its
    Python workers together (``python``)."""
    found = {"driver": 0.0, "spark": 0.0, "python": 0.0}
    this = psutil.Process()
    for process in (this, *this.children(recursive=True)):
        try:
            owner, taken = owner_of(process), process.memory_info().rss / _MIB
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
        if process == this or owner in ("spark", "python"):
            found[owner] += taken
    return found


@dataclass(slots=True)
class BatchTimes:
    """The time that one micro-batch took, in seconds.

    ``spark`` has Spark's own parts by Spark's names, and ``driver`` those of the driver (``ledger``,
    ``feeds``, ``markers``). ``tasks`` has the stages of all tasks together
    (``tidegate.spark.platform.task_clock``), and ``cpu`` their processor time. ``slowest`` is the time of the
    longest task of each round, summed over the rounds.
    """

    spark: dict[str, float] = field(default_factory=dict)
    driver: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    tasks: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    cpu: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    slowest: float = 0.0
    rounds: int = 0
    rows: int = 0
    checkpoint_bytes: int = 0
    state_bytes: int = 0

    @property
    def whole(self) -> float:
        """The time from a trigger to the next one."""
        return self.spark["triggerExecution"]

    @property
    def rounds_s(self) -> float:
        """The time that the driver waits for the Spark jobs of the rounds."""
        return self.spark["addBatch"] - sum(self.driver.values())


@dataclass(frozen=True, slots=True)
class Run:
    """One query from its start to its end; ``batches`` are those of the changefeed that had records."""

    seconds: float
    cpu: ProcessorTime
    batches: Sequence[BatchTimes] = ()

    @property
    def rows(self) -> int:
        """The number of rows that the changefeed wrote."""
        return sum(batch.rows for batch in self.batches)


class _Watch:
    """The clocks of the batch that runs at the moment."""

    def __init__(self) -> None:
        self.batches: dict[int, BatchTimes] = defaultdict(BatchTimes)
        self.batch = BatchTimes()

    def time(self, part: str, work: Callable[[], _RESULT]) -> _RESULT:
        begin = perf_counter()
        try:
            return work()
        finally:
            self.batch.driver[part] += perf_counter() - begin

    def count_answers(self, answers: Iterable[Answer]) -> None:
        tasks = []
        for answer in answers:
            if answer.kind == "figures":
                figures = loads(answer.body)
                self.batch.rows += figures["rows"]
                tasks.append(figures["seconds"])
                for stage, spent in figures["cpu_s"].items():
                    self.batch.cpu[stage] += spent
            elif answer.kind == "checkpoint":
                self.batch.checkpoint_bytes += len(answer.body)
        for seconds in tasks:
            for stage, spent in seconds.items():
                self.batch.tasks[stage] += spent
        self.batch.slowest += max((sum(seconds.values()) for seconds in tasks), default=0.0)
        self.batch.rounds += 1


class _WatchedFeeds:
    """The query's feeds, timed; see ``tidegate.spark.changefeed.batch_driver.Feeds``."""

    def __init__(self, feeds: QueryFeeds, watch: _Watch) -> None:
        self._feeds = feeds
        self._watch = watch

    def announcements(self) -> Sequence[tuple[ControlMessage, Sequence[int]]]:
        return self._watch.time("feeds", self._feeds.announcements)

    def reached(self, ends: Callable[[], Mapping[int, int]]) -> bool:
        return self._feeds.reached(ends)

    def paused(self) -> frozenset[FeedId]:
        return self._feeds.paused()

    def clusters(self) -> Mapping[str, str]:
        return self._feeds.clusters()

    def note_answers(self, answers: Iterable[Answer]) -> None:
        known = list(answers)
        self._watch.count_answers(known)
        self._watch.time("feeds", lambda: self._feeds.note_answers(known))

    def publish(self) -> None:
        self._watch.time("markers", self._feeds.publish)


class _WatchedLedger(Ledger):
    """A ledger whose calls are timed."""

    def __init__(self, filesystem: fs.FileSystem, root: str, watch: _Watch) -> None:
        super().__init__(filesystem, root)
        self._watch = watch

    def account(self, batch: int) -> Account:
        return self._watch.time("ledger", lambda: super(_WatchedLedger, self).account(batch))

    def close_batch(self, batch: int, account: Account) -> None:
        self._watch.time("ledger", lambda: super(_WatchedLedger, self).close_batch(batch, account))

    def told(self, round_id: RoundId) -> Round | None:
        return self._watch.time("ledger", lambda: super(_WatchedLedger, self).told(round_id))

    def tell(self, round_: Round) -> None:
        self._watch.time("ledger", lambda: super(_WatchedLedger, self).tell(round_))


class SparkFeed:
    """A feed on all of ``tables`` over the log of ``topic_prefix``, with its own application, its own output
    topics, and its own checkpoint below ``directory``; or ``feeds`` such feeds, each with topics of its own.

    They are given to Spark as feeds that are about to be activated: they begin with the first record of the
    log.
    """

    def __init__(
        self,
        topics: BenchTopics,
        topic_prefix: str,
        tables: Sequence[TableDescriptor],
        directory: Path,
        feeds: int = 1,
    ) -> None:
        self._prefix = f"bench-{uuid.uuid4().hex[:8]}-"
        self._checkpoint = directory / self._prefix
        self._options = QueryOptions(
            KafkaConnection(topics.bootstrap, timeout_s=60.0),
            f"{self._prefix}app",
            topic_prefix,
            self._checkpoint.absolute().as_uri(),
            available_now=True,
        )
        begun = [self._begun_feed(topics, tables, number) for number in range(feeds)]
        self.outputs = [target.topic for feed in begun for target in feed.targets]
        for output in self.outputs:
            topics.create(output, OUTPUT_PARTITIONS)
        self._ready = ready_query(self._options)
        self._write_jobs(begun, self._ready.log.partitions)

    def run(self, session: SparkSession, batch_records: int = 0) -> Run:
        """Run the query over what the log has now, in micro-batches of ``batch_records`` records (0: no
        limit). Raises the error that the query raises.
        """
        options, topics, log, checkpoint = self._ready
        config = replace(options.config, log_id=log.id)
        query = Query(
            uuid.uuid4().hex, options.connection, topics.log, log.partitions, checkpoint.root, config
        )
        watch = _Watch()
        feeds = QueryFeeds(query, topics, OUTPUT_PARTITIONS)
        try:
            ledger = _WatchedLedger(checkpoint.filesystem, checkpoint.ours, watch)
            driver = BatchDriver(query, ledger, _WatchedFeeds(feeds, watch))

            def run_batch(records: DataFrame, batch: int) -> None:
                watch.batch = watch.batches[batch]
                driver(records, batch)

            stream = log_stream(session, options.connection, topics.log, batch_records)
            writer = stream.writeStream.foreachBatch(run_batch)
            done = _timed(writer.option("checkpointLocation", checkpoint.spark))
        finally:
            feeds.close()
        return Run(done.seconds, done.cpu, self._batches(watch, done.progress))

    @contextmanager
    def tailing(self, session: SparkSession, tasks: int, metrics: Metrics) -> Iterator[StreamingQuery]:
        """Yield the query as users run it, whose batches follow each other at once.

        A round has at most ``tasks`` tasks, 0 for the default.
        """
        options = replace(self._options, available_now=False, interval_s=0.0, tasks=tasks)
        with changefeed_query(session, self._ready._replace(options=options), metrics) as query:
            yield query

    @property
    def state_files(self) -> int:
        """The largest number of files of state that a log partition has."""
        directories = self._checkpoint.glob("tidegate/state/*")
        return max((sum(1 for _ in directory.iterdir()) for directory in directories), default=0)

    def _batches(self, watch: _Watch, progress: Sequence[Any]) -> list[BatchTimes]:
        for each in progress:
            batch = watch.batches.get(each["batchId"])
            if batch is not None:
                batch.spark = {part: ms / 1e3 for part, ms in each["durationMs"].items()}
        sizes: Counter[int] = Counter()
        for path in self._checkpoint.glob("tidegate/state/*/*.arrow"):
            sizes[int(path.name.split("-")[0])] += path.stat().st_size
        for number, batch in watch.batches.items():
            batch.state_bytes = sizes[number]
        return [batch for _, batch in sorted(watch.batches.items()) if batch.spark]

    def _begun_feed(self, topics: BenchTopics, tables: Sequence[TableDescriptor], number: int) -> Activate:
        prefix = f"{self._prefix}{number}-"
        feed = bench_feed(tables, topic_prefix=prefix, bootstrap=topics.bootstrap)
        definition = replace(feed.definition, id=FeedId(f"bench-{number}"), engine=Engine.SPARK)
        return replace(feed, definition=definition)

    def _write_jobs(self, feeds: Sequence[Activate], partitions: int) -> None:
        """Write the records of feeds as they are after their starts are stored and before any partition has
        answered."""
        prepared = Prepare(ZERO, (), dict.fromkeys(range(partitions), 0))
        producer = self._options.connection.open(Producer)
        for feed in feeds:
            state = starting_state(feed.definition, prepared, feed.targets)
            for record in (DefinitionRecord(feed.definition), state):
                producer.produce(Topics.of(self._options).jobs, record.to_bytes(), record.key, 0)
        if producer.flush(_TIMEOUT_S):
            raise RetryError("the broker did not take the feeds' definitions")

    def jobs(self) -> Jobs:
        """Return a client of the feeds."""
        return Jobs(self._options.connection, self._options.app_id)


def copy_topic(
    session: SparkSession, bootstrap: str, source: str, target: str, directory: Path, batch_records: int = 0
) -> Run:
    """Copy a topic as it is now by Spark alone, headers included, to one with as many partitions."""
    connection = {f"kafka.{name}": value for name, value in java_config(KafkaConnection(bootstrap)).items()}
    reader = (
        session.readStream.format("kafka")
        .options(**connection)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
    )
    if batch_records:
        reader = reader.option("maxOffsetsPerTrigger", batch_records)
    writer = (
        reader.load()
        .select("key", "value", "partition", "headers")
        .writeStream.format("kafka")
        .options(**connection, **_SINK)
        .option("topic", target)
        .option("checkpointLocation", (directory / f"copy-{uuid.uuid4().hex}").absolute().as_uri())
    )
    done = _timed(writer)
    return Run(done.seconds, done.cpu)


@dataclass(frozen=True, slots=True)
class _Done:
    seconds: float
    cpu: ProcessorTime
    progress: Sequence[Any]


def _timed(writer: Any) -> _Done:
    """Start the query of a writer and wait for its end."""
    cpu, begin = processor_time(), perf_counter()
    query: StreamingQuery = writer.trigger(availableNow=True).start()
    try:
        if not query.awaitTermination(_TIMEOUT_S):
            raise RetryError(f"Spark was not done within {_TIMEOUT_S} s: {query.status}")
        return _Done(perf_counter() - begin, processor_time().since(cpu), query.recentProgress)
    finally:
        query.stop()
