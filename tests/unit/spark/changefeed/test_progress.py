"""The lines and the metrics that a query writes about itself agree with what rounds answered."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from typing import Any

import pytest
from prometheus_client import generate_latest
from structlog.testing import capture_logs

import tidegate.spark.changefeed.progress
from tests.unit.metrics_on_page import written
from tidegate.changefeed.definition.feed import FeedId
from tidegate.errors import RetryError
from tidegate.hlc import Timestamp
from tidegate.spark.changefeed.observed_figures import FIGURES
from tidegate.spark.changefeed.progress import Metrics, QueryProgress
from tidegate.spark.changefeed.task.answers import Answer

_STATUS = {
    "ranges": 7,
    "open_transactions": 2,
    "tracked_intents": 9,
    "parked_ranges": 1,
    "quarantined_ranges": 3,
    "backlog_entries": 4,
    "closed_regressions": 0,
    "refused_chunks": 0,
}


def _figures(partition: int, rows: int, records: int, next_offset: int, **more: Any) -> Answer:
    body = {"rows": rows, "records": records, "next_offset": next_offset, "found": "kept", "files_read": 0}
    body |= more
    return Answer(partition, "figures", json.dumps(body).encode())


def _high_waters() -> Mapping[FeedId, Timestamp | None]:
    return {FeedId("bank"): Timestamp(time.time_ns() - 5 * 10**9), FeedId("scanning"): None}


def _text(metrics: Metrics) -> list[str]:
    return generate_latest(metrics.registry).decode().splitlines()


def test_a_line_adds_up_what_came_since_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tidegate.spark.changefeed.progress, "_LINE_S", 0.0)
    progress = QueryProgress(Metrics(), lambda: {0: 30, 1: 40}, _high_waters)
    with capture_logs() as lines:
        progress.round_done("records", 1.5, [_figures(0, 5, 10, 28, status=_STATUS), _figures(1, 6, 11, 40)])
        progress.round_done("exchanges", 0.25, [_figures(1, 1, 0, 40)])
        progress.spent("markers", 0.5)
        progress.batch_done(8)
        progress.batch_done(9)
    first, second = lines
    assert 4_900 < first.pop("feed_lag_ms").pop("bank") < 60_000
    assert first == {
        "event": "batches are durable",
        "log_level": "info",
        "last": 8,
        "batches": 1,
        "rounds": 2,
        "records": 21,
        "rows": 12,
        "lag_records": 2,
        "quarantined_ranges": 3,
        "paused_feeds": [],
        "states": {"kept": 3},
        "seconds": {"records": 1.5, "exchanges": 0.25, "markers": 0.5},
    }
    assert (second["last"], second["records"], second["rounds"], second["seconds"]) == (9, 0, 0, {})


def test_many_batches_give_few_lines() -> None:
    progress = QueryProgress(Metrics(), dict, _high_waters)
    with capture_logs() as lines:
        for batch in range(100):
            progress.batch_done(batch)
    assert [line["last"] for line in lines] == [0]


def test_metrics_count_what_was_answered() -> None:
    metrics = Metrics()
    progress = QueryProgress(metrics, lambda: {0: 30}, _high_waters, lambda: {FeedId("away")})
    progress.round_done(
        "records", 1.5, [_figures(0, 5, 10, 28, status=_STATUS), Answer(0, "incident", b"{}")]
    )
    progress.round_done("records", 0.5, [_figures(0, 2, 1, 29, found="loaded", files_read=9)])
    progress.batch_done(8)
    assert {
        'tidegate_rows_total{partition="0"} 7.0',
        'tidegate_query_records_total{partition="0"} 11.0',
        'tidegate_incidents_total{partition="0"} 1.0',
        'tidegate_quarantined_ranges{partition="0"} 3.0',
        'tidegate_lag_records{partition="0"} 1.0',
        'tidegate_query_states_total{found="kept"} 1.0',
        'tidegate_query_states_total{found="loaded"} 1.0',
        "tidegate_query_state_files_read_total 9.0",
        'tidegate_query_seconds_total{stage="records"} 2.0',
        "tidegate_query_batches_total 1.0",
        "tidegate_query_rounds_total 2.0",
        "tidegate_query_paused_feeds 1.0",
    } <= set(_text(metrics))


def test_figures_are_those_of_the_last_batch_alone() -> None:
    markers = {FeedId("bank"): 3, FeedId("gone"): 1}
    metrics = Metrics()
    progress = QueryProgress(metrics, dict, _high_waters, markers=lambda: markers)
    progress.round_done("records", 1.5, [_figures(0, 5, 10, 28, status=_STATUS), _figures(1, 6, 11, 40)])
    progress.batch_done(8)
    first = dict(progress.figures())
    markers[FeedId("bank")] = 5
    progress.round_done("records", 1.5, [_figures(1, 2, 3, 43, status={**_STATUS, "quarantined_ranges": 1})])
    progress.batch_done(9)
    second = dict(progress.figures())
    assert tuple(second) == FIGURES
    for each in (first, second):
        lag_ms = each.pop("resolved_lag_ms")
        assert lag_ms is not None
        assert lag_ms >= 5_000
    assert first == {"records": 21, "rows": 11, "markers": 4, "parked_ranges": 1, "quarantined_ranges": 3}
    assert second == {"records": 3, "rows": 2, "markers": 2, "parked_ranges": 2, "quarantined_ranges": 4}
    assert 'tidegate_markers_total{feed="bank"} 5.0' in _text(metrics)


def test_a_query_whose_feeds_have_no_high_water_has_no_lag() -> None:
    progress = QueryProgress(Metrics(), dict, dict)
    progress.batch_done(0)
    assert progress.figures()["resolved_lag_ms"] is None


def test_the_lag_grows_while_a_round_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in a query whose first batch never ends: nobody would be told otherwise."""
    metrics, high_water = Metrics(), Timestamp(time.time_ns())
    now_ns = high_water.wall + 5 * 10**9
    monkeypatch.setattr(time, "time_ns", lambda: now_ns)
    progress = QueryProgress(metrics, dict, lambda: {FeedId("bank"): high_water, FeedId("scanning"): None})
    progress.round_begins()
    shown = [line for line in _text(metrics) if line.startswith("tidegate_feed_resolved_lag_ms")]
    assert shown == ['tidegate_feed_resolved_lag_ms{feed="bank"} 5000.0']
    now_ns += 60 * 10**9
    assert 'tidegate_feed_resolved_lag_ms{feed="bank"} 65000.0' in _text(metrics)


def test_a_log_whose_end_cannot_be_had_has_no_lag() -> None:
    def away() -> Mapping[int, int]:
        raise RetryError("away")

    with capture_logs() as lines:
        QueryProgress(Metrics(), away, _high_waters).batch_done(0)
    assert lines[0]["lag_records"] is None


def test_every_metric_is_on_the_page_with_its_labels() -> None:
    metrics = Metrics()
    progress = QueryProgress(metrics, lambda: {0: 30}, _high_waters, markers=lambda: {FeedId("bank"): 1})
    progress.round_done(
        "records", 1.5, [_figures(0, 5, 10, 28, status=_STATUS), Answer(0, "incident", b"{}")]
    )
    progress.batch_done(8)
    samples = re.findall(r"^(tidegate_\w+)(?:\{(.*)\})? ", "\n".join(_text(metrics)), re.MULTILINE)
    found = {
        name: set(re.findall(r'(\w+)="', labels)) for name, labels in samples if not name.endswith("_created")
    }
    assert len(found) > 10
    assert {name: written().get(name) for name in found} == found
