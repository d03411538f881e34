"""``tidegate debug step`` behind a worker: from the state that it has stored, and from the log alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from tests.e2e.log_ends import read_through
from tests.e2e.scenario import PARTITIONS, Scenario
from tests.unit.cli.running import run
from tests.unit.client.topics import wait_until_ended
from tidegate.processor.batch import StateTable

pytestmark = [pytest.mark.broker, pytest.mark.slow]

pytest.importorskip("wasmtime")


def _step(scenario: Scenario, partition: int, *options: str) -> dict[str, Any]:
    named = ("--app-id", scenario.app_id, "--topic-prefix", scenario.prefix)
    where = ("--partition", str(partition), "--records", "100000", "--json")
    result = run("debug", "step", "-b", scenario.bootstrap, *named, *where, *options)
    assert not result.stderr
    told: dict[str, Any] = json.loads(result.stdout)
    return told


def _changelogs(scenario: Scenario) -> set[TopicPartition]:
    """The partitions of the changelogs: the worker's last transaction ends there behind its answer."""
    topics = [f"{scenario.app_id}-{table.value}-changelog" for table in StateTable]
    return {TopicPartition(topic, number) for topic in topics for number in range(PARTITIONS)}


def test_a_step_behind_a_worker_is_the_same_from_either_state(scenario: Scenario) -> None:
    read_through(scenario)
    wait_until_ended(scenario.bootstrap, _changelogs(scenario))
    rows, read = 0, scenario.written
    scenario.append()
    longer = [number for number, records in enumerate(scenario.log.partitions) if len(records) > read]
    assert longer
    for partition in longer:
        stored = _step(scenario, partition, "--stored")
        built = _step(scenario, partition, "--from-offset", str(stored["from_offset"]))
        assert stored == built
        assert (stored["difference"], stored["broke"], stored["traps"]) == ("", "", 0)
        assert stored["from_offset"] >= read
        rows += stored["rows"]
    assert rows > 0
