"""Topics with known content, on the real broker."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tidegate.client.kafka.listed_offsets import listed_offsets
from tidegate.verify import TopicRecord

_KNOWN_S: Final = 60.0
_LOOK_AGAIN_S: Final = 0.02


def create_topic(bootstrap: str, topic: str, partitions: int = 1, **config: str) -> None:
    """Create a topic; ``config`` names have underscores for dots. Returns once the broker tells of it."""
    settings = {name.replace("_", "."): value for name, value in config.items()}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    deadline = time.monotonic() + _KNOWN_S
    while not _is_created(admin, NewTopic(topic, partitions, config=settings)):
        assert time.monotonic() < deadline, f"{topic} is not created: the broker sends no heartbeat"
        time.sleep(_LOOK_AGAIN_S)
    wait_until_known(admin, topic)


def _is_created(admin: AdminClient, topic: NewTopic) -> bool:
    """Create the topic, unless the controller takes the only broker for dead: on a busy machine it may."""
    (created,) = admin.create_topics([topic]).values()
    try:
        created.result()
    except KafkaException as failure:
        if failure.args[0].code() != KafkaError.INVALID_REPLICATION_FACTOR:
            raise
        return False
    return True


def wait_until_known(admin: AdminClient, topic: str) -> None:
    """Return once the broker tells of a topic that was created: it does so a moment after the answer."""
    deadline = time.monotonic() + _KNOWN_S
    while admin.list_topics(topic, timeout=_KNOWN_S).topics[topic].error is not None:
        assert time.monotonic() < deadline, f"{topic} was created, and the broker does not tell of it"
        time.sleep(_LOOK_AGAIN_S)


def wait_until_forgotten(admin: AdminClient, topic: str) -> None:
    """Return once the broker tells no more of a topic that was deleted: a moment after the answer as well."""
    deadline = time.monotonic() + _KNOWN_S
    while topic in admin.list_topics(timeout=_KNOWN_S).topics:
        assert time.monotonic() < deadline, f"{topic} was deleted, and the broker still tells of it"
        time.sleep(_LOOK_AGAIN_S)


def set_config(bootstrap: str, topic: str, name: str, value: str) -> None:
    """Change a setting of a topic. Returns once the broker tells of it."""
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(_KNOWN_S)
    deadline = time.monotonic() + _KNOWN_S
    while _config(admin, topic, name) != value:
        assert time.monotonic() < deadline, f"{topic} got {name}={value}, and the broker does not tell it"
        time.sleep(_LOOK_AGAIN_S)


def _config(admin: AdminClient, topic: str, name: str) -> str | None:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    found: str | None = admin.describe_configs([resource])[resource].result(_KNOWN_S)[name].value
    return found


def delete_topic(bootstrap: str, topic: str) -> None:
    """Delete a topic."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for deleted in admin.delete_topics([topic]).values():
        deleted.result()


def delete_before(bootstrap: str, topic: str, partition: int, offset: int) -> None:
    """Delete the beginning of a partition."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for deleted in admin.delete_records([TopicPartition(topic, partition, offset)]).values():
        deleted.result()


def write(bootstrap: str, records: Iterable[TopicRecord]) -> None:
    """Write records where they say, in order.

    One request at a time keeps the order as well as idempotence does, whose first record waits half a second
    for the producer's id.
    """
    producer = Producer({"bootstrap.servers": bootstrap, "max.in.flight.requests.per.connection": 1})
    _produce(producer, records)
    assert producer.flush(_KNOWN_S) == 0


def write_transaction(
    bootstrap: str, transactional_id: str, records: Iterable[TopicRecord], *, commit: bool
) -> None:
    """Write records in one transaction that is committed or aborted, and wait until readers see its end.

    The broker answers once it has decided how the transaction ends, and tells the partitions afterwards. No
    other transaction may be open there.
    """
    records = list(records)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
    producer.init_transactions(_KNOWN_S)
    producer.begin_transaction()
    _produce(producer, records)
    producer.flush(_KNOWN_S)
    if commit:
        producer.commit_transaction(_KNOWN_S)
    else:
        producer.abort_transaction(_KNOWN_S)
    wait_until_ended(bootstrap, {TopicPartition(record.topic, record.partition) for record in records})


def wait_until_ended(bootstrap: str, places: set[TopicPartition]) -> None:
    """Wait until readers see the end of every transaction that was decided in these partitions."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    deadline = time.monotonic() + _KNOWN_S
    while _ends(admin, places, IsolationLevel.READ_COMMITTED) != _ends(
        admin, places, IsolationLevel.READ_UNCOMMITTED
    ):
        assert time.monotonic() < deadline, f"a transaction stays open in {places}"
        time.sleep(_LOOK_AGAIN_S)


def _ends(admin: AdminClient, places: set[TopicPartition], isolation: IsolationLevel) -> list[int]:
    found = listed_offsets(admin, {place: OffsetSpec.latest() for place in places}, isolation, _KNOWN_S)
    return [found[place] for place in sorted(found)]


def _produce(producer: Producer, records: Iterable[TopicRecord]) -> None:
    for record in records:
        producer.produce(
            record.topic,
            record.value,
            record.key,
            record.partition,
            timestamp=record.timestamp_ms,
            headers=list(record.headers),
        )
