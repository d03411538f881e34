"""A record is read whatever its headers are called: by all that reads with librdkafka."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.producer import message_accumulator, producer
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy
from confluent_kafka import Consumer, Producer

from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.reader import PartitionReader
from tidegate.client.kafka.record_headers import headers_once
from tidegate.verify import TopicPartition

_PLACE = TopicPartition("rows", 0)
#: So often that Python has begun to call what it calls most in other ways.
_TIMES = 200


class _Name(str):
    """The name of a header, in other bytes than its own."""

    __slots__ = ()

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        return b"\xff\xfe"


@pytest.fixture
def mock_cluster() -> Iterator[str]:
    """The address of librdkafka's own broker."""
    client = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "mock", "log_level": 0})
    (broker,) = client.list_topics(timeout=10).brokers.values()
    client.produce(_PLACE.topic, b"0", partition=_PLACE.partition, headers=[("a", b"1"), ("b", None)])
    assert client.flush(10) == 0
    yield f"{broker.host}:{broker.port}"
    del client


async def _write_others(servers: str) -> None:
    records: list[list[str]] = [[_Name("x")], ["a", _Name("x")], []] * _TIMES
    async with AIOKafkaProducer(bootstrap_servers=servers) as client:
        sent = [
            await client.send(
                _PLACE.topic, b"", None, _PLACE.partition, headers=[(name, b"1") for name in names]
            )
            for names in records
        ]
        await asyncio.gather(*sent)


def _in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have aiokafka write records in Python: in C it takes no other names than texts."""
    for module in (producer, message_accumulator):
        monkeypatch.setattr(module, "DefaultRecordBatchBuilder", _DefaultRecordBatchBuilderPy)


def test_a_header_whose_name_is_no_text_hides_no_record(
    mock_cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _in_python(monkeypatch)
    asyncio.run(_write_others(mock_cluster))
    with PartitionReader(KafkaConnection(mock_cluster, timeout_s=30), {_PLACE: 0}) as reader:
        read = [record.headers for record in reader.read_to({_PLACE: 1 + 3 * _TIMES})]
    unreadable = (("\ufffd", None),)
    assert read == [[("a", b"1"), ("b", None)], *[unreadable, unreadable, ()] * _TIMES]


def test_a_message_may_be_asked_again_and_again(mock_cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client gives a list with a hole from the second time on."""
    _in_python(monkeypatch)
    asyncio.run(_write_others(mock_cluster))
    consumer = Consumer({"bootstrap.servers": mock_cluster, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.assign([confluent_kafka.TopicPartition(*_PLACE, 0)])
    messages: list[Any] = []
    while len(messages) < 4:
        messages += consumer.consume(4 - len(messages), timeout=1)
    headers = headers_once(messages)
    assert [repr(headers(at)) for at in range(4) for _ in range(3)] == [
        repr(each) for each in ([("a", b"1"), ("b", None)], *[(("\ufffd", None),)] * 2, ()) for _ in range(3)
    ]
    consumer.close()
