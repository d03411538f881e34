"""Consumers of the worker's own, which read outside of the group, and what they make of errors."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException

from tidegate.client.kafka.topic_admin import broker_is_away
from tidegate.errors import StateError
from tidegate.worker.kafka.clients import librdkafka_config
from tidegate.worker.process.machine import REAL, Machine
from tidegate.worker.process.settings import Settings

#: Nobody answered: the same question is worth asking again.


def open_reader(settings: Settings, name: str, machine: Machine = REAL, **options: Any) -> Consumer:
    """A consumer without a group that tells of ends of partitions; ``options`` with ``_`` for ``.``."""
    return machine.consumer(
        librdkafka_config(settings)
        | {
            "group.id": f"{settings.app_id}-{name}",  # required, never joined
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
        | {option.replace("_", "."): value for option, value in options.items()}
    )


def is_record(message: Any) -> bool:
    """Whether the message is a record, and not an error or an end."""
    return message.error() is None


def is_end(message: Any) -> bool:
    """Whether the message says that its partition is read to the end, which is then its offset."""
    error: KafkaError | None = message.error()
    return error is not None and error.code() == KafkaError._PARTITION_EOF  # noqa: SLF001 - as above


def trouble(message: Any, read: str) -> str | None:
    """What librdkafka complains of while it waits for the broker; ``None`` for records and ends.

    Raises ``StateError`` when waiting is no use; ``read`` says what cannot be read then.
    """
    if is_record(message) or is_end(message):
        return None
    error: KafkaError = message.error()
    if broker_is_away(error):
        return str(error.str())
    raise StateError(
        f"{read} cannot be read: {error.str()}. The worker ends; check that it exists and that this user may "
        "read it"
    ) from KafkaException(error)
