"""A disk that is full under the local copy of state: a sentence, and all goes on when there is space."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from rocksdict import Cache

from tables import TABLES
from tests.e2e.scenario import Scenario
from tests.e2e.small_disk import SmallDisk
from tests.e2e.worker_process import FAUST, WorkerProcess
from tidegate.errors import StateError, TopologyError
from tidegate.processor.batch import StateChange, StateTable
from tidegate.worker.process.data_dir import DataDirectory
from tidegate.worker.process.ending import EXIT_FATAL
from tidegate.worker.state.store import PartitionStore

#: Less than RocksDB would set aside for its logs: of such space a full disk would still have some.
_DISK_BYTES = 2 << 20
_CACHE = Cache(1 << 20)
_ROW = StateChange(StateTable.RANGES, b"key", bytes(1_000))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with SmallDisk(tmp_path / "disk", _DISK_BYTES) as mounted:
        yield mounted


def start_on(scenario: Scenario, disk: SmallDisk) -> WorkerProcess:
    """A worker whose data directory is on the disk; what it says is written elsewhere."""
    worker = scenario.start_worker(
        arguments=disk.arguments(*FAUST), instance_id="w0", data_dir=disk.mounted_at
    )
    worker.home = disk.path / scenario.app_id
    return worker


def write_without_end(store: PartitionStore) -> None:
    while True:
        store.write([_ROW], {}, 2)


@pytest.mark.broker
@pytest.mark.slow
def test_a_worker_ends_with_a_sentence_and_its_successor_goes_on(scenario: Scenario, disk: SmallDisk) -> None:
    worker = start_on(scenario, disk)
    scenario.create_feed(worker)
    disk.fill()
    scenario.append()
    assert worker.wait() == EXIT_FATAL, worker.text
    assert "cannot be written: IO error: No space left on device" in worker.text
    assert "Traceback" not in worker.text
    disk.free()
    successor = start_on(scenario, disk)
    scenario.wait_until_covered(successor)
    assert "there is no local copy" not in successor.text
    assert successor.stop() == 0, successor.text


def test_a_copy_that_cannot_be_written_holds_what_it_held(disk: SmallDisk) -> None:
    store = PartitionStore(disk.path / "partition-0", _CACHE, TABLES)
    store.write([_ROW], {StateTable.RANGES: ("id", 1)}, 1)
    disk.fill()
    with pytest.raises(StateError, match=r"partition-0 cannot be written: .*No space left.*start it again"):
        write_without_end(store)
    with pytest.raises(Exception, match="previous error"):  # a worker has ended by now, and does not ask
        store.close()
    disk.free()
    again = PartitionStore(disk.path / "partition-0", _CACHE, TABLES)
    assert [row.key for row in again.rows()] == [_ROW.key]
    assert again.positions() == {StateTable.RANGES: ("id", 1)}
    again.close()


def test_a_copy_is_not_taken_for_damaged_because_the_disk_is_full(disk: SmallDisk) -> None:
    store = PartitionStore(disk.path / "partition-0", _CACHE, TABLES)
    store.write([_ROW], {StateTable.RANGES: ("id", 1)}, 1)
    store.close()
    disk.fill()
    with pytest.raises(StateError, match="No space left"):
        PartitionStore(disk.path / "partition-0", _CACHE, TABLES)
    disk.free()
    again = PartitionStore(disk.path / "partition-0", _CACHE, TABLES)
    assert list(again.rows()) == [_ROW]
    again.close()


def test_a_directory_on_a_full_disk_is_refused_and_can_be_used_later(disk: SmallDisk) -> None:
    (disk.path / "home").mkdir()
    disk.fill()
    for _ in range(2):
        with pytest.raises(TopologyError, match=r"cannot be written \(No space left on device\)"):
            DataDirectory(disk.path / "home")
    disk.free()
    with DataDirectory(disk.path / "home") as home:
        disk.fill()
        with pytest.raises(TopologyError, match="No space left"):
            home.announce("http://localhost:1")
