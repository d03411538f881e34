"""Writes single records that must be durable before the caller goes on."""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaError, Producer

from tidegate.client.kafka.connection import KafkaConnection
from tidegate.verify import TopicPartition


def write_record(connection: KafkaConnection, place: TopicPartition, key: bytes, value: bytes) -> None:
    """Write one record; return when all in-sync replicas have it.

    Raises ``BrokerUnavailable`` when that is not confirmed in time; the record may have been written all the
    same. Raises ``InputError`` when the broker refuses it.
    """
    outcome: list[KafkaError | None] = []

    def delivered(error: KafkaError | None, _: Any) -> None:
        outcome.append(error)

    doing = f"writing to {place}"
    timeout_ms = int(connection.timeout_s * 1000)
    producer = connection.open(Producer, {"enable.idempotence": True, "message.timeout.ms": timeout_ms})
    with connection.asking(doing):
        # An idempotent producer asks for its id at once, and again after 500 ms if no connection stands yet.
        producer.list_topics(place.topic, timeout=connection.timeout_s)
        producer.produce(place.topic, value, key, place.partition, on_delivery=delivered)
        producer.flush(connection.timeout_s + 1)
    if not outcome:
        raise connection.away(doing)
    if outcome[0] is not None:
        raise connection.failed(doing, outcome[0])
