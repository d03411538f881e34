"""The offset lag is what was not stepped, whatever was fetched, and while nothing is."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.log_ends import log_ends, wait_until_read
from tests.e2e.scenario import Scenario
from tests.e2e.worker_process import WorkerProcess

pytestmark = pytest.mark.broker


def tells_lag(worker: WorkerProcess, ends: dict[int, int]) -> bool:
    """Whether the worker's lags are those of its positions behind ``ends``, and none is zero."""
    if not (worker.home / "worker.json").exists():
        return False
    rows: list[dict[str, Any]] = worker.ask("/status")["partitions"]
    told = {row["partition"]: (row["next_offset"], row["lag_records"]) for row in rows}
    return told.keys() == ends.keys() and all(
        position is not None and 0 < ends[number] - position == lag
        for number, (position, lag) in told.items()
    )


def test_a_partition_that_stands_still_falls_behind_visibly(scenario: Scenario) -> None:
    stuck = scenario.start_worker(
        "w0",
        ("-m", "tests.e2e.crashing_worker", "hold-rows", "1"),
        batch_records=10,
        queued_batches=2,
        inflight_batches=1,
    )
    scenario.create_feed(stuck)
    wait_until_read(scenario, stuck)
    scenario.append(min(map(len, scenario.log.partitions)) // 2)
    ends = log_ends(scenario)
    stuck.wait_until(lambda: tells_lag(stuck, ends), f"the lag behind {ends}")
    scenario.append()  # nothing of it is fetched: as many batches wait as may
    later = log_ends(scenario)
    assert all(later[number] > end for number, end in ends.items())
    stuck.wait_until(lambda: tells_lag(stuck, later), f"the lag behind {later}")
