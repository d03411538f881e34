"""Tells people how far a query is: a log line every few seconds, and metrics.

A metric that a worker has, too, has the same name here (docs/operations.md). Every metric is defined in this
file.
"""

from __future__ import annotations

import json
import time
from collections import Counter as Counts
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from tidegate.access.http_access import HttpAccess
from tidegate.changefeed.definition.feed import FeedId
from tidegate.client.foreign_records import passed_over
from tidegate.errors import RetryError
from tidegate.hlc import Timestamp
from tidegate.spark.changefeed.task.answers import Answer
from tidegate.spark.platform.metrics_server import serve_scrapes

#: The shortest time between two lines; seconds.
_LINE_S: Final = 5.0
_MS: Final = 10**6

_PARTITION_GAUGES: Final = {
    "lag_records": "Offsets after the last step, up to the end of the log",
    "ranges": "Ranges, ended ones included",
    "open_transactions": "Transactions with open intents",
    "tracked_intents": "Open intents of those transactions",
    "parked_ranges": "Ranges that wait for a hand-off or a scan",
    "quarantined_ranges": "Ranges that give nothing until they heal",
    "backlog_entries": "Entries of the log that ranges have not applied, parked or catching up",
    "closed_regressions": "Closed timestamps below an earlier one, ignored",
    "refused_chunks": "Pieces of answers to scans that were refused, and are asked for again",
}

#: Asks where each partition of the log ends. Raises ``RetryError``.
Ends = Callable[[], Mapping[int, int]]

_log = structlog.get_logger("tidegate.spark")


class FeedLags(Collector):
    """The lag of each feed. It is worked out at each scrape, so it grows while a batch stands still.

    The thread that runs batches sets ``high_waters`` as a whole. Other threads read it.
    """

    def __init__(self) -> None:
        self.high_waters: Mapping[FeedId, Timestamp] = {}

    def lags_ms(self) -> dict[FeedId, int]:
        """Return the lag of each feed now, in ms: the wall clock less the feed's high-water."""
        now_ms = time.time_ns() // _MS
        return {feed: now_ms - high.wall // _MS for feed, high in self.high_waters.items()}

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the metric."""
        metric = GaugeMetricFamily(
            "tidegate_feed_resolved_lag_ms", "Wall clock less the feed's high-water", labels=["feed"]
        )
        for feed, lag_ms in self.lags_ms().items():
            metric.add_metric([feed], lag_ms)
        yield metric


class Metrics:
    """The query's metrics for Prometheus, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.rows = Counter(
            "tidegate_rows", "Rows acknowledged by the sink", ["partition"], registry=registry
        )
        self.records = Counter(
            "tidegate_query_records", "Records of the log that were stepped", ["partition"], registry=registry
        )
        self.markers = Counter(
            "tidegate_markers", "Markers, each on every output partition", ["feed"], registry=registry
        )
        self.batches = Counter("tidegate_query_batches", "Batches that are durable", registry=registry)
        self.rounds = Counter(
            "tidegate_query_rounds", "Rounds of these batches: Spark jobs", registry=registry
        )
        self.states = Counter(
            "tidegate_query_states",
            "States of partitions that rounds began with, by where they were found",
            ["found"],
            registry=registry,
        )
        self.state_files = Counter(
            "tidegate_query_state_files_read", "Files of state that rounds have read", registry=registry
        )
        self.incidents = Counter(
            "tidegate_incidents",
            "Quarantines, refused records, failed feeds",
            ["partition"],
            registry=registry,
        )
        self.paused = Gauge(
            "tidegate_query_paused_feeds",
            "Feeds that are left behind, since their sinks do not keep up",
            registry=registry,
        )
        self.seconds = Counter(
            "tidegate_query_seconds", "Time of batches, by what it went into", ["stage"], registry=registry
        )
        self.foreign_records = Gauge(
            "tidegate_foreign_records",
            "Records of the application's own topics that tidegate did not write, passed over",
            ["topic"],
            registry=registry,
        )
        self.feed_lags = FeedLags()
        registry.register(self.feed_lags)
        self.partitions = {
            name: Gauge(f"tidegate_{name}", meaning, ["partition"], registry=registry)
            for name, meaning in _PARTITION_GAUGES.items()
        }

    def serve(self, host: str, port: int, access: HttpAccess, files: tuple[Path, Path] | None = None) -> int:
        """Begin to serve the metrics, by TLS when its files are given; return the port.

        Raises ``OSError`` for a port that cannot be bound, and for files that cannot be used.
        """
        return serve_scrapes(self.registry, host, port, access, files)


