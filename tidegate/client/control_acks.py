"""What log partitions have answered about feeds, as the topic of acknowledgements has it."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.changefeed.lifecycle.control import Ack, read_ack_record
from tidegate.client.foreign_records import foreign, report_foreign
from tidegate.client.kafka.cluster import Cluster
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.reader import PartitionReader
from tidegate.verify import TopicPartition


def read_acks(connection: KafkaConnection, topic: str, partitions: int) -> Iterator[Ack]:
    """All that readers see there now, of ``partitions`` log partitions; what is foreign is reported.

    Kafka answers a commit before readers see its records: what was committed just now may not be there yet.

    Raises ``BrokerUnavailable``, and ``StateError`` for records of a newer version.
    """
    place = TopicPartition(topic, 0)
    bounds = Cluster(connection).bounds([place])[place]
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
