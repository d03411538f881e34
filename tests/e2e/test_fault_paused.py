"""Workers that stand still for longer than their session, wherever they are, and then go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from stack.kafka import KafkaBroker
from tests.e2e.live_load import MANY_ROWS_PER_S, PARTITIONS, live_load
from tests.e2e.worker_process import WorkerProcess
from tidegate.verify import Verdict
from tidegate.worker.process.ending import EXIT_FATAL

pytestmark = [pytest.mark.broker, pytest.mark.soak]


def wait_until_all_run(worker: WorkerProcess) -> None:
    """Wait until the worker has every partition of the log."""

    def has_all() -> bool:
        rows = worker.ask("/status")["partitions"]
        return [row["state"] for row in rows] == ["running"] * PARTITIONS

    worker.wait_until(has_all, "all partitions to be held", 90)


def test_a_worker_that_is_paused_beyond_its_session_wakes_as_a_zombie_and_ends(
    broker: KafkaBroker, topic_prefix: str, tmp_path: Path
) -> None:
    with live_load(broker.bootstrap, topic_prefix, tmp_path, seed=5, rows_per_s=MANY_ROWS_PER_S) as load:
        paused = load.start_worker("w0")
        load.create_feed()
        wait_until_all_run(paused)
        paused.wait_for("frontier begins")  # a zombie that wakes before fences its successor: test_zombie.py
        paused.pause()  # under a thousand rows a second: some are always on their way
        second = load.start_worker("w1")
        second.wait_for("the worker starts")
        wait_until_all_run(second)
        paused.resume()
        assert paused.wait() == EXIT_FATAL, paused.text
        assert "has taken over" in paused.text
        assert "Traceback" not in paused.text
        report = load.finish()
        assert report.verdict is Verdict.PASSED, str(report)
        assert second.stop() == 0, second.text
