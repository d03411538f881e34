"""A transactional producer that another one of its id has shut out, at either end of a transaction."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import cast
from weakref import ref

import pytest
from confluent_kafka import KafkaException, Producer

from stack.kafka import KafkaBroker
from tests.unit.client.topics import create_topic
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.transaction import Record, TransactionalProducer, transactional
from tidegate.errors import DeliveryError

pytestmark = pytest.mark.broker

_LIMIT = 1_000_000


class Seen(Producer):  # type: ignore[misc]  # confluent_kafka has no types
    """librdkafka's producer, to which a weak reference can be had."""


class Meanwhile(list[Record]):
    """Records of a commit; once the last of them was taken, something else happens."""

    def __init__(self, record: Record, happens: Callable[[], object]) -> None:
        super().__init__([record])
        self._happens = happens

    def __iter__(self) -> Iterator[Record]:
        yield from super().__iter__()
        self._happens()


@pytest.mark.parametrize("delivered", [False, True], ids=["before its records", "before its commit"])
def test_who_is_fenced_says_so_and_can_be_closed(
    broker: KafkaBroker, topic_prefix: str, delivered: bool
) -> None:
    topic, name = f"{topic_prefix}records", f"{topic_prefix}writer"
    create_topic(broker.bootstrap, topic)
    connection = KafkaConnection(broker.bootstrap)
    client = connection.open(Producer, transactional(name, _LIMIT))
    fenced, successor = TransactionalProducer(client, name, _LIMIT), opened_later(connection, name)
    record = Record(topic, 0, b"key", b"value")
    fenced.open()
    fenced.commit([record])

    def taken_over() -> None:
        if delivered:
            assert client.flush(30) == 0
        successor.open()

    with pytest.raises(DeliveryError, match=f"Another worker has taken over {name}"):
        fenced.commit(Meanwhile(record, taken_over))
    fenced.close()
    successor.commit([record])
    successor.close()


def opened_later(connection: KafkaConnection, name: str) -> TransactionalProducer:
    return TransactionalProducer(connection.open(Producer, transactional(name, _LIMIT)), name, _LIMIT)


def test_who_is_fenced_amid_its_records_leaves_no_client_behind(
    broker: KafkaBroker, topic_prefix: str
) -> None:
    """An exception that the client raises while another one of it is handled would hold on to it."""
    topic = f"{topic_prefix}records"
    create_topic(broker.bootstrap, topic)
    client = _fenced_amid_records(KafkaConnection(broker.bootstrap), topic, f"{topic_prefix}writer")
    gc.collect()
    assert client() is None


def _fenced_amid_records(connection: KafkaConnection, topic: str, name: str) -> ref[Producer]:
    client = connection.open(Seen, transactional(name, _LIMIT))
    fenced, successor = TransactionalProducer(client, name, _LIMIT), opened_later(connection, name)
    fenced.open()

    def records() -> Iterator[Record]:
        """More and more of them, until `produce` itself tells that another one has opened."""
        successor.open()
        for _ in range(100):
            yield Record(topic, 0, b"key", b"value")
            with suppress(KafkaException):
                client.flush(0.1)

    with pytest.raises(DeliveryError, match=f"Another worker has taken over {name}"):
        fenced.commit_once(cast("list[Record]", records()))
    fenced.close()
    successor.close()
    return ref(client)
