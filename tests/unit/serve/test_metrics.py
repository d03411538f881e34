"""The server's metrics as Prometheus reads them."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from tests.unit.serve.postgres.served import run
from tests.unit.serve.web.served_web import serving_web
from tidegate.hlc import Timestamp
from tidegate.serve.metrics import CONTENT_TYPE, ServeCounts, TableFigures, metrics_text
from tidegate.subscribe.figures import SubscriptionFigures
from tidegate.subscribe.subscription import SubscriptionBatch
from tidegate.subscribe.updates.frontier import Frontier


def samples(text: str) -> dict[tuple[str, ...], float]:
    """The numbers by the metrics' names and the values of their labels."""
    return {
        (sample.name.removeprefix("tidegate_serve_"), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_all_figures_are_there() -> None:
    counts = ServeCounts(behind=2)
    counts.delivered("upsert", SubscriptionBatch(Frontier(Timestamp(3)), ((1,), (2,)), False, None, False))
    counts.refused_logins["web"] += 1
    reading = SubscriptionFigures(
        "shared", lag_s=0.5, waiting_rows=7, waiting_bytes=70, spilled_bytes=700, retention_margin=9
    )
    tables = [TableFigures('a"b', "feed", 4, 1_000_000_007, reading), TableFigures("c", "feed", 0, 0, None)]
    found = samples(
        metrics_text(counts, {"own": 1, "shared": 4}, {"own": 1, "shared": 2}, tables, own_bytes=5)
    )
    assert found == {
        ("subscriptions", "own"): 1,
        ("subscriptions", "shared"): 4,
        ("readers", "own"): 1,
        ("readers", "shared"): 2,
        ("batches_total", "upsert"): 1,
        ("rows_total", "upsert"): 2,
        ("own_bytes",): 5,
        ("slow_clients_total",): 2,
        ("refused_logins_total", "web"): 1,
        ("table_subscribers", 'a"b', "feed"): 4,
        ("table_subscribers", "c", "feed"): 0,
        ("table_log_bytes", 'a"b', "feed"): 1_000_000_007,
        ("table_log_bytes", "c", "feed"): 0,
        ("table_lag_seconds", 'a"b', "feed"): 0.5,
        ("table_waiting_rows", 'a"b', "feed"): 7,
        ("table_waiting_bytes", 'a"b', "feed"): 70,
        ("table_spilled_bytes", 'a"b', "feed"): 700,
        ("table_paused_partitions", 'a"b', "feed"): 0,
        ("table_retention_margin_records", 'a"b', "feed"): 9,
    }


def test_a_table_with_two_readers_has_one_series() -> None:
    old, new = SubscriptionFigures("shared", lag_s=9.0), SubscriptionFigures("shared", lag_s=0.5)
    tables = [TableFigures("t", "feed", 1, 10, old), TableFigures("t", "feed", 2, 5, new)]
    text = metrics_text(ServeCounts(), {}, {}, tables)
    assert text.count("tidegate_serve_table_lag_seconds{") == 1
    found = samples(text)
    assert found["table_subscribers", "t", "feed"] == 3
    assert found["table_log_bytes", "t", "feed"] == 15
    assert found["table_lag_seconds", "t", "feed"] == 0.5


def test_the_web_front_gives_them() -> None:
    async def test() -> None:
        async with serving_web() as served:
            answer = await served.get("/metrics")
            assert answer.headers["content-type"] == CONTENT_TYPE
            assert ("slow_clients_total",) in samples((await answer.body()).decode())
            answer.close()

    run(test)
