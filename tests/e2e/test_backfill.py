"""A backfill of a live store whose ranges split and merge, and a worker that goes on
(docs/protocols/backfill.md)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import pytest

from stack.kafka import KafkaBroker
from tests.e2e.live_load import LiveLoad, live_load
from tests.e2e.spark_process import BackfillProcess
from tidegate.changefeed.definition.feed import Engine, FeedState
from tidegate.hlc import Timestamp
from tidegate.verify import Verdict

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.together("spark")]

_SEED: Final = 29
_PASSES_S: Final = 300.0
_MOVING: Final = {"split_every_ms": 4_000, "merge_every_ms": 9_000}


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("killed", [False, True], ids=["at once", "killed on the way"])
def test_a_scan_from_the_log_is_gone_on_with_by_a_worker(
    broker: KafkaBroker, topic_prefix: str, tmp_path: Path, killed: bool
) -> None:
    """Where the job dies once its start is stored, it is run again."""
    print("seed", _SEED)
    options = "updated, resolved, initial_scan='yes'"
    with live_load(
        broker.bootstrap, topic_prefix, tmp_path, seed=_SEED, store=_MOVING, rows_per_s=200
    ) as load:
        start = ""
        if killed:
            with BackfillProcess(load, tmp_path / "work", options) as first:
                first.wait_until(lambda: "the scan is at" in first.text, "the end of the survey")
                first.kill()
            start = str(_start_of(load))
        with BackfillProcess(load, tmp_path / "work", options) as job:
            assert job.wait() == 0, job.text[-5_000:]
            assert f"the scan is at {start}" in job.text
            assert "Traceback" not in job.text
        _go_on(load)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_everything_above_a_cursor_comes_from_the_log_and_a_worker_goes_on(
    broker: KafkaBroker, topic_prefix: str, tmp_path: Path
) -> None:
    print("seed", _SEED)
    with live_load(
        broker.bootstrap, topic_prefix, tmp_path, seed=_SEED, store=_MOVING, rows_per_s=200
    ) as load:
        options = f"updated, diff, resolved, cursor='{time.time_ns()}'"
        with BackfillProcess(load, tmp_path / "work", options) as job:
            assert job.wait() == 0, job.text[-5_000:]
            assert "they are complete up to" in job.text
        _go_on(load)


def _start_of(load: LiveLoad) -> Timestamp:
    load.find_feed()
    state = load.feed.current_state
    assert state is not None
    assert state.state is FeedState.RUNNING
    assert state.start is not None
    return state.start


def _go_on(load: LiveLoad) -> None:
    """Have a worker go on until its markers have passed all, and audit everything."""
    load.find_feed()
    assert load.feed.runs_on(Engine.WORKERS)
    worker = load.start_worker("w0")
    load.follow_feed()
    now = Timestamp(time.time_ns())
    load.wait_until(lambda: (load.feed.high_water or now) > now, "a marker by the worker", _PASSES_S)
    report = load.finish()
    assert report.verdict is Verdict.PASSED, str(report)
    assert worker.stop() == 0, worker.text
