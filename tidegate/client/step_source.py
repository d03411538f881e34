"""Reads a step of an application's engine again: the state of a log partition, and the records after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import takewhile

from tidegate.changefeed.definition.feed import FeedState
from tidegate.changefeed.lifecycle.control import Activate
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.client.foreign_records import foreign, report_foreign
from tidegate.client.jobs import Jobs
from tidegate.client.kafka.cluster import Cluster
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.log_reader import LogBegin, read_log
from tidegate.client.kafka.reader import PartitionReader
from tidegate.client.kafka.topics import Topics
from tidegate.errors import InputError, StateError
from tidegate.processor.batch import ExchangeRecord
from tidegate.processor.state.exchange_codec import read_exchange_record
from tidegate.processor.state.row_shape import is_shaped
from tidegate.raftlog.entry import Offset
from tidegate.replay.written_step import StateBefore, StateRows, StepRecord, WrittenStep
from tidegate.verify import TopicPartition, TopicRecord


@dataclass(frozen=True, slots=True)
class StepSource:
    """Log partition ``partition`` of an application.

    While the state before a step is built, ``on_batch`` is called now and then with the offset that was
    reached.

    Its methods raise ``BrokerUnavailable``, and ``InputError`` for topics, partitions and offsets that do not
    exist.
    """

    connection: KafkaConnection
    topics: Topics
    partition: int
    on_batch: Callable[[int], object] = lambda _: None

    def from_log(self, first: int, count: int) -> WrittenStep:
        """Return the step of the records at ``count`` offsets, from ``first`` on.

        The state before the step is built from the log's beginning, with the feeds that the application runs
        now. It lacks two things that an engine's state has: feeds that have ended, and hand-offs that were
        compacted away. Raises ``StepBroke`` for a record below ``first`` that breaks the step.
        """
        partitions = self._partitions()
        before = StateBefore(self.partition, partitions)
        before.begin(list(self._feeds()), list(self._exchanges()))
        return self._step(before, partitions, first, count)

    def from_stored(self, first: int | None, count: int) -> WrittenStep:
        """Return the step of the records at ``count`` offsets, from ``first`` on.

        The state before the step is the one that the application's workers have stored. By default ``first``
        is the offset at which that state goes on. The workers must not run meanwhile. Raises ``StateError``
        for stored rows that do not belong together, and ``InputError`` if the stored state has passed
        ``first``.
        """
        partitions = self._partitions()
        try:
            before = StateBefore(self.partition, partitions, self._stored_rows())
        except StateError as torn:
            raise StateError(
                f"{torn} If workers of {self.topics.app_id} run, stop them first: the rows that were read "
                "here are of several moments"
            ) from torn
        stored = before.reached
        if first is not None and first < stored:
            raise InputError(
                f"The stored state of log partition {self.partition} has passed offset {first}: it goes on "
                f"at {stored}. Begin there, or leave --stored out, so that the state is built from the log"
            )
        return self._step(before, partitions, stored if first is None else first, count)

    def _partitions(self) -> int:
        count = Cluster(self.connection).partition_counts([self.topics.log])[self.topics.log]
        if not 0 <= self.partition < count:
            raise InputError(
                f"Topic {self.topics.log} has {count} partitions; there is no partition {self.partition}."
            )
        return count

    def _step(self, before: StateBefore, partitions: int, first: int, count: int) -> WrittenStep:
        before.read(self._records(before.next_offset, first), self.on_batch)
        reads_from = before.reads_from()
        records = tuple(self._records(reads_from, first + count))
        if not records or records[-1].offset < first:
            raise InputError(
                f"{self.topics.log}[{self.partition}] has no record from offset {first} on, within {count} "
                "offsets: there is nothing to step"
            )
        return WrittenStep(self.partition, partitions, first, before.rows, records)

    def _records(self, first: int, end: int) -> Iterator[StepRecord]:
        """Yield the log's records from ``first`` to below ``end``."""
        if first >= end:
            return
        begin = LogBegin() if first == 0 else LogBegin(offset=first)
        records = read_log(self.connection, self.topics.log, begin, partitions=[self.partition])
        try:
            for each in takewhile(lambda record: record.offset < end, records):
                yield StepRecord(each.offset, each.key, each.value, each.timestamp_ms)
        finally:
            records.close()

    def _feeds(self) -> Iterator[Activate]:
        if not Cluster(self.connection).existing([self.topics.jobs]):
            return
        for _, feed in Jobs(self.connection, self.topics.app_id).view().feeds():
            if (active := _activation(feed)) is not None:
                yield active

    def _exchanges(self) -> Iterator[ExchangeRecord]:
        for record in self._compacted(self.topics.hand_offs):
            if record.value is None:
                continue
            try:
                message = read_exchange_record(record.key, record.value)
            except Exception as error:
                report_foreign(record, foreign(error))
            else:
                yield ExchangeRecord(Offset(record.offset), message)

    def _stored_rows(self) -> StateRows:
        rows: StateRows = {}
        for table, topic in self.topics.changelogs().items():
            for record in self._compacted(topic):
                if record.key is None or not is_shaped(table, record.key, record.value):
                    continue  # a worker reports it, and passes it over
                if record.value is None:
                    rows.pop((table, record.key), None)
                else:
                    rows[table, record.key] = record.value
        return rows

    def _compacted(self, topic: str) -> Iterator[TopicRecord]:
        """Yield all records of this partition in a topic of the application, if there is such a topic."""
        place = TopicPartition(topic, self.partition)
        cluster = Cluster(self.connection)
        if not cluster.existing([topic]):
            return
        bounds = cluster.bounds([place])[place]
        if bounds.low < bounds.end:
            with PartitionReader(self.connection, {place: bounds.low}) as reader:
                yield from reader.read_to({place: bounds.end})


def _activation(feed: FeedView) -> Activate | None:
    """Return the message by which log partitions were told of a feed that runs; ``None`` for any other
    feed."""
    if feed.status is not FeedState.RUNNING or feed.definition is None or feed.beginning is None:
        return None
    if feed.beginning.start is None:
        return None
    return Activate(feed.definition, feed.beginning.start, feed.targets)
