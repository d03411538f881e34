"""Two rebalances back to back, the second while partitions are restored from the first."""

from __future__ import annotations

import pytest

from tests.e2e.scenario import PARTITIONS, Scenario

pytestmark = [pytest.mark.broker, pytest.mark.soak]


def test_workers_that_come_and_go_at_once_leave_no_partition_without_its_state(scenario: Scenario) -> None:
    third = max(map(len, scenario.log.partitions)) // 3
    first = scenario.start_worker("w0")
    scenario.create_feed(first)
    scenario.append(third)
    second, last = scenario.start_worker("w1"), scenario.start_worker("w2")
    for joining in (second, last):
        joining.wait_for("partitions assigned")  # whichever is first has to share again at once
    scenario.append(third)
    first.terminate()  # two more rebalances: neither waits until the partitions of the other are restored
    second.terminate()
    assert first.wait() == second.wait() == 0, first.text + second.text
    scenario.append()
    scenario.wait_until_covered(last)
    rows = last.ask("/status")["partitions"]
    assert [row["state"] for row in rows] == ["running"] * PARTITIONS
    assert last.stop() == 0, last.text
    for worker in (first, second, last):
        assert "lock" not in worker.text
        assert "is damaged" not in worker.text
        assert "Traceback" not in worker.text
