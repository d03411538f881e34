"""A worker that was taken for dead, and does not know, cannot write state any more."""

from __future__ import annotations

import pytest

from tests.e2e.scenario import Scenario
from tidegate.worker.process.ending import EXIT_FATAL

pytestmark = [pytest.mark.broker, pytest.mark.slow]


@pytest.mark.always
def test_a_zombie_is_fenced_at_its_next_commit(scenario: Scenario) -> None:
    with scenario.start_worker("w0") as first:
        scenario.create_feed(first)
        assert first.stop() == 0, first.text
    zombie = scenario.start_worker("w0", ("-m", "tests.e2e.crashing_worker", "freeze-before-commit", "3"))
    zombie.wait_for("partition restored")
    scenario.append()
    zombie.wait_until_frozen()
    successor = scenario.start_worker("w1")
    scenario.wait_until_covered(successor)
    zombie.resume()
    assert zombie.wait() == EXIT_FATAL, zombie.text
    assert "has taken over" in zombie.text
    report = scenario.wait_until_covered(successor)
    assert report.counts.duplicates > 0  # the zombie's rows, acknowledged but never committed


@pytest.mark.soak
def test_a_zombie_that_wakes_before_its_first_marker_loses_nothing_whoever_is_fenced(
    scenario: Scenario,
) -> None:
    """The zombie ends, or the owner, whom it fences while it opens its producers; the owner of markers that
    are fenced alone begins them anew. Each that ends says why."""
    with scenario.start_worker("w0") as first:
        scenario.create_feed(first)
        assert first.stop() == 0, first.text
    zombie = scenario.start_worker("w0", ("-m", "tests.e2e.crashing_worker", "freeze-before-fencing", "1"))
    zombie.wait_until_frozen()
    owner = scenario.start_worker("w1")
    owner.wait_for("frontier begins")
    zombie.resume()
    scenario.append()
    successor = scenario.start_worker("w2")
    scenario.wait_until_covered(successor)
    ended = [worker for worker in (zombie, owner) if not worker.running]
    assert ended
    for worker in ended:
        assert worker.wait() == EXIT_FATAL, worker.text
        assert "has taken over" in worker.text
