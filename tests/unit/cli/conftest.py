"""The topics of feeds on a real broker, for the commands that read them."""

from __future__ import annotations

import pytest

from stack.kafka import KafkaBroker
from tests.unit.cli.fed_topics import Fed, FedAside, Topic


@pytest.fixture
def topic(broker: KafkaBroker, topic_prefix: str) -> Topic:
    return Topic(broker.bootstrap, f"{topic_prefix}accounts")


@pytest.fixture
def fed(broker: KafkaBroker, topic_prefix: str) -> Fed:
    return Fed(broker.bootstrap, topic_prefix)


@pytest.fixture
def fed_aside(broker: KafkaBroker, topic_prefix: str) -> FedAside:
    return FedAside(broker.bootstrap, topic_prefix)
