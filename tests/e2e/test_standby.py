"""A worker with standby copies takes partitions over without reading their changelogs from the beginning."""

from __future__ import annotations

import re

import pytest

from tests.e2e.log_ends import wait_until_read
from tests.e2e.scenario import PARTITIONS, Scenario
from tests.e2e.worker_process import WorkerProcess

pytestmark = [pytest.mark.broker, pytest.mark.slow]

_REFRESH_MS = 200


def refreshed(worker: WorkerProcess) -> set[str]:
    """The partitions whose copies have taken in all that there was: the last refresh brought nothing."""
    last = dict(re.findall(r"standby copy refreshed.*partition=(\d+).*records=(\d+)", worker.text))
    return {partition for partition, records in last.items() if records == "0"}


def restored(worker: WorkerProcess) -> list[int]:
    """Return how many changelog records each opening took."""
    found = re.findall(r"partition restored.*changelog_records=(\d+)", worker.text)
    return [int(records) for records in found]


def test_a_worker_with_standby_copies_takes_over_without_reading_changelogs_again(scenario: Scenario) -> None:
    first = scenario.start_worker("w0")
    scenario.create_feed(first)
    scenario.append(max(map(len, scenario.log.partitions)) // 2)
    wait_until_read(scenario, first)
    copier = scenario.start_worker("w1", standby_refresh_ms=_REFRESH_MS)
    copier.wait_until(
        lambda: len(refreshed(copier)) + len(restored(copier)) >= PARTITIONS > len(restored(copier)),
        "a copy of each partition of the other worker",
    )
    own = len(restored(copier))
    first.kill()
    copier.wait_until(lambda: len(restored(copier)) >= own + PARTITIONS, "the partitions to be taken over")
    assert "there is no local copy" not in copier.text.split("standby copy refreshed")[-1]
    assert max(restored(copier)[own:]) < 50, copier.text
    scenario.append()
    scenario.wait_until_covered(copier)
    assert copier.stop() == 0, copier.text


@pytest.mark.soak
def test_a_worker_without_a_partition_of_its_own_keeps_copies_of_all(scenario: Scenario) -> None:
    first = scenario.start_worker("w0")
    scenario.create_feed(first)
    others = [scenario.start_worker(f"w{number}") for number in range(1, PARTITIONS)]
    for worker in others:
        worker.wait_for("partition restored")
    scenario.append()
    spare = scenario.start_worker("spare", standby_refresh_ms=_REFRESH_MS)
    spare.wait_until(lambda: len(refreshed(spare)) + len(restored(spare)) >= PARTITIONS, "copies of all")
    assert spare.stop() == 0, spare.text
    assert "Traceback" not in spare.text
