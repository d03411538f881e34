"""Opens consumers that read outside of the group, and distinguishes records from errors and ends."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException

from tidegate.client.kafka.topic_admin import broker_is_away
from tidegate.errors import StateError
from tidegate.worker.kafka.clients import librdkafka_config
from tidegate.worker.process.machine import REAL, Machine
from tidegate.worker.process.settings import Settings


def open_reader(settings: Settings, name: str, machine: Machine = REAL, **options: Any) -> Consumer:
    """Open a consumer that joins no group, and that reports the end of each partition.

    ``options`` are librdkafka's, with ``_`` for ``.``: ``isolation_level`` is ``isolation.level``.
    """
    return machine.consumer(
        librdkafka_config(settings)
        | {
            "group.id": f"{settings.app_id}-{name}",  # librdkafka requires one; the group is never joined
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
        | {option.replace("_", "."): value for option, value in options.items()}
    )


def is_record(message: Any) -> bool:
    """Whether the message is a record, and not an error or the end of a partition."""
    return message.error() is None


def is_end(message: Any) -> bool:
    """Whether the message says that its partition is read to the end. Its offset is that end."""
    error: KafkaError | None = message.error()
    return error is not None and error.code() == KafkaError._PARTITION_EOF  # noqa: SLF001 - its only name


def trouble(message: Any, read: str) -> str | None:
    """Return the text of a message's error if librdkafka only waits for the broker.

    Returns ``None`` for a record and for the end of a partition. Raises ``StateError`` for an error that
    waiting does not cure. ``read`` names, in that error, the topic that is being read.
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
