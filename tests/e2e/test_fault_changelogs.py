"""Changelogs as compaction and truncation leave them, and the state that is restored from them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from rocksdict import Cache

from stack.kafka import KafkaBroker
from tables import TABLES
from tests.e2e.topics import create, cut
from tests.feeds import activation
from tests.hand_log import HandLog, HandTable
from tidegate.errors import StateError
from tidegate.processor.batch import ControlRecord, StateTable
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.processor import PartitionProcessor
from tidegate.raftlog.entry import Offset
from tidegate.spans import Span
from tidegate.worker.kafka.topology import Topology, WorkerTopicAdmin
from tidegate.worker.process.settings import Settings
from tidegate.worker.state.partition_writer import PartitionWriter
from tidegate.worker.state.store import PartitionStore

pytestmark = [pytest.mark.broker, pytest.mark.slow]

_CACHE = Cache(1 << 20)
_TABLE = HandTable.of(104, "plain")
_COMMITS = 40
_CLEANED_S = 180.0  # the broker looks for something to clean every 15 s
_LOOK_AGAIN_S = 1.0


class Changelogs:
    """The changelogs of an application with the state of one partition in them, commit by commit."""

    def __init__(self, bootstrap: str, prefix: str, directory: Path) -> None:
        self.settings = Settings(
            bootstrap_servers=bootstrap, app_id=f"{prefix}app", topic_prefix=prefix, data_dir=directory
        )
        self.ranges = f"{self.settings.app_id}-{StateTable.RANGES.value}-changelog"
        self._directory = directory
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        create(self._admin, f"{prefix}raftlog")
        self._topology: Topology = WorkerTopicAdmin(self.settings).discover(self.settings)

    def store(self, name: str) -> PartitionStore:
        """A local copy; two of the same name are the same one."""
        return PartitionStore(self._directory / name, _CACHE, TABLES)

    def bring_up(self, store: PartitionStore, partition: int = 0) -> int:
        """Return what a worker does that opens the partition; returns how many records it took."""
        writer = self.writer(store, partition)
        try:
            return writer.open()
        finally:
            writer.close()

    def writer(self, store: PartitionStore, partition: int = 0) -> PartitionWriter:
        return PartitionWriter(self.settings, self._topology, partition, store)

    def fill(self, store: PartitionStore) -> int:
        """Commit the state of two ranges, of which one is written to, record by record.

        Returns how many records that takes in the changelogs.
        """
        log = HandLog(partitions=1)
        log.describe(_TABLE)
        middle = _TABLE.key(_COMMITS // 2)
        rows = log.open_range(1, Span(middle, _TABLE.span.end))
        log.open_range(2, Span(_TABLE.span.start, middle))
        for second in range(_COMMITS // 2, _COMMITS):
            rows.apply(_TABLE.put(second, second, "x"), close=second)
        processor = PartitionProcessor(0, 1)
        feed = ControlRecord(Offset(0), activation([_TABLE.descriptor]))
        results = [processor.control([feed]), *(processor.step([record]) for record in log.partitions[0])]
        writer = self.writer(store)
        writer.open()
        for result in results:
            writer.commit([result])
        writer.close()
        return sum(len(result.changes) for result in results)

    def configure(self, **config: str) -> None:
        """Change the settings of the changelog of ranges."""
        entries = [
            ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            for name, value in config.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, self.ranges, incremental_configs=entries)
        self._admin.incremental_alter_configs([resource])[resource].result(30)

    def truncate(self, before: int) -> None:
        """Take the records below an offset away, as a wrong retention would."""
        self.configure(cleanup_policy="compact,delete")
        cut(self._admin, [TopicPartition(self.ranges, 0, before)])


@pytest.fixture
def changelogs(broker: KafkaBroker, topic_prefix: str, tmp_path: Path) -> Changelogs:
    return Changelogs(broker.bootstrap, topic_prefix, tmp_path)


def restore(store: PartitionStore) -> PartitionProcessor:
    stored = ((table, key, value) for table, key, value in store.rows() if value is not None)
    return PartitionProcessor.restore(0, 1, ProcessorConfig(), stored)


def test_a_compacted_changelog_restores_the_same_state(changelogs: Changelogs) -> None:
    changelogs.configure(segment_ms="1", min_cleanable_dirty_ratio="0", delete_retention_ms="0")
    written, restored = changelogs.store("written"), changelogs.store("restored")
    records = changelogs.fill(written)
    deadline = time.monotonic() + _CLEANED_S
    while changelogs.bring_up(restored) == records:
        assert time.monotonic() < deadline, "the broker compacts nothing"
        time.sleep(_LOOK_AGAIN_S)
        restored.clear()
    assert set(restored.rows()) == set(written.rows())
    assert restore(restored).next_offset == restore(written).next_offset
    written.close()
    restored.close()


def test_a_changelog_partition_without_records_is_an_empty_state(changelogs: Changelogs) -> None:
    other, empty = changelogs.store("written"), changelogs.store("empty")
    changelogs.fill(other)
    for _ in range(2):
        assert changelogs.bring_up(empty, partition=1) == 0
        assert not list(empty.rows())
        assert {position.offset for position in empty.positions().values()} == {0}
    other.close()
    empty.close()


def test_a_changelog_cut_above_a_copy_is_not_read_on_from_it_and_what_is_left_is_refused(
    changelogs: Changelogs,
) -> None:
    early, written = changelogs.store("early"), changelogs.store("written")
    changelogs.bring_up(early)
    changelogs.fill(written)
    changelogs.truncate(before=_COMMITS)  # the second range was stored once, below
    changelogs.bring_up(early)
    assert set(early.rows()) < set(written.rows())
    with pytest.raises(StateError, match="has 1 rows, but had 2"):
        restore(early)
    assert changelogs.bring_up(written) == 0, "a copy above the cut has lost nothing"
    assert restore(written).next_offset is not None
    early.close()
    written.close()
