"""What a Spark query takes on when it grows: ``python -m bench.spark_scale [MEASUREMENT ...]``.

``behind`` has a query start 10,000,000 records behind, in a log of 100,000 ranges. ``feeds`` compares a live
log with one feed, with 100 and with 400 feeds, and starts one more feed. ``cluster`` compares a standalone
cluster of two workers, with a core each, with a cluster of one such worker. Each measurement has a broker of
its own.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import psutil  # type: ignore[import-untyped]  # no stubs

from bench.live_tail import FollowedLog, followed_log
from bench.spark_query import SparkFeed, bench_session, memory_mib
from bench.store import BenchStore
from bench.topics import BenchTopics
from bench.workload import BASE_NS, orders_log
from sim.log.sink import WrittenRecord
from stack.kafka import KafkaBroker
from stack.spark import SparkCluster
from tidegate.changefeed.definition.feed import Engine, FeedState
from tidegate.changefeed.statement.definition import define_feed
from tidegate.client.feed_ids import new_feed_id
from tidegate.errors import RetryError
from tidegate.hlc import NANOS_PER_SECOND

_SEED: Final = 1
_PARTITIONS: Final = 4
_LOOK_S: Final = 0.5
_BEHIND: Final = 10_000_000
_RANGES: Final = 100_000
#: Of the records that the query has not read, one in so many is a command with rows. The others are
#: heartbeats.
_COMMAND_EVERY: Final = 20
#: A query has places for 900 feeds (docs/operations.md), but so many take long to start.
_FEEDS: Final = (1, 100, 400)
_LIVE_PARTITIONS: Final = 8
_LIVE_BATCHES: Final = 12
_STARTS_S: Final = 300.0
_CLUSTER_ROWS: Final = 400_000
_ROUNDS: Final = 3
#: The default of ``--batch-records``.
_BATCH_RECORDS: Final = 200_000


class FarBehind(NamedTuple):
    """A query that was started again ``records`` records behind.

    ``longest_s`` is its longest micro-batch. Memory is the most that each process had: of all Python workers
    together, of Spark's Java process, and of the driver in Python, which also has made the log.
    """

    ranges: int
    records: int
    rows: int
    seconds: float
    batches: int
    longest_s: float
    python_mib: float
    java_mib: float
    driver_mib: float


class ManyFeeds(NamedTuple):
    """A live log with heartbeats alone: the median time of a micro-batch, and the time from the request of
    one more feed until it runs."""

    feeds: int
    batch_s: float
    start_s: float
    threads: int


class OnCluster(NamedTuple):
    """A finished log on a standalone cluster whose workers have one core each: medians of rounds."""

    workers: int
    rows: int
    rows_per_s: float


class _MostMemory:
    """The most memory that the processes of each owner had, in MiB, while it watches."""

    def __init__(self) -> None:
        self.most = {"driver": 0.0, "spark": 0.0, "python": 0.0}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> _MostMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK_S):
            for owner, taken in memory_mib().items():
                self.most[owner] = max(self.most[owner], taken)


def far_behind(
    topics: BenchTopics, directory: Path, records: int = _BEHIND, ranges: int = _RANGES
) -> FarBehind:
    """Have a query read the Snapshots of all ranges and end, then start it again far behind."""
    store = BenchStore(partitions=_PARTITIONS, ranges=ranges, seed=_SEED)
    prefix = f"behind-{uuid.uuid4().hex[:8]}-"
    topics.create(f"{prefix}raftlog", _PARTITIONS)
    topics.fill(f"{prefix}raftlog", store.head(BASE_NS))
    feed = SparkFeed(topics, prefix, [store.table], directory)
    with bench_session() as session:
        feed.run(session, _BATCH_RECORDS)
        topics.fill(f"{prefix}raftlog", _missed(store, records))
        with _MostMemory() as memory:
            run = feed.run(session, _BATCH_RECORDS)
    return FarBehind(
        ranges,
        records,
        run.rows,
        run.seconds,
        len(run.batches),
        max(batch.whole for batch in run.batches),
        memory.most["python"],
        memory.most["spark"],
        memory.most["driver"],
    )


def _missed(store: BenchStore, records: int) -> Iterator[WrittenRecord]:
    """Yield heartbeats of all ranges in turn, and commands of random ranges between them."""
    written, now_ns = 0, BASE_NS
    while written < records:
        now_ns += 3 * NANOS_PER_SECOND
        beats = store.heartbeats(now_ns)[: records - written]
        for number in range(0, len(beats), _COMMAND_EVERY):
            some = beats[number : number + _COMMAND_EVERY - 1]
            yield from some
            written += len(some)
            if written < records:
                yield next(store.rows(1, now_ns))
                written += 1


def many_feeds(topics: BenchTopics, directory: Path, feeds: int) -> ManyFeeds:
    """Follow a live log with so many feeds, and start one more."""
    with bench_session() as session:
        followed = followed_log(session, topics, directory, _LIVE_PARTITIONS, _SEED, feeds=feeds)
        with followed as log:
            log.wait_for_batches(_LIVE_BATCHES)
            batches = [
                each["durationMs"]["triggerExecution"] / 1e3
                for each in log.query.recentProgress
                if each["batchId"] >= log.begun and each["numInputRows"]
            ]
            threads = psutil.Process().num_threads()
            return ManyFeeds(feeds, median(batches), _start_one(log, topics.bootstrap), threads)


def _start_one(log: FollowedLog, bootstrap: str) -> float:
    """Return the time from the request of one more feed until it runs."""
    now_ns = time.time_ns()
    statement = f"CREATE CHANGEFEED FOR TABLE orders INTO 'kafka://{bootstrap}?topic_prefix=more-{now_ns}-'"
    options = "WITH updated, resolved, initial_scan='no'"
    definition = define_feed(f"{statement} {options}", new_feed_id(now_ns), now_ns).definition
    jobs, begin = log.feed.jobs(), time.monotonic()
    jobs.create(replace(definition, engine=Engine.SPARK))
    view = jobs.wait(definition.id, _STARTS_S)
    if view.status is not FeedState.RUNNING:
        raise RetryError(f"The feed did not start: {view}")
    return time.monotonic() - begin


def on_clusters(topics: BenchTopics, directory: Path, rows: int = _CLUSTER_ROWS) -> Iterator[OnCluster]:
    """Take one log on clusters of one and of two workers."""
    log = orders_log(rows, _PARTITIONS, _SEED)
    prefix = f"cluster-{uuid.uuid4().hex[:8]}-"
    topics.create(f"{prefix}raftlog", _PARTITIONS)
    topics.fill(f"{prefix}raftlog", log.records)
    for workers in (1, 2):
        with SparkCluster(workers) as cluster, bench_session(cluster.master) as session:
            feeds = [SparkFeed(topics, prefix, log.tables, directory) for _ in range(_ROUNDS + 1)]
            runs = [feed.run(session) for feed in feeds]
        rates = [rows / run.seconds for run in runs[1:]]  # the first run warms the executors up
        yield OnCluster(workers, rows, median(rates))


def _feed_counts(topics: BenchTopics, directory: Path) -> Iterator[ManyFeeds]:
    for feeds in _FEEDS:
        yield many_feeds(topics, directory, feeds)


_MEASUREMENTS: Final[dict[str, Callable[[BenchTopics, Path], Iterator[NamedTuple]]]] = {
    "behind": lambda topics, directory: iter([far_behind(topics, directory)]),
    "feeds": _feed_counts,
    "cluster": on_clusters,
}


@contextmanager
def _place() -> Iterator[tuple[BenchTopics, Path]]:
    with (
        tempfile.TemporaryDirectory(prefix="tidegate-bench-") as home,
        KafkaBroker() as broker,
        closing(BenchTopics(broker.bootstrap)) as topics,
    ):
        yield topics, Path(home)


def main() -> None:
    """Print each result as soon as it is there."""
    for name in sys.argv[1:] or _MEASUREMENTS:
        with _place() as (topics, directory):
            for result in _MEASUREMENTS[name](topics, directory):
                told = (f"{field} {value:,.6g}" for field, value in result._asdict().items())
                print(f"{name}: {', '.join(told)}", flush=True)


if __name__ == "__main__":
    main()
