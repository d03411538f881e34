"""SIGTERM for a worker that waits and has not begun: a rolling update must not take that for a failure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stack.kafka import KafkaBroker
from stack.ports import choose_port
from tests.e2e.scenario import Scenario, bank_log
from tests.e2e.worker_process import WorkerProcess

pytestmark = pytest.mark.broker


@pytest.fixture
def no_log(broker: KafkaBroker, topic_prefix: str, tmp_path: Path) -> Iterator[Scenario]:
    log = bank_log(seed=5, transactions=10)
    made = Scenario(broker.bootstrap, topic_prefix, tmp_path, log, create_log=False)
    yield made
    made.close()


def stops_cleanly(worker: WorkerProcess) -> None:
    """What it waits for never comes."""
    worker.terminate()
    assert worker.wait(60) == 0, worker.text
    assert "stops before it began" in worker.text
    assert "Traceback" not in worker.text


def test_a_worker_that_waits_for_the_log_stops_cleanly(no_log: Scenario) -> None:
    worker = no_log.start_worker(fresh=True)
    worker.wait_for("waiting for the log topic")
    stops_cleanly(worker)


def test_a_worker_that_waits_for_the_broker_stops_cleanly(no_log: Scenario) -> None:
    worker = no_log.start_worker(fresh=True, bootstrap_servers=f"127.0.0.1:{choose_port()}")
    worker.wait_for("waiting for Kafka")
    stops_cleanly(worker)


def test_what_goes_wrong_before_the_begin_is_still_a_failure(no_log: Scenario) -> None:
    worker = no_log.start_worker(arguments=("-m", "tests.e2e.crashing_worker", "fail-to-open", "0"))
    assert worker.wait() == 70, worker.text
    assert "RuntimeError: nobody thought of this" in worker.text
