"""Workers killed at random under the demo's load: the audit against the store's true history passes."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from stack.kafka import KafkaBroker
from tests.e2e.live_load import MANY_ROWS_PER_S, ROWS_PER_S, live_load
from tidegate.verify import Verdict

pytestmark = [pytest.mark.broker, pytest.mark.slow]

_SEED = 20_261_121
_MANY = 10  # so many that one of them hits a batch between its rows and its commit


@pytest.mark.always
@pytest.mark.parametrize("kills", [3, pytest.param(_MANY, marks=pytest.mark.soak)])
def test_kills_under_load_lose_and_invent_nothing(
    broker: KafkaBroker, topic_prefix: str, tmp_path: Path, kills: int
) -> None:
    rng = random.Random(_SEED)
    rate = MANY_ROWS_PER_S if kills == _MANY else ROWS_PER_S
    with live_load(broker.bootstrap, topic_prefix, tmp_path, _SEED, rows_per_s=rate) as load:
        worker = load.start_worker("w0", instance_id="w0")
        load.create_feed()
        for _ in range(kills):
            worker.wait_for("partition restored")
            time.sleep(rng.uniform(0.0, 1.5))  # the time of the crash is what is random
            load.store.require_running()
            worker.kill()
            worker = load.start_worker("w0", instance_id="w0")
        report = load.finish()
        assert report.verdict is Verdict.PASSED, str(report)
        if kills == _MANY:
            assert report.counts.duplicates > 0, "no kill hit a batch between its rows and its commit"
        assert worker.stop() == 0, worker.text
