"""Makes the results of one log partition durable: steps O1 and O2, and 5 to 7, of
docs/protocols/opening-a-partition.md."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from tidegate.changefeed.lifecycle.control import Ack, ack_key
from tidegate.client.kafka.topics import Topics
from tidegate.client.kafka.transaction import Record
from tidegate.processor.batch import PartitionCheckpoint, StateChange, StateTable, StepResult
from tidegate.processor.bounds import RecordBounds
from tidegate.processor.checkpoint import checkpoint_key, encode_checkpoint, split_checkpoint
from tidegate.processor.state.exchange_codec import encode_exchange
from tidegate.processor.state.position_hash import POSITION_KEY
from tidegate.raftlog.encode import partition_of
from tidegate.raftlog.request import encode_request
from tidegate.ranges.handoff import receiver_of
from tidegate.worker.kafka.topology import Topology
from tidegate.worker.kafka.transaction import WorkerTransactionalProducer
from tidegate.worker.process.machine import REAL, Machine
from tidegate.worker.process.settings import Settings
from tidegate.worker.state.changelog import Changelog, ChangelogReader, LocalCopy


class PartitionWriter:
    """The single writer of one log partition's state. Every method blocks; one thread at a time calls it."""

    def __init__(
        self,
        settings: Settings,
        topology: Topology,
        partition: int,
        copy: LocalCopy,
        machine: Machine = REAL,
    ) -> None:
        self._partition = partition
        self._bounds = RecordBounds(settings.max_record_bytes)
        self._partitions = topology.partitions
        self._copy = copy
        self._checkpoint_partitions = settings.checkpoint_partitions
        self._topics = Topics.of(settings)
        self._changelogs: Mapping[StateTable, Changelog] = {
            table: Changelog(table, topic, topology.topic_ids[topic])
            for table, topic in self._topics.changelogs().items()
        }
        self._open_reader = partial(
            ChangelogReader, settings, tuple(self._changelogs.values()), partition, machine
        )
        self._reader = self._open_reader()
        self._producer = WorkerTransactionalProducer(settings, f"{settings.app_id}-{partition}", machine)

    def open(self) -> int:
        """Fence the predecessor (O1), then bring the local copy up to date (O2).

        Returns how many rows the changelogs gave. Raises ``DeliveryError`` if the broker refuses to open the
        producer, and ``StateError`` if the changelogs cannot be read.
        """
        self._producer.open()
        return self._catch_up()

    def reopen(self) -> int:
        """Throw the local copy away, and read the changelogs from their beginning (O2 again).

        Nothing may have been committed since ``open``. Returns and raises what ``open`` does.
        """
        self._copy.clear()
        self._reader = self._open_reader()
        return self._catch_up()

    def require_owner(self) -> None:
        """Raise ``DeliveryError`` if a successor has fenced this writer since ``open``.

        What this writer has read from then on may be any mixture of states.
        """
        changelog = self._changelogs[StateTable.RANGES]
        self._producer.require_not_fenced(Record(changelog.topic, self._partition, POSITION_KEY, None))

    def abandon(self) -> None:
        """Make ``open`` and ``reopen`` end soon, or raise ``GivenUpError``. Another thread may call this.

        Nothing may be committed after that.
        """
        self._reader.abandon()
        self._producer.give_up()

    def commit(self, results: Sequence[StepResult]) -> None:
        """Commit the results without their rows (5, 6), then write the same changes to the local copy (7).

        The rows must have been acknowledged before. Raises ``DeliveryError`` if nothing was committed. Raises
        ``StateError`` if the local copy cannot be written; the results are committed then.
        """
        records = [record for result in results for record in self._records(result)]
        if not records:
            return
        ends = self._producer.commit(records)
        changes = (change for result in results for change in result.changes)
        self._copy.write(changes, self._positions(ends), time.time_ns() // 1_000_000)

    def close(self) -> None:
        """Close the connections."""
        self._producer.close()

    def _catch_up(self) -> int:
        try:
            return self._reader.catch_up(self._copy)
        finally:
            self._reader.close()

    def _records(self, result: StepResult) -> Iterator[Record]:
        for change in result.changes:
            yield self._state_record(change)
        if result.checkpoint is not None:
            yield from self._checkpoint_records(result.checkpoint)
        for ack in result.acks:
            yield self._ack_record(ack)
        for message in result.exchanges:
            partition = partition_of(receiver_of(message), self._partitions)
            yield Record(self._topics.hand_offs, partition, *encode_exchange(message, self._bounds))
        for request in result.requests:
            yield Record(self._topics.requests, self._partition, *encode_request(request))

    def _state_record(self, change: StateChange) -> Record:
        return Record(self._changelogs[change.table].topic, self._partition, change.key, change.value)

    def _checkpoint_records(self, checkpoint: PartitionCheckpoint) -> Iterator[Record]:
        key = checkpoint_key(self._partition)
        for piece in split_checkpoint(checkpoint, self._bounds):
            value = encode_checkpoint(piece)
            for number in range(self._checkpoint_partitions):
                yield Record(self._topics.checkpoints, number, key, value)

    def _ack_record(self, ack: Ack) -> Record:
        return Record(self._topics.control_acks, 0, ack_key(ack), ack.to_bytes())

    def _positions(self, ends: Mapping[tuple[str, int], int]) -> dict[StateTable, tuple[str, int]]:
        return {
            table: (changelog.topic_id, ends[changelog.topic, self._partition])
            for table, changelog in self._changelogs.items()
            if (changelog.topic, self._partition) in ends
        }
