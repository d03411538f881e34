"""The Prometheus metrics of a worker, all in this file, with their units in their names.

Gauges are read from the worker's report at the moment of the scrape. Counters count as things happen.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tidegate.kernel.followed_records import FOLLOWED
from tidegate.kernel.traps import TRAPS
from tidegate.worker.operations.report import (
    DeliveryReport,
    LaggingReport,
    PartitionReport,
    QuarantineReport,
    Reporter,
)

REGISTRY: Final = CollectorRegistry()

ROWS: Final = Counter("tidegate_rows", "Rows acknowledged by the sink", ["partition"], registry=REGISTRY)
BATCHES: Final = Counter("tidegate_batches", "Batches that are durable", ["partition"], registry=REGISTRY)
INCIDENTS: Final = Counter(
    "tidegate_incidents", "Quarantines, refused records, failed feeds", ["partition"], registry=REGISTRY
)
STEPS_BROKEN: Final = Counter(
    "tidegate_steps_broken",
    "Steps that met an exception nobody foresaw; the partition was opened again",
    ["partition"],
    registry=REGISTRY,
)
FOREIGN_RECORDS: Final = Counter(
    "tidegate_foreign_records",
    "Records of the application's own topics that tidegate did not write, passed over",
    ["topic"],
    registry=REGISTRY,
)
MARKERS: Final = Counter("tidegate_markers", "Markers, each on all partitions", ["feed"], registry=REGISTRY)
SCHEMAS: Final = Counter(
    "tidegate_schema_registrations", "Schemas that a registry has given an id", ["feed"], registry=REGISTRY
)
REGISTRY_RETRIES: Final = Counter(
    "tidegate_schema_registry_retries",
    "Calls that a registry did not answer, each asked again",
    ["feed"],
    registry=REGISTRY,
)
SINK_TROUBLES: Final = Counter(
    "tidegate_sink_troubles",
    "Errors that the connections to a sink's servers tell of",
    ["sink"],
    registry=REGISTRY,
)
SINK_ENDS: Final = Counter(
    "tidegate_sink_ends",
    "Producers of rows that came to their end, and whose rows another one writes",
    ["sink"],
    registry=REGISTRY,
)
REREADS: Final = Counter(
    "tidegate_rereads", "Times a batch did not follow the last one and was read again", registry=REGISTRY
)

_PARTITION_GAUGES: Final = {
    "lag_records": "Offsets after the last step, up to the end of the log; absent before that is known",
    "open_transactions": "Transactions with open intents",
    "tracked_intents": "Open intents of those transactions",
    "ranges": "Ranges, ended ones included",
    "inflight_rows": "Rows that wait for their acknowledgement",
    "oldest_unacknowledged_ms": "Age of the oldest batch with such rows",
    "closed_regressions": "Closed timestamps below an earlier one, ignored",
    "refused_chunks": "Pieces of answers to scans that were refused, and are asked for again",
    "backlog_entries": "Entries of the log that ranges have not applied, parked or catching up",
    "oldest_parked_seconds": "Age of the oldest parked range by the log's time; 0 without one",
    "scans": "Scans under way, for ranges that heal and for feeds that catch up",
    "spilled_transactions": "Open transactions beyond memory, on disk",
    "spill_bytes": "What was written to disk for those, before compression",
    "restore_ms": "How long the partition took to open, its state restored; absent while it is restoring",
    "resolved_lag_ms": "Wall clock less the lowest resolved timestamp; absent without a live range",
}


_DELIVERY_GAUGES: Final = {
    "waiting_bytes": "Rows of a feed in memory that wait for the sink's acknowledgement",
    "spool_bytes": "Rows of a feed on disk, since its sink does not keep up",
}


class ReportCollector(Collector):
    """The gauges, which are read when Prometheus asks."""

    def __init__(self, report: Reporter) -> None:
        self._report = report

    def collect(self) -> Iterable[Metric]:
        """See ``prometheus_client``."""
        report = self._report()
        yield CounterMetricFamily(
            "tidegate_kernel_traps", "Batches at which the kernel broke, and which Python took", TRAPS.count
        )
        yield CounterMetricFamily(
            "tidegate_kernel_records",
            "Log records that the kernel followed; Python took the others",
            FOLLOWED.count,
        )
        for name, meaning in _PARTITION_GAUGES.items():
            gauge = GaugeMetricFamily(f"tidegate_{name}", meaning, labels=["partition"])
            for partition in report.partitions:
                value = getattr(partition, name)
                if value is not None:
                    gauge.add_metric([str(partition.partition)], value)
            yield gauge
        yield _parked(report.partitions)
        yield _quarantined(report.partitions)
        yield _holes(report.quarantined)
        yield from _lagging(report.lagging)
        feeds = GaugeMetricFamily(
            "tidegate_feed_resolved_lag_ms", "Wall clock less the feed's high-water", labels=["feed"]
        )
        for feed in report.feeds:
            if feed.resolved_lag_ms is not None:
                feeds.add_metric([feed.feed], feed.resolved_lag_ms)
        yield feeds
        sinks = GaugeMetricFamily(
            "tidegate_sink_pending_rows", "Rows that wait for the sink's acknowledgement", labels=["sink"]
        )
        for sink in report.sinks:
            sinks.add_metric([sink.sink], sink.pending_rows)
        yield sinks
        yield from _deliveries(report.deliveries)
        yield GaugeMetricFamily(
            "tidegate_overlaps",
            "Spans of keys that several live ranges have at once, 100 at most; markers wait",
            value=len(report.overlaps),
        )
        yield GaugeMetricFamily(
            "tidegate_stalled_partitions", "Partitions over the stall alarm", value=len(report.stuck)
        )
        yield GaugeMetricFamily(
            "tidegate_schema_waiting_partitions",
            "Partitions with a batch that waits for a schema registry",
            value=len(report.waiting),
        )


def _deliveries(deliveries: Iterable[DeliveryReport]) -> Iterable[GaugeMetricFamily]:
    state = GaugeMetricFamily(
        "tidegate_delivery_state",
        "1 for the state of a feed in a partition: live, spooling, stalled, catching up",
        labels=["partition", "feed", "state"],
    )
    for item in deliveries:
        state.add_metric([str(item.partition), item.feed, item.state], 1)
    yield state
    for name, meaning in _DELIVERY_GAUGES.items():
        gauge = GaugeMetricFamily(f"tidegate_delivery_{name}", meaning, labels=["partition", "feed"])
        for item in deliveries:
            gauge.add_metric([str(item.partition), item.feed], getattr(item, name))
        yield gauge


def _parked(partitions: Iterable[PartitionReport]) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(
        "tidegate_parked_ranges", "Ranges that wait for a hand-off or a scan", labels=["partition"]
    )
    for partition in partitions:
        gauge.add_metric([str(partition.partition)], len(partition.parked))
    return gauge


def _quarantined(partitions: Iterable[PartitionReport]) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(
        "tidegate_quarantined_ranges", "Ranges that give nothing until they heal", labels=["partition"]
    )
    for partition in partitions:
        gauge.add_metric([str(partition.partition)], len(partition.quarantined))
    return gauge


def _lagging(lagging: Iterable[LaggingReport]) -> Iterable[GaugeMetricFamily]:
    labels = ["partition", "feed"]
    ranges = GaugeMetricFamily(
        "tidegate_feed_lagging_ranges", "Ranges of which the feed misses versions", labels=labels
    )
    held = GaugeMetricFamily(
        "tidegate_feed_held_bytes", "Rows that wait in memory for the scans of the feed", labels=labels
    )
    reserve = GaugeMetricFamily(
        "tidegate_feed_gc_reserve_seconds",
        "How far the versions that the feed misses are above the store's GC threshold; it fails at 0",
        labels=labels,
    )
    for item in lagging:
        place = [str(item.partition), item.feed]
        ranges.add_metric(place, item.ranges)
        held.add_metric(place, item.held_bytes)
        if item.gc_reserve_ms is not None:
            reserve.add_metric(place, item.gc_reserve_ms / 1_000)
    return ranges, held, reserve


def _holes(quarantined: Iterable[QuarantineReport]) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(
        "tidegate_quarantined_range",
        "1 for each of the worst of those; offset is where in the log the cause stands",
        labels=["partition", "range_id", "offset"],
    )
    for hole in quarantined:
        gauge.add_metric([str(hole.partition), str(hole.range_id), str(hole.offset)], 1)
    return gauge
