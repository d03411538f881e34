"""Reads the answers of log partitions about feeds from the topic of acknowledgements."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.changefeed.lifecycle.control import Ack, read_ack_record
from tidegate.client.foreign_records import foreign, report_foreign
from tidegate.client.kafka.cluster import Bounds, Cluster
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.reader import PartitionReader
from tidegate.verify import TopicPartition


def read_acks(connection: KafkaConnection, topic: str, partitions: int) -> Iterator[Ack]:
    """Yield all acknowledgements that committed readers see now. Foreign records are reported and passed
    over.

    ``partitions`` is the number of log partitions.

    Kafka confirms a commit before readers see its records. So a record that was committed just now may be
    missing here; ``AcksUntilNow`` misses none. Raises ``BrokerUnavailable``, and ``StateError`` for records
    of a newer version.
    """
    place = TopicPartition(topic, 0)
    yield from _read(connection, place, Cluster(connection).bounds([place])[place], partitions)


class AcksUntilNow:
    """Reads all acknowledgements that were committed before this object was made.

    ``partitions`` is the number of log partitions.

    The constructor and ``read`` raise as ``read_acks`` does.
    """

    def __init__(self, connection: KafkaConnection, topic: str, partitions: int) -> None:
        self._connection = connection
        self._place = TopicPartition(topic, 0)
        self._partitions = partitions
        self._cluster = Cluster(connection)
        self._end = self._cluster.uncommitted_ends([self._place])[self._place]

    def read(self) -> list[Ack] | None:
        """Return all acknowledgements that are readable now, if they include all from before this object was
        made.

        Otherwise returns ``None``: a transaction that was open when the object was made has not ended yet.
        This call does not wait for its end.
        """
        bounds = self._cluster.bounds([self._place])[self._place]
        if bounds.end < self._end:
            return None
        return list(_read(self._connection, self._place, bounds, self._partitions))


def _read(
    connection: KafkaConnection, place: TopicPartition, bounds: Bounds, partitions: int
) -> Iterator[Ack]:
    if bounds.low == bounds.end:
        return
    with PartitionReader(connection, {place: bounds.low}) as reader:
        for record in reader.read_to({place: bounds.end}):
            if record.value is not None:
                try:
                    ack = read_ack_record(record.key, record.value, partitions)
                except Exception as error:
                    report_foreign(record, foreign(error))
                else:
                    yield ack
