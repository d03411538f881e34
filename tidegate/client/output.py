"""Output topics read to their end, as the audit takes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tidegate.client.cluster import Bounds, Cluster, partitions_of
from tidegate.client.connection import KafkaConnection
from tidegate.client.reader import PartitionReader
from tidegate.verify import TopicPartition, TopicRecord


@dataclass(frozen=True, slots=True)
class OutputTopics:
    """Output topics at one moment: partition counts, and where each partition began and ended."""

    connection: KafkaConnection
    counts: dict[str, int]
    bounds: dict[TopicPartition, Bounds]

    @classmethod
    def now(cls, connection: KafkaConnection, topics: Iterable[str]) -> OutputTopics:
        """The topics as they are. ``InputError`` for one that does not exist."""
        cluster = Cluster(connection)
        counts = cluster.partition_counts(topics)
        return cls(connection, counts, cluster.bounds(partitions_of(counts)))

    @property
    def truncated(self) -> frozenset[TopicPartition]:
        """The partitions whose beginning has been deleted."""
        return frozenset(place for place, bounds in self.bounds.items() if bounds.low > 0)

    def records(self) -> Iterator[TopicRecord]:
        """Every committed record up to that moment, in offset order per partition."""
        filled = {place: bounds for place, bounds in self.bounds.items() if bounds.low < bounds.end}
        starts = {place: bounds.low for place, bounds in filled.items()}
        with PartitionReader(self.connection, starts) as reader:
            yield from reader.read_to({place: bounds.end for place, bounds in filled.items()})
