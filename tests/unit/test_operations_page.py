"""The page for operators has every metric."""

from __future__ import annotations

import re

from prometheus_client import CollectorRegistry, generate_latest

from tests.unit.metrics_on_page import text, written
from tidegate.client.why.finding import Cause
from tidegate.worker.operations.metrics import REGISTRY, ReportCollector
from tidegate.worker.operations.report import (
    DeliveryReport,
    FeedReport,
    LaggingReport,
    PartitionReport,
    QuarantineReport,
    SinkReport,
    WorkerReport,
)

_SAMPLE = re.compile(r"^(tidegate_\w+)(?:\{(.*)\})? ", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="')
_HOLE = QuarantineReport(0, 1, 2, "3.0000000000", "an index is missing")
_DELIVERY = DeliveryReport(0, "bank", "catching up", 1, 2)
_REPORT = WorkerReport(
    "app",
    None,
    "raftlog",
    1,
    stall_alarm_ms=1,
    partitions=(
        PartitionReport(
            0,
            "running",
            lag_records=7,
            resolved_lag_ms=1,
            restore_ms=1,
            quarantined=(_HOLE,),
            lagging=(LaggingReport(0, "bank", 1, None, 1, 0, 0, 1),),
            deliveries=(_DELIVERY,),
        ),
    ),
    feeds=(FeedReport("bank", 1, "5.0", 34, ""),),
    sinks=(SinkReport("127.0.0.1:9092", 0),),
)


def test_every_gauge_is_on_the_page_with_its_labels() -> None:
    registry = CollectorRegistry()
    registry.register(ReportCollector(lambda: _REPORT))
    samples = _SAMPLE.findall(generate_latest(registry).decode())
    gauges = {name: set(_LABEL.findall(labels)) for name, labels in samples}
    assert len(gauges) > 10
    assert {name: written().get(name) for name in gauges} == gauges


def test_every_cause_that_why_may_find_is_on_the_page() -> None:
    named = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`[\w`, ]+) \| ", text(), re.MULTILINE))))
    assert {cause.value for cause in Cause} <= named


def test_every_counter_is_on_the_page() -> None:
    counters = {f"{metric.name}_total" for metric in REGISTRY.collect() if metric.type == "counter"}
    assert "tidegate_rows_total" in counters
    assert counters <= written().keys()
