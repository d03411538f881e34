"""``tidegate debug step`` behind a worker: from the state that it has stored, and from the log alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.log_ends import read_through
from tests.e2e.scenario import Scenario
from tests.unit.cli.running import run

pytestmark = [pytest.mark.broker, pytest.mark.slow]

pytest.importorskip("wasmtime")


def _step(scenario: Scenario, partition: int, *options: str) -> dict[str, Any]:
    named = ("--app-id", scenario.app_id, "--topic-prefix", scenario.prefix)
    where = ("--partition", str(partition), "--records", "100000", "--json")
    result = run("debug", "step", "-b", scenario.bootstrap, *named, *where, *options)
    assert not result.stderr
    told: dict[str, Any] = json.loads(result.stdout)
    return told


def test_a_step_behind_a_worker_is_the_same_from_either_state(scenario: Scenario) -> None:
    read_through(scenario)
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
