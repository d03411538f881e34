"""A Kafka cluster that has topics, ids and limits, and answers at once."""

from __future__ import annotations

from tidegate.client.kafka.topic_admin import TopicSpec
from tidegate.errors import RetryError


class Kafka:
    """Clusters that take turns at an address: each question goes to the one that is there then.

    ``meant`` are the ids that the address means, one after the other; the last one stays.
    """

    servers = "there:9092"

    def __init__(self, *meant: str, max_message_bytes: int = 6_000_000) -> None:
        self._meant = list(meant)
        self._max_message_bytes = max_message_bytes
        self.topics: dict[str, int] = {}
        self.written: set[str] = set()
        self.made_anew: set[str] = set()
        self.created_on: list[str] = []

    def cluster_id(self) -> str:
        if not self._meant:
            raise RetryError("Kafka at there:9092 gives no answer")
        return self._meant.pop(0) if len(self._meant) > 1 else self._meant[0]

    def partitions(self, topic: str) -> int | None:
        return self.topics.get(topic)

    def create_unless_there(self, spec: TopicSpec) -> int | None:
        if spec.name in self.topics:
            return self.topics[spec.name]
        self.topics[spec.name] = spec.partitions
        self.created_on.append(self._meant[0] if self._meant else "")
        return None

    def ids(self, names: list[str]) -> dict[str, str]:
        assert set(names) <= set(self.topics), "a broker would be asked again for half a minute"
        return {name: id_of(name) + ("-anew" if name in self.made_anew else "") for name in names}

    def is_empty(self, topic: str, partitions: int) -> bool:
        assert partitions == self.topics[topic]
        return topic not in self.written

    def config(self, topic: str) -> dict[str, str]:
        assert topic in self.topics, "a broker would be asked again for half a minute"
        return {"cleanup.policy": "delete", "max.message.bytes": str(self._max_message_bytes)}


def id_of(topic: str) -> str:
    """The id of a topic of such a cluster, unless it was made anew."""
    return f"id-of-{topic}"
