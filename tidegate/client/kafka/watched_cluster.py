"""Reads a Kafka cluster whose address may come to mean another one.

One client does all the reading, and notices such a change.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import confluent_kafka

from tidegate.client.kafka.cluster import Bounds
from tidegate.client.kafka.cluster_watch import ClusterWatch
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.reader import PartitionReader
from tidegate.errors import RetryError
from tidegate.verify import TopicPartition, TopicRecord

_LOGGER: Final = logging.getLogger("tidegate.kafka")


class WatchedCluster:
    """The Kafka cluster that answers at the address of ``connection``. Close it.

    ``id`` is the id that the cluster answered first; the question names ``topic``. Any other answer of the
    cluster counts only if `require_same` is called after it and returns: see `the_same`.

    Every method waits for a bounded time. It raises ``BrokerUnavailable``, a ``RetryError``, if no broker has
    answered by then, and ``InputError`` if one refuses, or has deleted records that were to be read.
    `require_same` and `the_same` raise ``RetryError`` once another cluster was seen.
    """

    def __init__(self, connection: KafkaConnection, topic: str) -> None:
        self.connection = connection
        self._topic = topic
        self._watch = ClusterWatch(_LOGGER)
        self._reader = PartitionReader(connection, {}, self._watch)
        try:
            self._ask()
        except BaseException:
            self.close()
            raise
        self.id = self._watch.cluster_id

    @contextmanager
    def the_same(self) -> Iterator[None]:
        """Compare the cluster before and after the questions inside, even if one of them fails.

        Raises ``RetryError`` as `require_same` does, in place of an error that an answer of the other cluster
        may have caused.
        """
        self.require_same()
        try:
            yield
        finally:
            self.require_same()

    def require_same(self) -> None:
        """Require that all answers so far were from the cluster ``id``, and that it answers now.

        The question comes after all others. Then the client's notices from before that answer are taken in:
        each new connection tells its cluster. Raises ``RetryError`` once another cluster was seen.
        """
        self._reader.assign({})
        self._ask()
        self._reader.take_notices()
        if self._watch.has_changed:
            raise RetryError(
                f"The address {self.connection.bootstrap_servers} has answered for the Kafka cluster "
                f"{self.id}, and for another one meanwhile: nothing was changed. Wait until it means one "
                "cluster wherever it is resolved, then try again."
            )

    def partition_counts(self, topics: Iterable[str]) -> dict[str, int]:
        """Return the partition count of those of the topics that the cluster has."""
        with self.connection.asking("listing topics"):
            known = self._reader.consumer.list_topics(timeout=self.connection.timeout_s).topics
        return {topic: len(known[topic].partitions) for topic in topics if topic in known}

    def bounds(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, Bounds]:
        """Return where each partition begins and ends now."""
        with self.connection.asking("asking where topics begin and end"):
            return {place: self._bounds(place) for place in places}

    def read(self, windows: Mapping[TopicPartition, Bounds]) -> Iterator[TopicRecord]:
        """Yield the records within each window as they come; partitions interleave."""
        self._reader.assign({place: each.low for place, each in windows.items()})
        return self._reader.read_to({place: each.end for place, each in windows.items()})

    def close(self) -> None:
        """Close the client."""
        self._reader.close()

    def _ask(self) -> None:
        if not self._watch.ask(self._reader.consumer, self._topic, self.connection.timeout_s):
            raise self.connection.away("asking for the id of the cluster", self._reader.last_error)

    def _bounds(self, place: TopicPartition) -> Bounds:
        asked = confluent_kafka.TopicPartition(*place)
        return Bounds(*self._reader.consumer.get_watermark_offsets(asked, timeout=self.connection.timeout_s))
