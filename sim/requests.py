"""The requests topic as the store reads it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from tidegate.errors import MalformedEntry
from tidegate.raftlog.request import Push, decode_request

_AT_ONCE: Final = 500


class PushSource(Protocol):
    """Gives the pushes that have come in."""

    def read(self) -> Sequence[Push]:
        """The pushes since the last call, without waiting for any."""


class NoPushes:
    """A source that nobody writes to."""

    def read(self) -> Sequence[Push]:
        """See ``PushSource``."""
        return ()


class KafkaRequests:
    """Reads the requests topic from its start; ``refused`` counts records that are no push."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.refused = 0
        # The group is never joined and nothing is committed: a store answers what it finds.
        config = {"bootstrap.servers": bootstrap, "group.id": topic, "enable.auto.commit": False}
        self._consumer = Consumer(config)
        self._consumer.assign(
            [TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(partitions)]
        )

    def read(self) -> Sequence[Push]:
        """See ``PushSource``."""
        pushes = []
        for message in self._consumer.consume(_AT_ONCE, timeout=0):
            if message.error() is not None:
                continue  # librdkafka retries by itself; a push that is lost is sent again
            push = self._push(message.value())
            if push is None:
                self.refused += 1
            else:
                pushes.append(push)
        return pushes

    def close(self) -> None:
        """Stop reading."""
        self._consumer.close()

    def _push(self, value: bytes | None) -> Push | None:
        try:
            request = decode_request(value or b"")
        except MalformedEntry:
            return None
        return request if isinstance(request, Push) else None
