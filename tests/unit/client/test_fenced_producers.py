"""A transactional producer that another one of its id has shut out, at either end of a transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer

from stack.kafka import KafkaBroker
from tests.unit.client.topics import create_topic
from tidegate.client.connection import KafkaConnection
from tidegate.client.transaction import Record, TransactionalProducer, transactional
from tidegate.errors import DeliveryError

pytestmark = pytest.mark.broker

_LIMIT = 1_000_000


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
