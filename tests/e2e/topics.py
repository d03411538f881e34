"""Topics deleted and created again, as an operator would."""

from __future__ import annotations

import time
from collections.abc import Sequence

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.e2e.scenario import PARTITIONS, Scenario
from tests.unit.client.topics import wait_until_forgotten, wait_until_known

_FORGOTTEN_S = 30.0
_TOLD_S = 60.0


def delete(scenario: Scenario, topic: str) -> AdminClient:
    """Delete the topic."""
    admin = AdminClient({"bootstrap.servers": scenario.bootstrap})
    admin.delete_topics([topic])[topic].result(30)
    return admin


def create(admin: AdminClient, topic: str) -> None:
    """Create a topic, which may have been deleted just now; returns once the broker tells of the new one."""
    wait_until_forgotten(admin, topic)
    deadline = time.monotonic() + _FORGOTTEN_S
    while True:
        try:
            admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return wait_until_known(admin, topic)


def grow(scenario: Scenario, topic: str, partitions: int) -> None:
    """Give the topic as many partitions. Returns once the broker tells of them, which is a moment after its
    answer."""
    admin = AdminClient({"bootstrap.servers": scenario.bootstrap})
    admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(30)
    deadline = time.monotonic() + _TOLD_S
    while len(admin.list_topics(topic, timeout=_TOLD_S).topics[topic].partitions) < partitions:
        assert time.monotonic() < deadline, f"{topic} has grown, and the broker does not tell of it"
        time.sleep(0.1)


def cut(admin: AdminClient, places: Sequence[TopicPartition]) -> None:
    """Delete the records below each place's offset, as retention would.

    Try again for a while: a topic that was compacted until just now may still be compacted for the broker.
    """
    deadline = time.monotonic() + _TOLD_S
    while True:
        try:
            for future in admin.delete_records(list(places)).values():
                future.result(30)
        except KafkaException as failure:
            if failure.args[0].code() != KafkaError.POLICY_VIOLATION or time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return
