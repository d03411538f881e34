"""A record is read whatever its headers are called: by all that reads with librdkafka."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.producer import message_accumulator, producer
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy
from confluent_kafka import Producer

from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.reader import PartitionReader
from tidegate.verify import TopicPartition

_PLACE = TopicPartition("rows", 0)


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
    records: list[list[str]] = [[_Name("x")], ["a", _Name("x")], []]
    async with AIOKafkaProducer(bootstrap_servers=servers) as client:
        for number, names in enumerate(records, 1):
            headers = [(name, b"1") for name in names]
            await client.send_and_wait(_PLACE.topic, b"%d" % number, None, _PLACE.partition, headers=headers)


def test_a_header_whose_name_is_no_text_hides_no_record(
    mock_cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (producer, message_accumulator):  # in C they take no other names than texts
        monkeypatch.setattr(module, "DefaultRecordBatchBuilder", _DefaultRecordBatchBuilderPy)
    asyncio.run(_write_others(mock_cluster))
    with PartitionReader(KafkaConnection(mock_cluster, timeout_s=30), {_PLACE: 0}) as reader:
        read = [(record.value, record.headers) for record in reader.read_to({_PLACE: 4})]
    unreadable = (("\ufffd", None),)
    assert read == [
        (b"0", [("a", b"1"), ("b", None)]),
        (b"1", unreadable),
        (b"2", unreadable),
        (b"3", ()),
    ]
