"""Tests what a worker checks before it reads the first record, and what it says when it refuses."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)

from tests.e2e.scenario import PARTITIONS, Scenario
from tidegate.worker.process.ending import EXIT_REFUSED

pytestmark = pytest.mark.broker


def start_once(scenario: Scenario) -> None:
    """A first worker creates the topics."""
    worker = scenario.start_worker()
    worker.wait_for("the worker starts")
    worker.kill()


def test_a_log_that_grew_is_refused(scenario: Scenario) -> None:
    start_once(scenario)
    admin = AdminClient({"bootstrap.servers": scenario.bootstrap})
    log = f"{scenario.prefix}raftlog"
    admin.create_partitions([NewPartitions(log, PARTITIONS + 1)])[log].result(30)
    worker = scenario.start_worker()
    assert worker.wait() == EXIT_REFUSED, worker.text
    assert "cannot grow under an application" in worker.text


def test_a_changelog_that_forgets_is_refused(scenario: Scenario) -> None:
    start_once(scenario)
    entry = ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SET)
    topic = f"{scenario.app_id}-ranges-changelog"
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": scenario.bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(30)
    worker = scenario.start_worker()
    assert worker.wait() == EXIT_REFUSED, worker.text
    assert f"The topic {topic} has cleanup.policy=delete" in worker.text


def test_settings_at_fault_are_named(scenario: Scenario) -> None:
    worker = scenario.start_worker(fresh=True, batch_records=0)
    assert worker.wait() == EXIT_REFUSED
    assert "batch_records" in worker.text
    assert "Traceback" not in worker.text
