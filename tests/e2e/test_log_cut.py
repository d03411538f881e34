"""Retention that passes by: what was not read is a hole, and no marker covers it."""

from __future__ import annotations

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from tests.e2e.scenario import PARTITIONS, Scenario
from tests.e2e.topics import cut

pytestmark = [pytest.mark.broker, pytest.mark.slow]


def test_a_log_cut_above_the_position_quarantines_every_range(scenario: Scenario) -> None:
    worker = scenario.start_worker(instance_id="w0")
    scenario.create_feed(worker)
    assert worker.stop() == 0, worker.text
    scenario.append()
    log = f"{scenario.prefix}raftlog"
    admin = AdminClient({"bootstrap.servers": scenario.bootstrap})
    cut(admin, [TopicPartition(log, partition, 50) for partition in range(PARTITIONS)])
    successor = scenario.start_worker(instance_id="w0")

    def read() -> bool:
        rows = successor.ask("/status")["partitions"] if (successor.home / "worker.json").exists() else []
        return len(rows) == PARTITIONS and all(
            row["lag_records"] == 0 and row["state"] == "running" and (row["next_offset"] or 0) > 50
            for row in rows
        )

    successor.wait_until(read, "the rest of the log to be read")
    holes = successor.ask("/status")["quarantined_ranges"]
    assert {hole["partition"] for hole in holes} == set(range(PARTITIONS))
    assert all("retention removed what was not read" in hole["cause"] for hole in holes)
    assert scenario.covered() < scenario.end()
    assert successor.stop() == 0, successor.text
