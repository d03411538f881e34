"""Partitions that move between workers while rows are in flight."""

from __future__ import annotations

from pathlib import Path

import pytest

from stack.kafka import KafkaBroker
from tests.e2e.live_load import live_load
from tests.e2e.scenario import Scenario
from tests.e2e.shared_partitions import wait_for_all
from tidegate.verify import Verdict

pytestmark = [pytest.mark.broker, pytest.mark.slow]


def test_two_workers_share_and_hand_over(scenario: Scenario) -> None:
    third = max(map(len, scenario.log.partitions)) // 3
    first = scenario.start_worker("w0")
    scenario.create_feed(first)
    scenario.append(third)
    second = scenario.start_worker("w1")
    second.wait_for("the worker starts")
    scenario.append(third)
    wait_for_all(first, second)
    scenario.append(third)
    assert first.stop() == 0, first.text
    scenario.append()
    wait_for_all(second)
    scenario.wait_until_covered(second)
    assert second.stop() == 0, second.text


@pytest.mark.always
def test_a_killed_worker_is_replaced_by_the_other(scenario: Scenario) -> None:
    half = max(map(len, scenario.log.partitions)) // 2
    first = scenario.start_worker("w0")
    scenario.create_feed(first)
    second = scenario.start_worker("w1")
    second.wait_for("partitions assigned")
    wait_for_all(first, second)
    scenario.append(half)
    first.kill()
    scenario.append()
    scenario.wait_until_covered(second)


def test_a_worker_that_is_stopped_and_started_again_under_load(
    broker: KafkaBroker, topic_prefix: str, tmp_path: Path
) -> None:
    with live_load(broker.bootstrap, topic_prefix, tmp_path, seed=3) as load:
        first = load.start_worker("w0")
        load.create_feed()
        second = load.start_worker("w1")
        second.wait_for("the worker starts")
        wait_for_all(first, second)
        assert first.stop() == 0, first.text
        wait_for_all(second)
        first = load.start_worker("w0")
        first.wait_for("the worker starts")
        wait_for_all(first, second)
        report = load.finish()
        assert report.verdict is Verdict.PASSED, str(report)
        assert first.stop() == second.stop() == 0
