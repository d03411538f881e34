"""A broker that creates topics on demand, as Kafka does by default: tidegate must not demand any.

Such a topic has the broker's default number of partitions and a retention that loses state.
"""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka.client import AIOKafkaClient
from confluent_kafka.admin import AdminClient

from stack.kafka import KafkaBroker
from tests.e2e.scenario import PARTITIONS, Scenario, bank_log
from tests.shared_broker import PATIENT
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.writer import write_record
from tidegate.errors import TidegateError
from tidegate.verify import TopicPartition

pytestmark = [pytest.mark.broker, pytest.mark.slow]


@pytest.fixture(scope="module")
def creating_broker() -> Iterator[KafkaBroker]:
    with KafkaBroker(
        settings={**PATIENT, "auto.create.topics.enable": "true", "num.partitions": "1"}
    ) as running:
        yield running


@pytest.fixture
def no_log_yet(creating_broker: KafkaBroker, topic_prefix: str, tmp_path: Path) -> Iterator[Scenario]:
    log = bank_log(seed=11, transactions=100)
    made = Scenario(creating_broker.bootstrap, topic_prefix, tmp_path, log, create_log=False)
    yield made
    made.close()


def topics(broker: KafkaBroker) -> dict[str, int]:
    """The partition count of every topic."""
    found = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=30).topics
    return {name: len(topic.partitions) for name, topic in found.items()}


def created_by_naming(broker: KafkaBroker, prefix: str) -> list[str]:
    """Topics that are there because somebody named them.

    The broker creates them a while after its answer, but in order: one that is asked for now is the last.
    """
    last = f"{prefix}last"
    naming = AdminClient({"bootstrap.servers": broker.bootstrap})  # as librdkafka is by default
    deadline = time.monotonic() + 60
    while last not in topics(broker):
        assert time.monotonic() < deadline, "this broker creates nothing"
        naming.list_topics(last, timeout=30)
    return [topic for topic in topics(broker) if topic.startswith(prefix) and topic != last]


def test_a_worker_waits_for_the_log_and_does_not_create_it(
    creating_broker: KafkaBroker, no_log_yet: Scenario
) -> None:
    worker = no_log_yet.start_worker()
    worker.wait_until(lambda: worker.text.count("waiting for the log topic") > 2, "the worker to ask thrice")
    assert created_by_naming(creating_broker, no_log_yet.prefix) == []
    no_log_yet.create_log()
    no_log_yet.create_feed(worker)
    no_log_yet.append()
    no_log_yet.wait_until_covered(worker)
    assert topics(creating_broker)[f"{no_log_yet.prefix}raftlog"] == PARTITIONS
    assert worker.stop() == 0, worker.text


def test_the_consumer_of_the_group_creates_nothing(creating_broker: KafkaBroker, topic_prefix: str) -> None:
    importlib.import_module("app.application")  # what the worker does to aiokafka

    async def ask() -> None:
        client = AIOKafkaClient(bootstrap_servers=creating_broker.bootstrap)
        await client.bootstrap()
        try:
            client.set_topics([f"{topic_prefix}raftlog"])
            await client.force_metadata_update()
        finally:
            await client.close()

    asyncio.run(ask())
    assert created_by_naming(creating_broker, topic_prefix) == []


def test_a_record_for_a_missing_topic_creates_nothing(
    creating_broker: KafkaBroker, topic_prefix: str
) -> None:
    connection = KafkaConnection(creating_broker.bootstrap, timeout_s=3)
    with pytest.raises(TidegateError, match="writing to"):
        write_record(connection, TopicPartition(f"{topic_prefix}jobs", 0), b"key", b"value")
    assert created_by_naming(creating_broker, topic_prefix) == []
