"""Topics that were deleted and created again under a state that remembers the old ones."""

from __future__ import annotations

import shutil

import pytest

from tests.e2e.log_ends import wait_until_read
from tests.e2e.scenario import LONG_SESSION_MS, PARTITIONS, Scenario
from tests.e2e.topics import create, delete
from tidegate.client.output import OutputTopics
from tidegate.worker.process.ending import EXIT_FATAL

pytestmark = pytest.mark.broker


@pytest.fixture
def half_read(scenario: Scenario) -> Scenario:
    """One worker read half of the log and stopped."""
    worker = scenario.start_worker(instance_id="w0")
    scenario.create_feed(worker)
    scenario.append(max(map(len, scenario.log.partitions)) // 2)
    wait_until_read(scenario, worker)
    assert worker.stop() == 0, worker.text
    return scenario


def rows(scenario: Scenario) -> int:
    """Markers not counted: the persisted one may be repeated at any start."""
    records = OutputTopics.now(scenario.connection, [scenario.topic]).records()
    return sum(record.key is not None for record in records)


def test_a_log_made_anew_is_refused_before_a_row_is_written(half_read: Scenario) -> None:
    log, before = f"{half_read.prefix}raftlog", rows(half_read)
    create(delete(half_read, log), log)
    half_read.append()
    worker = half_read.start_worker(instance_id="w0")
    assert worker.wait() == EXIT_FATAL, worker.text
    assert "belongs to another log topic" in worker.text
    assert "Traceback" not in worker.text
    assert rows(half_read) == before


def test_one_changelog_made_anew_is_refused_and_the_copy_is_kept(half_read: Scenario) -> None:
    topic = f"{half_read.app_id}-intents-changelog"
    delete(half_read, topic)
    for _ in range(2):  # refused again and again: nothing was cleared, nothing is taken for restored
        worker = half_read.start_worker(instance_id="w0")
        assert worker.wait() == EXIT_FATAL, worker.text
        assert f"{topic} is not the topic that the state of partition" in worker.text
        assert "Traceback" not in worker.text
        assert "partition restored" not in worker.text


@pytest.mark.parametrize("table", ["feeds", pytest.param("descriptors", marks=pytest.mark.soak)])
def test_one_changelog_made_anew_is_refused_without_a_copy_too(half_read: Scenario, table: str) -> None:
    delete(half_read, f"{half_read.app_id}-{table}-changelog")
    shutil.rmtree(half_read.directory / "w0" / half_read.app_id)
    before = rows(half_read)
    half_read.append()
    for _ in range(2):  # refused again: the copy that the first attempt left is not taken for whole
        worker = half_read.start_worker(instance_id="w0")
        assert worker.wait() == EXIT_FATAL, worker.text
        assert f"The {table} table of log partition" in worker.text
        assert "has 0 rows, but had" in worker.text
        assert "delete all changelogs of the application and the data directories" in worker.text
        assert "Traceback" not in worker.text
    assert rows(half_read) == before


def test_all_changelogs_made_anew_have_the_log_read_again(half_read: Scenario) -> None:
    for table in ("ranges", "intents", "descriptors", "feeds"):
        delete(half_read, f"{half_read.app_id}-{table}-changelog")
    worker = half_read.start_worker(instance_id="w0", session_timeout_ms=LONG_SESSION_MS)
    worker.wait_for("was deleted and created again")
    half_read.append()
    report = half_read.wait_until_covered(worker)
    assert worker.text.count("next_offset=None") == PARTITIONS, worker.text
    assert report.counts.duplicates > 0, "the feed went on with the log's first half as if it had its state"
    assert worker.stop() == 0, worker.text
