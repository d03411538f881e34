"""The requests topic, as the store reads it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, TypeAlias

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from tidegate.errors import MalformedEntry
from tidegate.raftlog.request import AdminRequest, RangeRequest, decode_request

_AT_ONCE: Final = 500


Request: TypeAlias = RangeRequest | AdminRequest


class RequestSource(Protocol):
    """Returns the requests that have come."""

    def read(self) -> Sequence[Request]:
        """Return the requests since the last call, without waiting for any."""


class KafkaRequests:
    """Reads the requests topic from its start. ``refused`` counts records that are no requests."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.refused = 0
        # The group is never joined and nothing is committed, since a store answers all requests that it
        # finds.
        config = {"bootstrap.servers": bootstrap, "group.id": topic, "enable.auto.commit": False}
        self._consumer = Consumer(config)
        self._consumer.assign(
            [TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(partitions)]
        )

    def read(self) -> Sequence[Request]:
        """See ``RequestSource``."""
        requests = []
        for message in self._consumer.consume(_AT_ONCE, timeout=0):
            if message.error() is not None:
                continue  # librdkafka retries by itself, and a lost request is sent again
            request = _decode(message.value())
            if request is None:
                self.refused += 1
            else:
                requests.append(request)
        return requests

    def close(self) -> None:
        """Stop reading."""
        self._consumer.close()


def _decode(value: bytes | None) -> Request | None:
    try:
        return decode_request(value or b"")
    except MalformedEntry:
        return None
