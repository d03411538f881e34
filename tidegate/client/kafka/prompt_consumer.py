"""A consumer of librdkafka that does not rest for half a second before it reads from a beginning.

When librdkafka has to read a partition from its beginning, it asks immediately where that is. But it does not
know the partition's leader yet, and asks again 500 ms later. So it takes 0.7 s to read nine empty partitions
to their ends, and 0.1 s if their beginnings are asked for first (librdkafka 2.16).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

_ANSWER_S: Final = 2.0


class PromptConsumer(Consumer):  # type: ignore[misc]  # confluent_kafka has no types
    """A ``Consumer`` whose ``assign`` asks for beginnings, in one request to each broker."""

    def assign(self, partitions: Sequence[TopicPartition]) -> None:
        """Read these partitions and no others.

        Waits up to two seconds for the beginnings of those at ``OFFSET_BEGINNING``. A beginning that no
        broker names in that time is left to librdkafka.
        """
        begun = self._beginnings([place for place in partitions if place.offset == OFFSET_BEGINNING])
        super().assign([begun.get((place.topic, place.partition), place) for place in partitions])

    def _beginnings(self, places: list[TopicPartition]) -> dict[tuple[str, int], TopicPartition]:
        if not places:
            return {}
        try:
            # Kafka's protocol takes -2, which is OFFSET_BEGINNING, for a time: that of the first record.
            found = self.offsets_for_times(places, timeout=_ANSWER_S)
        except KafkaException:
            return {}
        return {
            (place.topic, place.partition): TopicPartition(place.topic, place.partition, place.offset)
            for place in found
            if place.error is None and place.offset >= 0
        }