class QueryProgress:
    """Adds up the figures that rounds answer. The thread that runs batches calls it."""

    def __init__(
        self,
        metrics: Metrics,
        ends: Ends,
        high_waters: Callable[[], Mapping[FeedId, Timestamp | None]],
        paused: Callable[[], Collection[FeedId]] = frozenset,
        markers: Callable[[], Mapping[FeedId, int]] = dict,
    ) -> None:
        """``markers`` has the number of markers of each feed since the query began."""
        self._metrics = metrics
        self._ends = ends
        self._high_waters = high_waters
        self._paused = paused
        self._markers = markers
        self._markers_told: dict[FeedId, int] = {}
        self._figures: dict[str, int | None] = {}
        self._next_offsets: dict[int, int] = {}
        self._parked: dict[int, int] = {}
        self._quarantined: dict[int, int] = {}
        self._batch_records = self._batch_rows = 0
        self._line_at = 0.0
        self._forget()

    def figures(self) -> Mapping[str, int | None]:
        """Return the figures of the last durable batch, by the names of
        ``tidegate.spark.changefeed.observed_figures``.

        The lag is that of the feed that is furthest behind; ``None`` where no feed has a high-water.
        """
        return self._figures

    def round_begins(self) -> None:
        """Look at the feeds' progress before a round, because the round may take long."""
        self._look_at_feeds()

    def round_done(self, stage: str, seconds: float, answers: Iterable[Answer]) -> None:
        """Count a finished round; ``stage`` says what it was about."""
        self._rounds += 1
        self._metrics.rounds.inc()
        self.spent(stage, seconds)
        for answer in answers:
            match answer.kind:
                case "figures":
                    self._add_figures(answer.partition, json.loads(answer.body))
                case "incident":
                    self._metrics.incidents.labels(answer.partition).inc()

    def spent(self, stage: str, seconds: float) -> None:
        """Count time of the batch that went into ``stage``."""
        self._seconds[stage] += seconds
        self._metrics.seconds.labels(stage).inc(seconds)

    def batch_done(self, batch: int) -> None:
        """Count a durable batch, and write a line if one is due."""
        self._batches += 1
        self._metrics.batches.inc()
        self._look_at_feeds()
        self._figures = {
            "records": self._batch_records,
            "rows": self._batch_rows,
            "markers": self._count_markers(),
            "resolved_lag_ms": max(self._metrics.feed_lags.lags_ms().values(), default=None),
            "parked_ranges": sum(self._parked.values()),
            "quarantined_ranges": sum(self._quarantined.values()),
        }
        self._batch_records = self._batch_rows = 0
        now_s = time.monotonic()
        if now_s >= self._line_at:
            self._line_at = now_s + _LINE_S
            self._tell(batch)
            self._forget()

    def _add_figures(self, partition: int, figures: Mapping[str, Any]) -> None:
        self._rows += figures["rows"]
        self._records += figures["records"]
        self._batch_rows += figures["rows"]
        self._batch_records += figures["records"]
        self._metrics.rows.labels(partition).inc(figures["rows"])
        self._metrics.records.labels(partition).inc(figures["records"])
        self._metrics.states.labels(figures["found"]).inc()
        self._metrics.state_files.inc(figures["files_read"])
        self._states[figures["found"]] += 1
        self._next_offsets[partition] = figures["next_offset"]
        for name, value in figures.get("status", {}).items():
            self._metrics.partitions[name].labels(partition).set(value)
        if "status" in figures:
            self._parked[partition] = figures["status"]["parked_ranges"]
            self._quarantined[partition] = figures["status"]["quarantined_ranges"]

    def _tell(self, batch: int) -> None:
        paused = sorted(self._paused())
        self._metrics.paused.set(len(paused))
        for topic, count in passed_over().items():
            self._metrics.foreign_records.labels(topic).set(count)
        _log.info(
            "batches are durable",
            last=batch,
            batches=self._batches,
            rounds=self._rounds,
            records=self._records,
            rows=self._rows,
            lag_records=self._lag(),
            quarantined_ranges=sum(self._quarantined.values()),
            feed_lag_ms=self._metrics.feed_lags.lags_ms(),
            paused_feeds=paused,
            states=dict(self._states),
            seconds={stage: round(seconds, 2) for stage, seconds in self._seconds.items()},
        )

    def _look_at_feeds(self) -> None:
        found = self._high_waters().items()
        self._metrics.feed_lags.high_waters = {feed: high for feed, high in found if high is not None}

    def _count_markers(self) -> int:
        """Return how many markers were written since the last call."""
        new = 0
        for feed, written in self._markers().items():
            came = written - self._markers_told.get(feed, 0)
            if came:
                self._metrics.markers.labels(feed).inc(came)
                self._markers_told[feed] = written
                new += came
        return new

    def _lag(self) -> int | None:
        """Return how many offsets the partitions together have not stepped yet; ``None`` when the ends of the
        log are not known.
        """
        try:
            ends = self._ends()
        except RetryError:
            return None
        lags = {number: max(0, end - self._next_offsets.get(number, 0)) for number, end in ends.items()}
        for number, lag in lags.items():
            self._metrics.partitions["lag_records"].labels(number).set(lag)
        return sum(lags.values())

    def _forget(self) -> None:
        """Begin to count for the next line."""
        self._batches = self._rounds = self._records = self._rows = 0
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._states: Counts[str] = Counts()
