"""The local copy of state is a cache: without it, or with a foreign one, the changelogs say everything."""

from __future__ import annotations

import shutil

import pytest

from tests.e2e.log_ends import read_through
from tests.e2e.scenario import LONG_SESSION_MS, PARTITIONS, Scenario
from tests.e2e.worker_process import WorkerProcess

pytestmark = [pytest.mark.broker, pytest.mark.slow]


def wait_until_restored(worker: WorkerProcess) -> None:
    worker.wait_until(lambda: worker.text.count("partition restored") == PARTITIONS, "all partitions")


def test_a_restart_reads_nothing_from_the_changelogs(scenario: Scenario) -> None:
    read_through(scenario)
    worker = scenario.start_worker(instance_id="w0", session_timeout_ms=LONG_SESSION_MS)
    wait_until_restored(worker)
    assert worker.text.count("changelog_records=0") == PARTITIONS, worker.text
    scenario.append()
    scenario.wait_until_covered(worker)


def test_nobody_else_reads_what_a_worker_keeps(scenario: Scenario) -> None:
    read_through(scenario)
    home = scenario.directory / "w0" / scenario.app_id
    entries = [home, *home.rglob("*")]  # the log of the process is written by its parent
    assert len(entries) > PARTITIONS
    assert [str(entry) for entry in entries if entry.stat().st_mode & 0o077 and entry.suffix != ".log"] == []


def test_a_deleted_directory_is_restored_from_the_changelogs(scenario: Scenario) -> None:
    read_through(scenario)
    shutil.rmtree(scenario.directory / "w0" / scenario.app_id)
    worker = scenario.start_worker(instance_id="w0", session_timeout_ms=LONG_SESSION_MS)
    wait_until_restored(worker)
    assert worker.text.count("there is no local copy") == PARTITIONS, worker.text
    assert "changelog_records=0" not in worker.text
    scenario.append()
    scenario.wait_until_covered(worker)


def test_a_damaged_directory_is_restored_from_the_changelogs(scenario: Scenario) -> None:
    read_through(scenario)
    for manifest in (scenario.directory / "w0" / scenario.app_id).glob("partition-*/MANIFEST-*"):
        manifest.write_bytes(b"damaged")
    worker = scenario.start_worker(instance_id="w0", session_timeout_ms=LONG_SESSION_MS)
    wait_until_restored(worker)
    assert "is damaged" in worker.text
    scenario.append()
    scenario.wait_until_covered(worker)


def test_a_directory_in_use_is_refused(scenario: Scenario) -> None:
    first = scenario.start_worker("w0")
    first.wait_for("the worker starts")
    second = scenario.start_worker("w0")
    assert second.wait() == 1
    assert "is in use by the worker with process id" in second.text
    assert first.running
