"""Rows that cannot be delivered end the worker, and nothing of their batch is acknowledged."""

from __future__ import annotations

import asyncio
import re

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from app.ending import EXIT_FATAL
from app.settings import Settings
from app.sink import Barrier, Sink
from stack.kafka import KafkaBroker
from tests.e2e.scenario import Scenario
from tidegate.errors import DeliveryError
from tidegate.processor.batch import OutputRecord

pytestmark = [pytest.mark.broker, pytest.mark.slow]


def limit_records(scenario: Scenario, max_bytes: int) -> None:
    """Let the broker refuse larger batches on the output topic."""
    entry = ConfigEntry("max.message.bytes", str(max_bytes), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, scenario.topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": scenario.bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(30)


def test_a_row_that_the_broker_refuses_ends_the_worker(scenario: Scenario) -> None:
    worker = scenario.start_worker(instance_id="w0", linger_ms=0)
    scenario.create_feed(worker)
    limit_records(scenario, 60)
    scenario.append()
    assert worker.wait() == EXIT_FATAL, worker.text
    assert re.search(f"Rows could not be delivered.*{scenario.topic}.*Message size too large", worker.text), (
        worker.text
    )
    limit_records(scenario, 1_000_000)
    successor = scenario.start_worker(instance_id="w0")
    scenario.wait_until_covered(successor)


def test_a_row_above_the_limit_is_not_even_sent(broker: KafkaBroker, topic_prefix: str) -> None:
    async def send() -> None:
        sink.send(rows, Barrier(1, asyncio.get_running_loop()))

    sink = Sink(Settings(bootstrap_servers=broker.bootstrap, max_record_bytes=10_000))
    rows = [OutputRecord(f"{topic_prefix}t", 1, b"\x12\x34", b"v" * 20_000, 0, [])]
    try:
        with pytest.raises(DeliveryError, match=r"of 20002 bytes for .*t partition 1, key 1234 is above"):
            asyncio.run(send())
    finally:
        sink.close()
