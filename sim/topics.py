"""Creates the two topics between the simulated store and tidegate, and checks that they suit a new log."""

from __future__ import annotations

import time
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tidegate.errors import BrokerUnavailable, TopologyError

_TIMEOUT_S: Final = 10.0
_APPEARS_S: Final = 60.0  # a broker that creates or deletes thousands of partitions tells of new ones late
_LOOK_AGAIN_S: Final = 0.1
_BROKER_DEFAULT: Final = -1  # replication factor
_CONFIG: Final = {"cleanup.policy": "delete", "message.timestamp.type": "CreateTime"}


def log_topic(prefix: str) -> str:
    """Return the topic of the Raft logs."""
    return f"{prefix}raftlog"


def requests_topic(prefix: str) -> str:
    """Return the topic of requests to the store."""
    return f"{prefix}requests"


def prepare_topics(bootstrap: str, prefix: str, partitions: int) -> None:
    """Create both topics if they are missing.

    Raises ``BrokerUnavailable``. Raises ``TopologyError`` when a topic has another number of partitions, or
    when the log was written to before: a new store cannot continue the log of another one.
    """
    try:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for name in (log_topic(prefix), requests_topic(prefix)):
            _create(admin, name, partitions)
            _require_partitions(admin, name, partitions)
        _require_untouched(bootstrap, log_topic(prefix), partitions)
    except KafkaException as error:
        raise BrokerUnavailable(
            f"Kafka at {bootstrap} does not answer ({error.args[0].str()}): start it, or correct the address"
        ) from None


def _create(admin: AdminClient, name: str, partitions: int) -> None:
    topic = NewTopic(name, partitions, _BROKER_DEFAULT, config=_CONFIG)
    try:
        admin.create_topics([topic], request_timeout=_TIMEOUT_S)[name].result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def _require_partitions(admin: AdminClient, name: str, partitions: int) -> None:
    found = _partitions(admin, name)
    if found != partitions:
        raise TopologyError(
            f"Topic {name} has {found} partitions, not {partitions}: ask for {found}, or use another prefix"
        )


def _partitions(admin: AdminClient, name: str) -> int:
    """Return how many partitions a topic has, once the broker that is asked knows it."""
    deadline = time.monotonic() + _APPEARS_S
    while time.monotonic() < deadline:
        known = admin.list_topics(timeout=_TIMEOUT_S).topics.get(name)
        if known is not None and known.error is None and known.partitions:
            return len(known.partitions)
        time.sleep(_LOOK_AGAIN_S)
    raise BrokerUnavailable(
        f"Topic {name} was created but did not appear within {_APPEARS_S:.0f} s: try again"
    )


def _require_untouched(bootstrap: str, name: str, partitions: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": name})
    try:
        ends = [
            consumer.get_watermark_offsets(TopicPartition(name, partition), timeout=_APPEARS_S)[1]
            for partition in range(partitions)
        ]
    finally:
        consumer.close()
    if any(ends):
        raise TopologyError(
            f"Topic {name} holds the log of an earlier store, which a new one cannot continue: delete it, or "
            "use another prefix"
        )
