"""Membership of the consumer group: it lasts, and where it cannot, the process ends with a sentence."""

from __future__ import annotations

import pytest

from app.ending import EXIT_FATAL
from tests.e2e.scenario import Scenario

pytestmark = [pytest.mark.broker, pytest.mark.slow]


def test_a_worker_stays_in_the_group_for_longer_than_a_poll_may_take(scenario: Scenario) -> None:
    worker = scenario.start_worker("w0", ("-m", "tests.e2e.crashing_worker", "look-idle", "1"))
    scenario.create_feed(worker)
    scenario.append()
    scenario.wait_until_covered(worker)
    assert worker.text.count("partitions assigned") == 1, worker.text
    assert worker.stop() == 0, worker.text


def test_a_session_that_the_broker_refuses_ends_the_worker_with_a_sentence(scenario: Scenario) -> None:
    worker = scenario.start_worker(session_timeout_ms=1_000)
    assert worker.wait() == EXIT_FATAL, worker.text
    assert "session_timeout_ms" in worker.text
    assert "Traceback" not in worker.text
