"""Tests what a worker checks before it reads the first record, and what it says when it refuses."""

from __future__ import annotations

import pytest

from tests.e2e.scenario import PARTITIONS, Scenario
from tests.e2e.topics import grow
from tests.unit.client.topics import set_config
from tidegate.worker.process.ending import EXIT_REFUSED

pytestmark = pytest.mark.broker


def start_once(scenario: Scenario) -> None:
    """A first worker creates the topics."""
    worker = scenario.start_worker()
    worker.wait_for("the worker starts")
    worker.kill()


def test_a_log_that_grew_is_refused(scenario: Scenario) -> None:
    start_once(scenario)
    grow(scenario, f"{scenario.prefix}raftlog", PARTITIONS + 1)
    worker = scenario.start_worker()
    assert worker.wait() == EXIT_REFUSED, worker.text
    assert "cannot grow under an application" in worker.text


def test_a_changelog_that_forgets_is_refused(scenario: Scenario) -> None:
    start_once(scenario)
    topic = f"{scenario.app_id}-ranges-changelog"
    set_config(scenario.bootstrap, topic, "cleanup.policy", "delete")
    worker = scenario.start_worker()
    assert worker.wait() == EXIT_REFUSED, worker.text
    assert f"The topic {topic} has cleanup.policy=delete" in worker.text


def test_settings_at_fault_are_named(scenario: Scenario) -> None:
    worker = scenario.start_worker(fresh=True, batch_records=0)
    assert worker.wait() == EXIT_REFUSED
    assert "batch_records" in worker.text
    assert "Traceback" not in worker.text
