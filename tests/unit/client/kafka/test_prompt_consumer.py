"""Partitions read from their beginnings by a consumer that asks where these are, on a real broker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError, TopicPartition

from stack.kafka import KafkaBroker
from tests.unit.client.topics import create_topic, delete_before, write
from tidegate.client.kafka import prompt_consumer
from tidegate.client.kafka.prompt_consumer import PromptConsumer
from tidegate.verify import TopicRecord

_WAIT_S = 30.0
_PATIENCE_S = 60.0


@contextmanager
def reader(bootstrap: str) -> Iterator[PromptConsumer]:
    config: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": "none",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
    }
    with closing(PromptConsumer(config)) as consumer:
        yield consumer


def assigned(consumer: PromptConsumer) -> dict[tuple[str, int], int]:
    return {(place.topic, place.partition): place.offset for place in consumer.assignment()}


def read_to_the_ends(consumer: PromptConsumer, partitions: int) -> dict[tuple[str, int], list[int]]:
    """The offsets that came of each partition, until so many are read to their ends."""
    offsets: dict[tuple[str, int], list[int]] = {}
    ends = 0
    while ends < partitions:
        message = consumer.poll(_WAIT_S)
        assert message is not None, "neither a record nor an end"
        if message.error() is None:
            offsets.setdefault((message.topic(), message.partition()), []).append(message.offset())
        else:
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            ends += 1
    return offsets


def three_records(bootstrap: str, topic: str, partitions: Sequence[int]) -> None:
    write(bootstrap, [TopicRecord(topic, number, -1, b"k", b"v", 0) for number in partitions] * 3)


@pytest.mark.broker
def test_each_partition_is_read_from_where_it_begins_or_from_the_offset_that_is_given(
    broker: KafkaBroker, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompt_consumer, "_ANSWER_S", _PATIENCE_S)
    topic = f"{topic_prefix}t"
    create_topic(broker.bootstrap, topic, 4)
    three_records(broker.bootstrap, topic, [0, 1, 2])
    delete_before(broker.bootstrap, topic, 1, 2)
    starts = [(0, OFFSET_BEGINNING), (1, OFFSET_BEGINNING), (2, 1), (3, OFFSET_BEGINNING)]
    with reader(broker.bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, number, offset) for number, offset in starts])
        assert assigned(consumer) == {(topic, 0): 0, (topic, 1): 2, (topic, 2): 1, (topic, 3): 0}
        found = read_to_the_ends(consumer, 4)
    assert found == {(topic, 0): [0, 1, 2], (topic, 1): [2], (topic, 2): [1, 2]}


@pytest.mark.broker
def test_a_partition_that_nobody_knows_is_left_to_librdkafka(
    broker: KafkaBroker, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompt_consumer, "_ANSWER_S", _PATIENCE_S)
    topic = f"{topic_prefix}t"
    create_topic(broker.bootstrap, topic)
    three_records(broker.bootstrap, topic, [0])
    with reader(broker.bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in (0, 7)])
        assert assigned(consumer) == {(topic, 0): 0, (topic, 7): OFFSET_BEGINNING}


def test_an_assignment_does_not_fail_for_a_broker_that_is_away() -> None:
    with reader("127.0.0.1:1") as consumer:
        consumer.assign([TopicPartition("t", 0, OFFSET_BEGINNING)])
        assert assigned(consumer) == {("t", 0): OFFSET_BEGINNING}
