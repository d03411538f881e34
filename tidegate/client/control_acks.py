"""What log partitions have answered about feeds, as the topic of acknowledgements has it."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.changefeed.control import Ack, read_ack
from tidegate.client.cluster import Cluster
from tidegate.client.connection import KafkaConnection
from tidegate.client.reader import PartitionReader
from tidegate.verify import TopicPartition


def read_acks(connection: KafkaConnection, topic: str) -> Iterator[Ack]:
    """All that stand there now. Raises ``BrokerUnavailable``, and ``StateError`` for what is none."""
    place = TopicPartition(topic, 0)
    bounds = Cluster(connection).bounds([place])[place]
    if bounds.low == bounds.end:
        return
    with PartitionReader(connection, {place: bounds.low}) as reader:
        for record in reader.read_to({place: bounds.end}):
            if record.value is not None:
                yield read_ack(record.value)
