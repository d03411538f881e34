"""The log is deleted and created again while a worker reads it: the worker ends with a sentence."""

from __future__ import annotations

import pytest

from tests.e2e.log_ends import wait_until_read
from tests.e2e.scenario import Scenario
from tests.e2e.topics import create, delete
from tests.e2e.worker_process import WorkerProcess
from tidegate.worker.process.ending import EXIT_FATAL

pytestmark = [pytest.mark.broker, pytest.mark.slow]


@pytest.fixture
def reading(scenario: Scenario) -> WorkerProcess:
    """A worker that has read half of the log, and waits for more."""
    worker = scenario.start_worker()
    scenario.create_feed(worker)
    scenario.append(max(map(len, scenario.log.partitions)) // 2)
    wait_until_read(scenario, worker)
    return worker


def test_a_log_that_is_shorter_now_is_noticed(scenario: Scenario, reading: WorkerProcess) -> None:
    log = f"{scenario.prefix}raftlog"
    create(delete(scenario, log), log)
    assert reading.wait() == EXIT_FATAL, reading.text
    assert "deleted and created again" in reading.text
    assert "Traceback" not in reading.text


def test_a_log_that_is_as_long_again_is_noticed(scenario: Scenario, reading: WorkerProcess) -> None:
    log = f"{scenario.prefix}raftlog"
    create(delete(scenario, log), log)
    scenario.rewind()
    scenario.append()
    assert reading.wait() == EXIT_FATAL, reading.text
    assert "deleted and created again" in reading.text
    assert "Traceback" not in reading.text
