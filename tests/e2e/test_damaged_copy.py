"""A local copy whose rows are not those that were written: read again, or refused when that does not help."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from rocksdict import Cache

from tables import TABLES
from tests.e2e.log_ends import wait_until_read
from tests.e2e.scenario import LONG_SESSION_MS, PARTITIONS, Scenario
from tests.e2e.topics import cut
from tests.unit.client.topics import set_config
from tidegate.processor.batch import StateChange, StateTable
from tidegate.processor.state.position_hash import POSITION_KEY
from tidegate.worker.process.ending import EXIT_FATAL
from tidegate.worker.state.store import PartitionStore

pytestmark = pytest.mark.broker

_AGAIN = "it is read again from the changelogs"
_UNKNOWN_FIELD = b"\xf8\x3f\x01"


@pytest.fixture
def half_read(scenario: Scenario) -> Scenario:
    """One worker read half of the log and stopped."""
    worker = scenario.start_worker(instance_id="w0")
    scenario.create_feed(worker)
    scenario.append(max(map(len, scenario.log.partitions)) // 2)
    wait_until_read(scenario, worker)
    assert worker.stop() == 0, worker.text
    return scenario


def damage(scenario: Scenario, change: Callable[[StateChange], StateChange]) -> None:
    """Change one row of a range in the copy of each partition, as a failing disk or hand might."""
    for number in range(PARTITIONS):
        path = scenario.directory / "w0" / scenario.app_id / f"partition-{number}"
        store = PartitionStore(path, Cache(1 << 20), TABLES)
        rows = (row for row in store.rows() if row.table is StateTable.RANGES and row.key != POSITION_KEY)
        store.write([change(next(rows))], {}, store.written_at_ms() or 0)
        store.close()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda row: row._replace(value=None), id="a lost row"),
        pytest.param(
            lambda row: row._replace(value=row.value + _UNKNOWN_FIELD),
            id="a row of other bytes",
            marks=pytest.mark.soak,
        ),
        pytest.param(
            lambda row: row._replace(value=b"\x01\xff"),
            id="a row that cannot be read",
            marks=pytest.mark.soak,
        ),
    ],
)
def test_a_copy_that_is_not_what_was_written_is_read_again(
    half_read: Scenario, change: Callable[[StateChange], StateChange]
) -> None:
    damage(half_read, change)
    worker = half_read.start_worker(instance_id="w0", session_timeout_ms=LONG_SESSION_MS)
    worker.wait_until(lambda: worker.text.count("partition restored") == PARTITIONS, "all partitions")
    assert worker.text.count(_AGAIN) == PARTITIONS, worker.text
    assert "changelog_records=0" not in worker.text
    half_read.append()
    half_read.wait_until_covered(worker)
    restored = worker.ask("/status")["partitions"]
    assert all(row["restore_ms"] > 0 for row in restored)
    assert worker.stop() == 0, worker.text
    again = half_read.start_worker(instance_id="w0", session_timeout_ms=LONG_SESSION_MS)
    again.wait_until(lambda: again.text.count("partition restored") == PARTITIONS, "all partitions")
    assert _AGAIN not in again.text


@pytest.mark.soak
def test_a_zombie_with_such_a_copy_is_told_of_its_successor(half_read: Scenario) -> None:
    damage(half_read, lambda row: row._replace(value=None))
    crashing = ("-m", "tests.e2e.crashing_worker", "freeze-before-rebuilding", str(PARTITIONS))
    zombie = half_read.start_worker("w0", crashing, instance_id="w0")
    zombie.wait_until_frozen()
    successor = half_read.start_worker("w1")
    half_read.append()
    half_read.wait_until_covered(successor)
    zombie.resume()
    assert zombie.wait() == EXIT_FATAL, zombie.text
    assert "has taken over" in zombie.text
    assert _AGAIN not in zombie.text
    assert "deleted or cut" not in zombie.text
    assert successor.stop() == 0, successor.text


def test_what_the_changelogs_do_not_have_either_is_refused(half_read: Scenario) -> None:
    damage(half_read, lambda row: row._replace(value=None))
    changelog = f"{half_read.app_id}-{StateTable.RANGES.value}-changelog"
    set_config(half_read.bootstrap, changelog, "cleanup.policy", "compact,delete")
    admin = AdminClient({"bootstrap.servers": half_read.bootstrap})
    cut(admin, [TopicPartition(changelog, number, -1) for number in range(PARTITIONS)])  # up to its end
    set_config(half_read.bootstrap, changelog, "cleanup.policy", "compact")
    worker = half_read.start_worker(instance_id="w0", session_timeout_ms=LONG_SESSION_MS)
    assert worker.wait() == EXIT_FATAL, worker.text
    assert _AGAIN in worker.text
    assert "A changelog of the application was deleted or cut" in worker.text
    assert "Traceback" not in worker.text
