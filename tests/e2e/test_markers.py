"""Markers over changes of their owner."""

from __future__ import annotations

import pytest

from tests.e2e.scenario import Scenario
from tidegate.changefeed.definition.options import Envelope
from tidegate.changefeed.encoding.json_decoder import JsonDecoder
from tidegate.changefeed.encoding.record import MarkerRecord
from tidegate.client.output import OutputTopics
from tidegate.hlc import Timestamp

pytestmark = [pytest.mark.broker, pytest.mark.slow]


def markers(scenario: Scenario) -> dict[int, list[Timestamp]]:
    """The markers of each output partition, in their order."""
    decoder, found = JsonDecoder(Envelope.WRAPPED), dict[int, list[Timestamp]]()
    for record in OutputTopics.now(scenario.connection, [scenario.topic]).records():
        decoded = decoder.decode(record.key, record.value)
        if isinstance(decoded, MarkerRecord):
            found.setdefault(record.partition, []).append(decoded.resolved)
    return found


def _has_more(now: dict[int, list[Timestamp]], before: dict[int, list[Timestamp]]) -> bool:
    """Whether every partition has got a marker: readers see those of one transaction one after the other."""
    return all(len(now[number]) > len(resolved) for number, resolved in before.items())


def test_a_persisted_marker_is_repeated(scenario: Scenario) -> None:
    worker = scenario.start_worker(instance_id="w0")
    scenario.create_feed(worker)
    scenario.append()
    scenario.wait_until_covered(worker)
    before = markers(scenario)
    assert worker.stop() == 0, worker.text
    successor = scenario.start_worker(instance_id="w0")
    successor.wait_until(lambda: _has_more(markers(scenario), before), "a marker")
    for partition, resolved in markers(scenario).items():
        assert resolved[len(before[partition])] == before[partition][-1]


def test_a_new_frontier_owner_catches_up(scenario: Scenario) -> None:
    """The log is at its end when the owner dies with hardly a marker written: nothing new will come."""
    first = scenario.start_worker("w0", instance_id="w0")
    scenario.create_feed(first)
    assert first.stop() == 0, first.text
    doomed = scenario.start_worker(
        "w0", ("-m", "tests.e2e.crashing_worker", "hold-markers", "1"), instance_id="w0"
    )
    scenario.append()
    doomed.wait_until(
        lambda: (
            (doomed.home / "worker.json").exists()
            and all(
                row["lag_records"] == 0 and row["next_offset"] for row in doomed.ask("/status")["partitions"]
            )
            and not any(row["inflight_rows"] for row in doomed.ask("/status")["partitions"])
        ),
        "the end of the log",
    )
    doomed.kill()
    successor = scenario.start_worker("w0", instance_id="w0")
    scenario.wait_until_covered(successor)
