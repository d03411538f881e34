"""Membership of the consumer group: it lasts, and where it cannot, the process ends with a sentence."""

from __future__ import annotations

import shutil

import pytest

from tests.e2e.log_ends import wait_until_read
from tests.e2e.scenario import LONG_SESSION_MS, Scenario
from tests.e2e.worker_process import WorkerProcess
from tidegate.worker.process.ending import EXIT_FATAL

pytestmark = [pytest.mark.broker, pytest.mark.slow]

#: Longer than a machine stands still. A member that was thrown out learns of it at its next heartbeat, and a
#: session has four of them.
_SESSION_MS = 24_000


def _assignments(worker: WorkerProcess) -> int:
    return worker.text.count("partitions assigned")


def _rests(worker: WorkerProcess) -> bool:
    """Whether the worker has begun with its feed, and none of its rows is on the way."""
    status = worker.ask("/status")
    return bool(status["feeds"]) and not any(row["inflight_rows"] for row in status["partitions"])


def test_a_worker_stays_in_the_group_for_longer_than_a_poll_may_take(scenario: Scenario) -> None:
    worker = scenario.start_worker(
        "w0", ("-m", "tests.e2e.crashing_worker", "look-idle", "1"), session_timeout_ms=LONG_SESSION_MS
    )
    scenario.create_feed(worker)
    scenario.append()
    scenario.wait_until_covered(worker)
    assert _assignments(worker) == 1, worker.text
    assert worker.stop() == 0, worker.text


def test_a_session_that_the_broker_refuses_ends_the_worker_with_a_sentence(scenario: Scenario) -> None:
    worker = scenario.start_worker(session_timeout_ms=1_000)
    assert worker.wait() == EXIT_FATAL, worker.text
    assert "session_timeout_ms" in worker.text
    assert "Traceback" not in worker.text


def test_a_worker_that_was_killed_gets_its_partitions_back_before_its_session_expires(
    scenario: Scenario,
) -> None:
    with scenario.start_worker(session_timeout_ms=LONG_SESSION_MS) as first:
        scenario.create_feed(first)
    successor = scenario.start_worker(session_timeout_ms=LONG_SESSION_MS)
    scenario.append()
    scenario.wait_until_covered(successor)
    assert successor.stop() == 0, successor.text


def test_a_worker_that_stops_leaves_the_group_and_no_name_behind(scenario: Scenario) -> None:
    first = scenario.start_worker(session_timeout_ms=LONG_SESSION_MS)
    scenario.create_feed(first)
    assert "members.json" in {file.name for file in first.home.iterdir()}
    assert first.stop() == 0, first.text
    assert "members.json" not in {file.name for file in first.home.iterdir()}
    elsewhere = scenario.start_worker("w1", session_timeout_ms=LONG_SESSION_MS)
    scenario.append()
    scenario.wait_until_covered(elsewhere)


def test_a_copy_of_a_live_data_directory_throws_its_owner_out_once_and_both_go_on(
    scenario: Scenario,
) -> None:
    """The owner has nothing to write before it knows; if it had, it would be fenced (`test_zombie.py`)."""
    first = scenario.start_worker(session_timeout_ms=_SESSION_MS)
    scenario.create_feed(first)
    wait_until_read(scenario, first)
    first.wait_until(lambda: _rests(first), "the feed's frontier")
    copy = scenario.directory / "copy" / scenario.app_id
    copy.mkdir(parents=True)
    shutil.copy(first.home / "members.json", copy)
    second = scenario.start_worker("copy", session_timeout_ms=_SESSION_MS)
    second.wait_for("partition restored")
    first.wait_until(lambda: _assignments(first) > 1, "it to have joined the group again", 120)
    scenario.append()
    scenario.wait_until_covered(second)
    assert _assignments(first) <= 3, first.text  # its own, without it, and with both
    assert first.stop() == 0, first.text
    assert second.stop() == 0, second.text
