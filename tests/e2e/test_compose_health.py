"""The health checks of the Compose file, run against the real broker."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewTopic

from stack.kafka import KafkaBroker
from tests.unit.client.topics import wait_until_known
from tests.unit.deploy.compose_file import health_script

pytestmark = pytest.mark.broker

Healthy = Callable[[str], bool]
_RETRIES = 6  # as in the Compose file


@pytest.fixture
def healthy(broker: KafkaBroker, topic_prefix: str) -> Healthy:
    environment = os.environ | {
        "TIDEGATE_BOOTSTRAP_SERVERS": broker.bootstrap,
        "TIDEGATE_APP_ID": topic_prefix + "app",
        "TIDEGATE_TOPIC_PREFIX": topic_prefix,
    }

    def run(service: str) -> bool:
        command = [sys.executable, "-c", health_script(service)]
        return subprocess.run(command, env=environment, timeout=60, check=False).returncode == 0

    return run


def comes_to_be(healthy: Healthy, service: str) -> bool:
    """Look as often as Compose does: a look that takes 10 s counts as a failure."""
    return any(healthy(service) for _ in range(_RETRIES))


def create_log(broker: KafkaBroker, topic_prefix: str) -> str:
    topic = topic_prefix + "raftlog"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(timeout=30)
    wait_until_known(admin, topic)
    return topic


def test_the_source_is_healthy_once_its_log_is_there(
    broker: KafkaBroker, topic_prefix: str, healthy: Healthy
) -> None:
    assert not healthy("sim")
    create_log(broker, topic_prefix)
    assert comes_to_be(healthy, "sim")


def test_the_worker_is_healthy_while_its_group_has_a_member(
    broker: KafkaBroker, topic_prefix: str, healthy: Healthy
) -> None:
    topic = create_log(broker, topic_prefix)
    assert not healthy("worker")
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic_prefix + "app"})
    consumer.subscribe([topic])
    while not consumer.assignment():
        consumer.poll(0.1)
    assert comes_to_be(healthy, "worker")
    consumer.close()
    assert not healthy("worker")
