"""Reads output topics to their end, for the audit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tidegate.client.kafka.cluster import Bounds, Cluster, partitions_of
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.reader import PartitionReader
from tidegate.verify import TopicPartition, TopicRecord


@dataclass(frozen=True, slots=True)
class OutputTopics:
    """Output topics at one moment: their partition counts, and the offsets at which each partition begins and
    ends.

    The bounds of a ``resolved_topic`` are asked for before those of the other topics. So what its markers say
    of the other topics was already true when the bounds of these were asked for. ``compacted`` names the
    topics that lose a key's older rows; only a feed with a ``resolved_topic`` may have such topics.
    ``settled`` has the ends of the partitions as they were before ``bounds`` was asked for. Each broker tells
    the ends of its own partitions.
    """

    connection: KafkaConnection
    counts: dict[str, int]
    bounds: dict[TopicPartition, Bounds]
    resolved_topic: str = ""
    compacted: frozenset[str] = frozenset()
    settled: Mapping[TopicPartition, int] = field(default_factory=dict)

    @classmethod
    def now(
        cls, connection: KafkaConnection, topics: Iterable[str], resolved_topic: str = ""
    ) -> OutputTopics:
        """Return the topics of rows and the ``resolved_topic`` as they are now.

        Raises ``InputError`` for a topic that does not exist.
        """
        cluster = Cluster(connection)
        rows = [topic for topic in topics if topic != resolved_topic]
        counts = cluster.partition_counts([*rows, resolved_topic] if resolved_topic else rows)
        bounds: dict[TopicPartition, Bounds] = {}
        settled = cluster.ends(partitions_of(counts))
        for first_or_second in ([resolved_topic] if resolved_topic else [], rows):
            places = partitions_of({topic: counts[topic] for topic in first_or_second})
            bounds |= cluster.bounds(places) if places else {}
        compacted = cluster.compacted(rows) if resolved_topic and rows else frozenset[str]()
        return cls(connection, counts, bounds, resolved_topic, compacted, settled)

    @property
    def truncated(self) -> frozenset[TopicPartition]:
        """The partitions whose beginning has been deleted."""
        return frozenset(place for place, bounds in self.bounds.items() if bounds.low > 0)

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """The offset at which each partition of the row topics ended."""
        return {place: each.end for place, each in self.bounds.items() if place.topic != self.resolved_topic}

    def records(self) -> Iterator[TopicRecord]:
        """Yield every committed record up to that moment, in offset order for each partition.

        If markers have a topic of their own, they come before all other records.
        """
        yield from self._read(self.bounds.keys() - self.ends.keys())
        yield from self._read(self.ends.keys())

    def _read(self, places: Iterable[TopicPartition]) -> Iterator[TopicRecord]:
        filled = {place: self.bounds[place] for place in places}
        filled = {place: bounds for place, bounds in filled.items() if bounds.low < bounds.end}
        if not filled:
            return
        starts = {place: bounds.low for place, bounds in filled.items()}
        with PartitionReader(self.connection, starts) as reader:
            yield from reader.read_to({place: bounds.end for place, bounds in filled.items()})
