"""A producer that is fenced amid a transaction ends it by the sentence that says so."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from tidegate.client.transaction import Record, TransactionalProducer
from tidegate.errors import DeliveryError


class Fenced:
    """librdkafka's producer behind another one of its id: ``produce`` tells only that all is over."""

    def begin_transaction(self) -> None:
        """It has not heard of it yet."""

    def produce(self, *_: Any) -> None:
        raise KafkaException(KafkaError(KafkaError._FATAL, "Local: Fatal error"))

    def commit_transaction(self, _: float) -> None:
        raise KafkaException(KafkaError(KafkaError._FENCED, "fenced", fatal=True))


def test_who_is_fenced_before_a_record_is_told_of_the_successor() -> None:
    producer = TransactionalProducer(Fenced(), "app-0", 1_000_000)
    with pytest.raises(DeliveryError, match=r"Another worker has taken over app-0"):
        producer.commit([Record("topic", 0, b"key", b"value")])
