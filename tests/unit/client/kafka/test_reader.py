"""A reader to an end that was told, behind a broker that tells another one for a moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import KafkaError

from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.reader import PartitionReader
from tidegate.errors import RetryError
from tidegate.verify import TopicPartition

_PLACE = TopicPartition("rows", 0)


class Message:
    """A record of the partition, or its end."""

    def __init__(self, offset: int, *, end: bool = False, error: int | None = None) -> None:
        self._offset = offset
        self._error = KafkaError._PARTITION_EOF if end else error

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
        return None if self._error is None else KafkaError(self._error)


class Told:
    """A consumer of a partition that is told so: each list comes at once."""

    def __init__(self, polls: Sequence[list[Message]]) -> None:
        self._polls = list(polls)

    def consume(self, _: int, timeout: float) -> list[Message]:
        return self._polls.pop(0) if self._polls else []

    def assign(self, _: object) -> None: ...

    def incremental_unassign(self, _: object) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Connection(KafkaConnection):
    """A connection to a broker that tells these, one after the other."""

    polls: tuple[list[Message], ...] = ()

    def open(self, client: Any, more: Mapping[str, Any] = {}) -> Any:
        return Told(self.polls)


def test_all_records_below_the_end_are_read() -> None:
    """The partition ended at 4. Its new leader says 2 until it has heard of the rest."""
    told = Connection(polls=([Message(0), Message(1)], [Message(2, end=True)], [Message(2), Message(3)]))
    with PartitionReader(told, {_PLACE: 0}) as reader:
        assert [record.offset for record in reader.read_to({_PLACE: 4})] == [0, 1, 2, 3]


def test_an_error_between_records_is_told_behind_those_before_it_and_loses_none() -> None:
    """A reader of the jobs topic that passed over one would begin a feed at an older high-water."""
    damaged = Message(2, error=KafkaError._BAD_COMPRESSION)
    told = Connection(polls=([Message(0)], [Message(1), damaged, Message(3)], [Message(4)]))
    with PartitionReader(told, {_PLACE: 0}) as reader:
        assert [record.offset for record in reader.poll()] == [0, 1]
        with pytest.raises(RetryError):
            reader.poll()
        assert [record.offset for record in reader.poll()] == [3]
        assert [record.offset for record in reader.poll()] == [4]
        assert reader.positions == {_PLACE: 5}
