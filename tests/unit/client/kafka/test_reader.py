"""A reader to an end that was told, behind a broker that tells another one for a moment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError

from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.reader import PartitionReader
from tidegate.verify import TopicPartition

_PLACE = TopicPartition("rows", 0)


class Message:
    """A record of the partition, or its end."""

    def __init__(self, offset: int, *, end: bool = False) -> None:
        self._offset = offset
        self._end = end

    def topic(self) -> str:
        return _PLACE.topic

    def partition(self) -> int:
        return _PLACE.partition

    def offset(self) -> int:
        return self._offset

    def key(self) -> bytes:
        return b"key"

    def value(self) -> bytes:
        return b"value"

    def timestamp(self) -> tuple[int, int]:
        return 1, 0

    def headers(self) -> None:
        return None

    def error(self) -> KafkaError | None:
        return KafkaError(KafkaError._PARTITION_EOF) if self._end else None


class NewLeader:
    """A consumer of a partition that ended at 4: its new leader says 2 until it has heard of the rest."""

    def __init__(self) -> None:
        self._polls = [[Message(0), Message(1)], [Message(2, end=True)], [Message(2), Message(3)]]

    def consume(self, _: int, timeout: float) -> list[Message]:
        return self._polls.pop(0) if self._polls else []

    def assign(self, _: object) -> None: ...

    def incremental_unassign(self, _: object) -> None: ...

    def close(self) -> None: ...


class Connection(KafkaConnection):
    """A connection to that leader."""

    def open(self, client: Any, more: Mapping[str, Any] = {}) -> Any:
        return NewLeader()


def test_all_records_below_the_end_are_read() -> None:
    with PartitionReader(Connection(), {_PLACE: 0}) as reader:
        assert [record.offset for record in reader.read_to({_PLACE: 4})] == [0, 1, 2, 3]
