"""A crash in each gap between two steps of docs/protocols/batches.md, and what the next worker makes of
it."""

from __future__ import annotations

import signal
from typing import Final

import pytest

from tests.e2e.scenario import Scenario
from tests.e2e.state_rows import wait_until_state_is_that_without_a_crash
from tidegate.verify import AuditReport

pytestmark = [pytest.mark.broker, pytest.mark.slow]


_OF_MARKERS: Final = ("before-the-marker", "in-an-open-marker")


def crash_and_recover(scenario: Scenario, point: str, nth: int) -> AuditReport:
    """Let a worker crash at the ``nth`` passing of ``point``, and another one go on; then audit.

    In the middle of the log, with transactions open, the state of the other one is compared as well.
    """
    with scenario.start_worker("w0", instance_id="w0") as first:
        scenario.create_feed(first)
        assert first.stop() == 0, first.text
    doomed = scenario.start_worker(
        "w0", ("-m", "tests.e2e.crashing_worker", point, str(nth)), instance_id="w0"
    )
    doomed.wait_for("partition restored")
    before = scenario.covered()
    part = max(map(len, scenario.log.partitions)) * 3 // 8
    scenario.append(part)
    if point in _OF_MARKERS:  # a worker that is slow writes one marker for all that it has read
        scenario.wait_until_marked(doomed, before)
    scenario.append(part)
    assert doomed.wait() == -signal.SIGKILL, doomed.text
    successor = scenario.start_worker("w0", instance_id="w0")
    successor.wait_for("partition restored")
    wait_until_state_is_that_without_a_crash(scenario, successor)
    scenario.append()
    report = scenario.wait_until_covered(successor)
    assert successor.stop() == 0
    return report


def test_crash_before_the_step(scenario: Scenario) -> None:
    crash_and_recover(scenario, "before-the-step", 8)


def test_crash_before_the_rows(scenario: Scenario) -> None:
    crash_and_recover(scenario, "before-the-rows", 12)


def test_crash_among_the_rows(scenario: Scenario) -> None:
    report = crash_and_recover(scenario, "among-the-rows", 3)
    assert report.counts.duplicates > 0  # the first half came twice


def test_crash_after_the_rows(scenario: Scenario) -> None:
    report = crash_and_recover(scenario, "after-the-rows", 3)
    assert report.counts.duplicates > 0


def test_crash_in_an_open_transaction(scenario: Scenario) -> None:
    report = crash_and_recover(scenario, "in-an-open-transaction", 3)
    assert report.counts.duplicates > 0


def test_crash_while_committing(scenario: Scenario) -> None:
    crash_and_recover(scenario, "while-committing", 8)


def test_crash_before_the_local_copy(scenario: Scenario) -> None:
    crash_and_recover(scenario, "before-the-local-copy", 8)


def test_crash_before_completing(scenario: Scenario) -> None:
    crash_and_recover(scenario, "before-completing", 8)


def test_crash_between_progress_and_marker(scenario: Scenario) -> None:
    crash_and_recover(scenario, "before-the-marker", 2)


def test_crash_in_an_open_marker(scenario: Scenario) -> None:
    crash_and_recover(scenario, "in-an-open-marker", 2)
