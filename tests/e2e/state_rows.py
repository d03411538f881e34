"""The state of a scenario's partitions: as it stands in the changelogs, and as it would be without a
crash."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from rocksdict import Cache

from tables import TABLES
from tests.e2e.log_ends import wait_until_read
from tests.e2e.scenario import PARTITIONS, Scenario
from tests.e2e.worker_process import WorkerProcess
from tidegate.client.kafka.topics import Topics
from tidegate.processor.batch import ControlRecord, StateChange, StateTable
from tidegate.processor.processor import PartitionProcessor
from tidegate.processor.state import state_pb2 as pb
from tidegate.processor.state.position_hash import POSITION_KEY
from tidegate.processor.state.state_codec import read_position
from tidegate.raftlog.entry import Offset
from tidegate.worker.kafka.topology import WorkerTopicAdmin
from tidegate.worker.process.settings import Settings
from tidegate.worker.state.changelog import Changelog, ChangelogReader
from tidegate.worker.state.store import PartitionStore

#: A map from (log partition, table, key) to value.
Rows: TypeAlias = Mapping[tuple[int, StateTable, bytes], bytes]

_CACHE: Final = Cache(1 << 20)
_VERSION: Final = 1  # bytes, in front of each row
#: The tables that are compared. That of feeds is not: a feed's row tells of messages about its start, not of
#: the log.
_COMPARED: Final = (StateTable.RANGES, StateTable.INTENTS, StateTable.DESCRIPTORS)


def wait_until_state_is_that_without_a_crash(scenario: Scenario, worker: WorkerProcess) -> None:
    """Return once the committed state is the same as that of an undisturbed processor that has read as much
    of the log."""
    expected = _without_a_crash(scenario)
    assert any(table is StateTable.INTENTS for _, table, _ in expected), "no transaction is open here"
    wait_until_read(scenario, worker)
    worker.wait_until(lambda: _committed(scenario) == expected, "the state of a run without a crash", 90)


def _without_a_crash(scenario: Scenario) -> Rows:
    assert scenario.feed is not None
    rows: dict[tuple[int, StateTable, bytes], bytes] = {}
    for number, records in enumerate(scenario.log.partitions):
        processor = PartitionProcessor(number, PARTITIONS)
        processor.control([ControlRecord(Offset(0), scenario.feed)])
        for record in records[: scenario.written]:
            for table, key, value in processor.step([record]).changes:
                if value is None:
                    rows.pop((number, table, key), None)
                else:
                    rows[number, table, key] = value
    return _comparable(
        (number, StateChange(table, key, value)) for (number, table, key), value in rows.items()
    )


def _committed(scenario: Scenario) -> Rows:
    settings = Settings(
        bootstrap_servers=scenario.bootstrap, app_id=scenario.app_id, topic_prefix=scenario.prefix
    )
    topics = Topics.of(settings).changelogs()
    ids = WorkerTopicAdmin(settings).ids(list(topics.values()))
    changelogs = tuple(Changelog(table, topic, ids[topic]) for table, topic in topics.items())
    rows: list[tuple[int, StateChange]] = []
    for number in range(PARTITIONS):
        with tempfile.TemporaryDirectory() as directory:
            store = PartitionStore(Path(directory) / "copy", _CACHE, TABLES)
            reader = ChangelogReader(settings, changelogs, number)
            reader.catch_up(store)
            reader.close()
            rows += [(number, row) for row in store.rows()]
            store.close()
    return _comparable(rows)


def _comparable(rows: Iterable[tuple[int, StateChange]]) -> Rows:
    return {
        (number, table, key): _content(table, key, value)
        for number, (table, key, value) in rows
        if table in _COMPARED and value is not None
    }


def _content(table: StateTable, key: bytes, value: bytes) -> bytes:
    """Return a row without the parts that depend on where batches ended, or on messages about feeds."""
    if key == POSITION_KEY:
        return b"%d" % read_position(value).offset
    if table is StateTable.DESCRIPTORS:
        return value
    row = pb.Range() if table is StateTable.RANGES else pb.Intent()
    row.ParseFromString(value[_VERSION:])
    row.ClearField("offset")
    return row.SerializeToString(deterministic=True)
