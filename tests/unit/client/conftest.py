"""A topic of three partitions on a real broker, and a connection to it."""

from __future__ import annotations

import pytest

from stack.kafka import KafkaBroker
from tests.unit.client.topics import create_topic
from tidegate.client.kafka.connection import KafkaConnection


@pytest.fixture
def connection(broker: KafkaBroker) -> KafkaConnection:
    return KafkaConnection(broker.bootstrap, timeout_s=60.0)


@pytest.fixture
def topic(broker: KafkaBroker, topic_prefix: str) -> str:
    create_topic(broker.bootstrap, f"{topic_prefix}rows", 3)
    return f"{topic_prefix}rows"
