"""Rows of a task: all acknowledged, in order and whole, or the task says which was not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from pipeline.row_producer import RowProducer
from tidegate.errors import DeliveryError
from tidegate.processor.batch import OutputRecord

_WAIT_S = 20.0


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    """A broker inside of librdkafka, whose topics have four partitions."""
    owner = Producer({"test.mock.num.brokers": 1})
    (found,) = owner.list_topics(timeout=_WAIT_S).brokers.values()
    yield f"{found.host}:{found.port}"
    del owner


def _row(number: int, partition: int = 0) -> OutputRecord:
    headers = [("tidegate-source", b"1/%d/0" % number)]
    return OutputRecord("rows", partition, b"key", b"%d" % number, 1_000 + number, headers)


def test_acknowledged_rows_are_there_in_order_with_their_times_and_headers(broker: str) -> None:
    producer = RowProducer({"bootstrap.servers": broker})
    producer.send(map(_row, range(1_000)))
    producer.acknowledge()
    consumer = Consumer({"bootstrap.servers": broker, "group.id": "unused"})
    try:
        consumer.assign([TopicPartition("rows", 0, 0)])
        found = consumer.consume(1_000, _WAIT_S)
    finally:
        consumer.close()
    assert [
        OutputRecord(m.topic(), m.partition(), m.key(), m.value(), m.timestamp()[1], m.headers())
        for m in found
    ] == list(map(_row, range(1_000)))


def test_a_row_that_is_refused_is_named_though_no_others_are_told_of(broker: str) -> None:
    with pytest.raises(DeliveryError, match=r"A row for rows partition 99, key 6b6579, could not be deliv"):
        _deliver(broker, [_row(1), _row(2, partition=99), _row(3)])


def _deliver(broker: str, rows: Sequence[OutputRecord]) -> None:
    producer = RowProducer({"bootstrap.servers": broker})
    producer.send(rows)
    producer.acknowledge()
