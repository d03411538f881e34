"""The Spark job under load on a real broker, its driver killed at random moments."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

import pytest

from stack.kafka import KafkaBroker
from tests.e2e.live_load import live_load
from tests.e2e.spark_process import SparkProcess
from tidegate.changefeed.definition.feed import Engine
from tidegate.verify import Verdict

pytestmark = [pytest.mark.broker, pytest.mark.together("spark")]

#: As long as a driver takes to start, to run some batches, and to be amid the next.
_LIVES_S = (10.0, 25.0)
_KILLS = 5


@pytest.mark.soak  # once is in test_hand_over.py
@pytest.mark.timeout(900)
def test_a_driver_that_is_killed_loses_and_invents_nothing(
    broker: KafkaBroker, topic_prefix: str, tmp_path: Path
) -> None:
    seed = 41
    print("seed", seed)
    rng = Random(seed)
    checkpoint = tmp_path / "checkpoint"
    with live_load(
        broker.bootstrap, topic_prefix, tmp_path, seed=seed, store={"split_every_ms": 2_000}, rows_per_s=200
    ) as load:
        with SparkProcess(load, checkpoint) as driver:
            driver.wait_until(lambda: "batches are durable" in driver.text, "the first batch")
            load.create_feed(engine=Engine.SPARK)
            driver.kill()
        for _ in range(_KILLS - 1):
            with SparkProcess(load, checkpoint) as driver:
                time.sleep(rng.uniform(*_LIVES_S))
                driver.kill()
        with SparkProcess(load, checkpoint) as driver:
            report = load.finish()
            assert report.verdict is Verdict.PASSED, f"{report}\n{driver.text[-5_000:]}"
            assert report.counts.markers > 0
            assert driver.stop() == 0, driver.text[-5_000:]
            assert "Traceback" not in driver.text
