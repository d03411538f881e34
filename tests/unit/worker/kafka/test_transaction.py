"""Tests how large the records of a worker's transactions may be, whatever rows may be."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

import pytest
from confluent_kafka import Producer

from stack.kafka import KafkaBroker
from tests.feeds import WITH_MARKERS
from tests.unit.client.topics import create_topic
from tidegate.changefeed.definition.definition_size import size_fault
from tidegate.changefeed.definition.feed import FIRST_EPOCH, FeedDefinition, FeedId, FeedTarget, TableName
from tidegate.changefeed.lifecycle.control import Activate, ControlMessage, Register, control_key
from tidegate.client.kafka.transaction import Record
from tidegate.hlc import Timestamp
from tidegate.rows.table_key import table_span
from tidegate.worker.kafka.transaction import WorkerTransactionalProducer
from tidegate.worker.process.settings import Settings

_SMALL: Final = 100_000


def _of_many_tables() -> list[ControlMessage]:
    """What partitions are told of a feed of a thousand tables, which no bound refuses."""
    names = tuple(TableName(f"a_table_of_the_shop_{number:04}") for number in range(1_000))
    text = f"CREATE CHANGEFEED FOR TABLE {', '.join(map(str, names))}"
    feed = FeedDefinition(FeedId("many"), FIRST_EPOCH, text, "kafka://127.0.0.1:9092", names, WITH_MARKERS, 0)
    assert not size_fault(feed)
    targets = tuple(
        FeedTarget(name, table_id, name.name, 4, (table_span(table_id),))
        for table_id, name in enumerate(names, start=104)
    )
    return [Register(feed), Activate(feed, Timestamp(7), targets)]


@pytest.mark.parametrize(("setting", "limit"), [(1, 1_000_000), (_SMALL, 1_000_000), (5_000_000, 5_000_000)])
def test_a_lower_limit_of_rows_is_no_limit_of_records_about_feeds(setting: int, limit: int) -> None:
    configs: list[dict[str, Any]] = []
    machine: Any = SimpleNamespace(producer=configs.append)
    WorkerTransactionalProducer(Settings(max_record_bytes=setting), "writer", machine)
    assert [config["message.max.bytes"] for config in configs] == [limit]


@pytest.mark.broker
def test_many_small_records_go_out_in_batches_that_a_broker_with_a_low_limit_takes(
    broker: KafkaBroker, topic_prefix: str
) -> None:
    """The setting is the broker's limit, as operators are told to have it."""
    topic = f"{topic_prefix}changelog"
    create_topic(broker.bootstrap, topic, max_message_bytes=str(_SMALL))
    settings = Settings(bootstrap_servers=broker.bootstrap, max_record_bytes=_SMALL, compression="none")
    producer = WorkerTransactionalProducer(settings, f"{topic_prefix}state")
    producer.open()
    try:
        producer.commit([Record(topic, 0, b"%d" % number, bytes(1_000)) for number in range(500)])
    finally:
        producer.close()


@pytest.mark.broker
def test_a_feed_of_a_thousand_tables_is_announced_by_workers_with_a_low_limit(
    broker: KafkaBroker, topic_prefix: str
) -> None:
    """The same messages are above the limit of a producer that has this one."""
    topic = f"{topic_prefix}control"
    create_topic(broker.bootstrap, topic)
    settings = Settings(bootstrap_servers=broker.bootstrap, max_record_bytes=_SMALL, compression="none")
    messages = _of_many_tables()
    assert len(messages[-1].to_bytes()) > _SMALL
    producer = WorkerTransactionalProducer(settings, f"{topic_prefix}jobs")
    assert isinstance(producer._producer, Producer)
    producer.open()
    try:
        for message in messages:
            producer.commit([Record(topic, 0, control_key(message.feed_id), message.to_bytes())])
    finally:
        producer.close()
