"""Restores the state of a log partition from its changelogs: steps O1 to O3 of
docs/protocols/opening-a-partition.md."""

from __future__ import annotations

import time
from collections.abc import Iterator
from threading import Event

import structlog

from tidegate.client.kafka.transaction import GivenUpError
from tidegate.errors import StateMismatch
from tidegate.kernel.partition_kernel import kernels_for
from tidegate.processor.batch import StateTable
from tidegate.processor.bounds import RecordBounds
from tidegate.processor.catchup.gap_scans import CatchUpLimits
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.processor import PartitionProcessor
from tidegate.processor.push_policy import PushPolicy
from tidegate.processor.step_size import RowLimits
from tidegate.ranges.intent_budget import IntentBudget, PartitionSpill
from tidegate.worker.log_partition.standby import Standby
from tidegate.worker.process.settings import Settings
from tidegate.worker.runtime import Runtime
from tidegate.worker.state.backlog_memory import BacklogMemory, PartitionBacklogs
from tidegate.worker.state.partition_writer import PartitionWriter
from tidegate.worker.state.spill import RocksSpill
from tidegate.worker.state.store import LocalStore, OpenStore

_log = structlog.get_logger("tidegate.rangefeed")


class Stores:
    """The stores that the partitions of a worker share: copies of state, and data that memory cannot hold."""

    def __init__(self, settings: Settings, open_copy: OpenStore) -> None:
        self.open_copy = open_copy
        self.backlogs = BacklogMemory(settings.home / "backlogs", settings.backlog_memory_bytes)
        self._spill = RocksSpill(settings.home / "intents-spill")
        self.intents = IntentBudget(settings.intent_memory_bytes, self._spill)

    def close(self) -> None:
        """Delete the open transactions that memory could not hold. No partition may be held now.

        Partitions may be opened again later.
        """
        self._spill.close()


class _Rows:
    """The rows of a copy, to be iterated over several times without being held in memory."""

    def __init__(self, copy: LocalStore) -> None:
        self._copy = copy

    def __iter__(self) -> Iterator[tuple[StateTable, bytes, bytes]]:
        return ((table, key, value) for table, key, value in self._copy.rows() if value is not None)


class PartitionState:
    """The durable state of one log partition: ``restore`` reads it once, then ``writer`` writes it.

    Only one thread at a time may call methods that block. ``standby`` may have the local copy open;
    ``restore`` makes it close the copy.
    """

    def __init__(
        self, runtime: Runtime, partition: int, stores: Stores, standby: Standby | None = None
    ) -> None:
        self._runtime = runtime
        self._partition = partition
        self._stores = stores
        self._standby = standby
        self._copy: LocalStore | None = None
        self._writer: PartitionWriter | None = None
        self._spill: PartitionSpill | None = None
        self._backlogs: PartitionBacklogs | None = None
        self._abandoned = Event()
        #: The time that the restore took, in ms; ``None`` before its end.
        self.restore_ms: int | None = None

    @property
    def writer(self) -> PartitionWriter:
        """The only writer of the state, once it is restored."""
        assert self._writer is not None
        return self._writer

    def restore(self) -> PartitionProcessor | None:
        """Restore the state (steps O1 to O3), and return the processor. Blocks.

        Returns ``None`` if the partition was abandoned meanwhile. Raises ``DeliveryError`` if the broker
        refuses, or a successor has fenced this owner, and ``StateError`` if the state cannot be read.
        """
        began = time.monotonic()
        if self._abandoned.is_set():
            return None  # it was abandoned before it had a thread; to open it would fence its next owner
        if self._standby is not None:
            self._standby.yielded()
        copy = self._copy = self._stores.open_copy(self._runtime.directory.partition(self._partition))
        runtime = self._runtime
        writer = self._writer = PartitionWriter(
            runtime.settings, runtime.topology, self._partition, copy, runtime.machine
        )
        if self._abandoned.is_set():
            return None
        try:
            processor, records = self._read(copy, writer)
        except GivenUpError:  # abandoned, while Kafka did not answer
            return None
        if processor is not None:
            self.restore_ms = round((time.monotonic() - began) * 1000)
            self._tell(processor, records)
        return processor

    def abandon(self) -> None:
        """Make ``restore`` end soon, without a processor. Another thread may call this."""
        self._abandoned.set()
        if self._writer is not None:
            self._writer.abandon()

    def close(self) -> None:
        """Close writer, copy, spill and backlogs: nothing is written any more. Blocks."""
        if self._writer is not None:
            self._writer.close()
        if self._copy is not None:
            self._copy.close()
        self._close_memory()

    def _close_memory(self) -> None:
        if self._spill is not None:
            self._spill.close()
        if self._backlogs is not None:
            self._backlogs.close()

    def _read(self, copy: LocalStore, writer: PartitionWriter) -> tuple[PartitionProcessor | None, int]:
        """Read the changelogs. Returns the processor, and how many records were read for it.

        Raises ``DeliveryError`` if what was read is a mixture, since a successor has written meanwhile.
        """
        had_rows = copy.written_at_ms() is not None
        try:
            records = writer.open()
            return self._rebuild(copy), records
        except StateMismatch as mismatch:
            writer.require_owner()
            if not had_rows:
                raise  # the changelogs were read from their beginning just now
            _log.warning(
                "the local copy of state is not what was written; it is read again from the changelogs",
                partition=self._partition,
                cause=str(mismatch),
            )
        if self._abandoned.is_set():
            return None, 0
        records = writer.reopen()
        try:
            return self._rebuild(copy), records
        except StateMismatch:
            writer.require_owner()
            raise

    def _rebuild(self, copy: LocalStore) -> PartitionProcessor | None:
        """Rebuild the processor from the copy (step O3). Returns ``None`` if the partition was abandoned.

        An abandoned copy may be incomplete. Raises ``StateMismatch`` if the rows of the copy are not the rows
        that were written.
        """
        if self._abandoned.is_set():
            return None
        self._close_memory()
        spill, backlogs = self._stores.intents.partition(), self._stores.backlogs.partition()
        self._spill, self._backlogs = spill, backlogs
        partitions, config = self._runtime.topology.partitions, self._config(spill, backlogs)
        return PartitionProcessor.restore(self._partition, partitions, config, _Rows(copy))

    def _config(self, spill: PartitionSpill, backlogs: PartitionBacklogs) -> ProcessorConfig:
        settings, topics = self._runtime.settings, self._runtime.topics
        ids = self._runtime.topology.topic_ids
        return ProcessorConfig(
            push=PushPolicy(settings.push_age_ms, settings.push_repeat_ms, settings.push_enabled),
            log_id=ids[topics.log],
            control_id=ids[topics.control],
            queue=backlogs.queue,
            backlog_bytes=settings.backlog_bytes,
            spill=spill,
            catch_up=CatchUpLimits(settings.catch_up_scans, settings.catch_up_memory_bytes),
            detachable=True,
            bounds=RecordBounds(settings.max_record_bytes),
            rows=RowLimits(settings.step_memory_bytes),
            kernel=kernels_for(settings.kernel),
        )

    def _tell(self, processor: PartitionProcessor, records: int) -> None:
        _log.info(
            "partition restored",
            partition=self._partition,
            changelog_records=records,
            next_offset=processor.next_offset,
            open_transactions=processor.status().open_transactions,
            restore_ms=self.restore_ms,
        )
