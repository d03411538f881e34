"""The jobs topic as a query's driver uses it: it reads all records from the first one on, and writes some."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from threading import Lock
from typing import Final

from confluent_kafka import Producer

from tidegate.changefeed.lifecycle.job_records import JobRecord
from tidegate.changefeed.lifecycle.jobs import JobsView
from tidegate.client.jobs import JobsReading
from tidegate.client.kafka.cluster import Cluster
from tidegate.client.kafka.cluster_watch import ClusterWatch
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.reader import PartitionReader
from tidegate.client.kafka.topic_admin import TopicAdmin
from tidegate.client.kafka.topics import Topics
from tidegate.client.kafka.transaction import (
    TRANSACTION_TIMEOUT_MS,
    Record,
    TransactionalProducer,
    transactional,
)
from tidegate.errors import RetryError
from tidegate.verify import TopicPartition

#: The name by which an application's only query writes.
QUERY: Final = "spark-jobs"
_LIMIT_BYTES: Final = 1_000_000
_OTHERS_S: Final = 15.0


class JobsTopic:
    """The jobs topic of an application, with its feeds as of the last reading.

    Opening it fences every earlier process that wrote by the same name, ``writer``. Any thread may write. One
    thread reads, and no other thread uses this object meanwhile.
    """

    def __init__(
        self, connection: KafkaConnection, topics: Topics, admin: TopicAdmin, writer: str = QUERY
    ) -> None:
        place = TopicPartition(topics.jobs, 0)
        bounds = Cluster(connection).bounds([place])[place]
        self.name = topics.jobs
        self._admin = admin
        self._reader = PartitionReader(connection, {place: bounds.low})
        self._reading = JobsReading(self._reader, bounds.end)
        self.writer = open_producer(connection, f"{topics.app_id}-{writer}")
        self._writing = Lock()

    @property
    def view(self) -> JobsView:
        """The feeds as of the last reading."""
        return self._reading.view

    def read(self) -> None:
        """Take in the records that have come. Raises ``StateError`` for records of a newer version."""
        self._reading.poll(0)
        while not self._reading.complete:
            self._reading.poll()

    def read_to_end(self) -> None:
        """Read all that stands on the topic now. Transactions that are open now are waited for.

        Raises ``RetryError`` when a transaction stays open for long: its writer died, and has to be started
        again, or Kafka has to abort the transaction.
        """
        place = (self.name, 0)
        end = self._admin.ends([place])[place]
        if not self._reading.read_to(end, _OTHERS_S):
            raise RetryError(
                f"Somebody has begun to write to {self.name} and does not go on: a worker, or another query, "
                "that died. Start it again, or wait until Kafka gives its transaction up, after "
                f"{TRANSACTION_TIMEOUT_MS // 1000} s."
            )

    def store(self, *records: JobRecord) -> None:
        """Write the records in one transaction; the view has them afterwards."""
        if not records:
            return
        written = [(record.key, record.to_bytes()) for record in records]
        with self._writing:
            self.writer.commit([Record(self.name, 0, key, value) for key, value in written])
            for key, value in written:
                self.view.apply(key, value)

    def commit(self, records: Sequence[Record]) -> None:
        """Write records to other topics of the application."""
        with self._writing:
            self.writer.commit(records)

    def give_up(self) -> None:
        """Make a call that waits for a broker, and all later ones, raise ``GivenUpError``."""
        self.writer.give_up()

    def close(self) -> None:
        """Close the clients."""
        self.writer.close()
        self._reader.close()


def open_producer(connection: KafkaConnection, transactional_id: str) -> TransactionalProducer:
    """Return an open producer, which has fenced every earlier producer of its transactional id."""
    opened = new_producer(connection, transactional_id)
    opened.open()
    return opened


def new_producer(connection: KafkaConnection, transactional_id: str) -> TransactionalProducer:
    """Return a producer that is not open yet."""
    watch = ClusterWatch(logging.getLogger("tidegate.kafka"))
    config = {**transactional(transactional_id, _LIMIT_BYTES), "logger": watch}
    producer = connection.open(Producer, config)
    return TransactionalProducer(producer, transactional_id, _LIMIT_BYTES, watch)
