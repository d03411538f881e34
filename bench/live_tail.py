"""Measures a micro-batch of the Spark engine on a live log whose ranges send heartbeats alone."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from bench.marker_lag import percentile
from bench.spark_query import SparkFeed
from bench.store import BenchStore
from bench.topics import BenchTopics
from sim.log.kafka_sink import KafkaSink
from tidegate.errors import RetryError
from tidegate.spark.changefeed.progress import Metrics

#: Of each log partition. Each range has a heartbeat a second.
_RANGES: Final = 4
_STEPS_PER_S: Final = 10
_WARM_BATCHES: Final = 2
_LEAST_BATCHES: Final = 3
_STUCK_S: Final = 600.0
_LOOK_AGAIN_S: Final = 0.2


class LiveTail(NamedTuple):
    """``partitions`` are those of the log; ``batch_s`` and ``p99_s`` go from trigger to trigger.

    ``records_s`` is the part of a batch in which the log's records are read, stepped and stored. ``kept`` is
    the share of the states that were still in memory of the Python worker that ran the round. ``lag_s`` is
    the largest lag of the feed when a batch was done. ``files`` is the largest number of files that a
    partition has in its state at the end.
    """

    partitions: int
    batches: int
    batch_s: float
    p99_s: float
    records_s: float
    kept: float
    lag_s: float
    files: int


class FollowedLog(NamedTuple):
    """A query that follows a live log, and has run some batches of it already."""

    feed: SparkFeed
    query: StreamingQuery
    metrics: Metrics
    begun: int

    @property
    def lag_s(self) -> float:
        """The time in seconds that the feed is behind the clock now."""
        (family,) = self.metrics.feed_lags.collect()
        return max((each.value for each in family.samples), default=0.0) / 1e3

    @property
    def states(self) -> dict[str, float]:
        """The number of states that rounds have found, for each place where they found them."""
        (family,) = self.metrics.states.collect()
        return {each.labels["found"]: each.value for each in family.samples if each.name.endswith("_total")}

    def wait_for_batches(self, count: int) -> None:
        """Wait until ``count`` batches are done. Raises ``RetryError`` for a query that is stuck."""
        _wait_for_batch(self.query, self.begun + count - 1)


@contextmanager
def followed_log(
    session: SparkSession,
    topics: BenchTopics,
    directory: Path,
    partitions: int,
    seed: int,
    tasks: int = 0,
    feeds: int = 1,
) -> Iterator[FollowedLog]:
    """Yield a query with ``feeds`` feeds on a log of ``partitions`` partitions, while each range sends
    heartbeats.

    A round has at most ``tasks`` tasks, 0 for the default.
    """
    store = BenchStore(partitions=partitions, ranges=partitions * _RANGES, seed=seed)
    prefix = f"tail-{uuid.uuid4().hex[:8]}-"
    log = f"{prefix}raftlog"
    topics.create(log, partitions)
    topics.fill(log, store.head(time.time_ns()))
    feed, metrics = SparkFeed(topics, prefix, [store.table], directory, feeds), Metrics()
    ended = threading.Event()
    beats = threading.Thread(target=_beat, args=(store, topics.bootstrap, log, ended), daemon=True)
    with feed.tailing(session, tasks, metrics) as query:
        beats.start()
        try:
            yield FollowedLog(feed, query, metrics, _wait_for_batch(query, _WARM_BATCHES) + 1)
        finally:
            ended.set()
            beats.join()


def live_tail(
    session: SparkSession,
    topics: BenchTopics,
    directory: Path,
    partitions: int,
    seconds: float,
    seed: int,
    tasks: int = 0,
) -> LiveTail:
    """Run a query on a log of ``partitions`` partitions for ``seconds`` seconds after its first batches."""
    lags = list[float]()
    with followed_log(session, topics, directory, partitions, seed, tasks) as followed:
        ends_at = time.monotonic() + seconds
        while time.monotonic() < ends_at and not followed.query.awaitTermination(1):
            lags.append(followed.lag_s)
        followed.wait_for_batches(_LEAST_BATCHES)
        lags.append(followed.lag_s)
        progress = [
            each
            for each in followed.query.recentProgress
            if each["batchId"] >= followed.begun and each["numInputRows"]
        ]
    whole = sorted(each["durationMs"]["triggerExecution"] / 1e3 for each in progress)
    added = [each["durationMs"]["addBatch"] / 1e3 for each in progress]
    states = followed.states
    return LiveTail(
        partitions,
        len(whole),
        median(whole),
        percentile(whole, 0.99),
        median(added),
        states.get("kept", 0.0) / sum(states.values()),
        max(lags),
        followed.feed.state_files,
    )


def _wait_for_batch(query: StreamingQuery, number: int) -> int:
    """Return the number of the last batch, once it is at least ``number``.

    Raises ``RetryError`` for a query that is stuck.
    """
    given_up_at = time.monotonic() + _STUCK_S
    while time.monotonic() < given_up_at:
        last = query.lastProgress
        if last is not None and last["batchId"] >= number:
            return int(last["batchId"])
        time.sleep(_LOOK_AGAIN_S)
    raise RetryError(f"The query has not finished batch {number} within {_STUCK_S:g} s.")


def _beat(store: BenchStore, bootstrap: str, log: str, ended: threading.Event) -> None:
    """Write a heartbeat of every range each second, a tenth of them at a time."""
    with closing(KafkaSink(bootstrap, log)) as sink:
        step = 0
        while not ended.wait(1 / _STEPS_PER_S):
            now_ns = time.time_ns()
            for range_ in store.ranges[step % _STEPS_PER_S :: _STEPS_PER_S]:
                sink.append(*store.heartbeat(range_, now_ns))
            step += 1
            sink.flush()
