"""A Spark query with feeds on two clusters, of which one stands still: its feed alone is left behind."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from stack.kafka import KafkaBroker
from tests.e2e.live_feed import LiveFeed
from tests.e2e.live_load import LiveLoad, live_load
from tests.e2e.spark_process import SparkProcess
from tidegate.changefeed.definition.feed import Engine
from tidegate.hlc import ZERO, Timestamp
from tidegate.verify import AuditReport, Verdict

pytestmark = [
    pytest.mark.soak,
    pytest.mark.broker,
    pytest.mark.slow,
    pytest.mark.usefixtures("others_allowed"),
]

_SEED: Final = 47
_PATIENCE: Final = ("--sink-stall", "2")
#: A machine that has little to do needs a few seconds for each of these.
_COMES_S: Final = 240.0


@pytest.fixture
def other() -> Iterator[KafkaBroker]:
    """The cluster that will stand still."""
    with KafkaBroker() as running:
        yield running
        running.resume()


@pytest.mark.timeout(900)
def test_a_cluster_that_stands_still_holds_back_its_own_feed_only(
    broker: KafkaBroker, other: KafkaBroker, topic_prefix: str, tmp_path: Path
) -> None:
    print("seed", _SEED)
    checkpoint, splits = tmp_path / "checkpoint", {"split_every_ms": 5_000}
    with live_load(broker.bootstrap, topic_prefix, tmp_path, _SEED, splits, rows_per_s=200) as load:
        with SparkProcess(load, checkpoint, _PATIENCE) as query:
            query.wait_until(lambda: "batches are durable" in query.text, "the first batch")
            load.create_feed(engine=Engine.SPARK)
            away = LiveFeed(load, broker.bootstrap, other.bootstrap, Engine.SPARK, _COMES_S)
            _goes_on(query, lambda: away.high_water)
            other.pause()
            query.wait_until(lambda: "The feed is left behind" in query.text, "the feed to be left behind")
            stands = away.high_water
            _goes_on(query, lambda: _high_water(load))
            assert away.high_water == stands, "progress without a sink"
            query.kill()
        with SparkProcess(load, checkpoint, _PATIENCE) as query:
            _goes_on(query, lambda: _high_water(load))
            assert away.high_water == stands, "progress without a sink"
            other.resume()
            _goes_on(query, lambda: away.high_water)
            report = load.finish()
            assert report.verdict is Verdict.PASSED, str(report)
            last = max(version.timestamp for version in load.history)
            query.wait_until(lambda: _audit(load, away).covered >= last, "all of it in the other cluster")
            report = _audit(load, away)
            assert report.verdict is Verdict.PASSED, str(report)
            assert query.stop() == 0, query.text[-5_000:]
            assert "Traceback" not in query.text


def _goes_on(query: SparkProcess, high_water: Callable[[], Timestamp]) -> None:
    """Wait until a feed's progress has passed the present."""
    now = Timestamp(time.time_ns())
    query.wait_until(lambda: high_water() > now, f"progress above {now}", _COMES_S)


def _high_water(load: LiveLoad) -> Timestamp:
    return load.feed.high_water or ZERO


def _audit(load: LiveLoad, away: LiveFeed) -> AuditReport:
    return away.audit(load.history)
