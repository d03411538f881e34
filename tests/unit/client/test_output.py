"""Reading topics of a real broker: what is committed, all of it, up to a known end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stack.kafka import KafkaBroker
from tests.unit.client.topic_texts import record, texts
from tests.unit.client.topics import create_topic, delete_before, write, write_transaction
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.output import OutputTopics
from tidegate.errors import BrokerUnavailable, InputError
from tidegate.verify import TopicPartition, TopicRecord

pytestmark = pytest.mark.broker


def test_every_record_is_read_with_all_it_holds(connection: KafkaConnection, topic: str) -> None:
    write(connection.bootstrap_servers, [record(topic, 1, "a")._replace(key=None, value=b"")])
    (read,) = OutputTopics.now(connection, [topic]).records()
    assert read == TopicRecord(topic, 1, 0, None, b"", 1_000, [("h", b"1")])


def test_partitions_are_read_in_offset_order(connection: KafkaConnection, topic: str) -> None:
    numbers = [str(i) for i in range(2_500)]
    write(connection.bootstrap_servers, [record(topic, int(i) % 2, i) for i in numbers])
    read = list(OutputTopics.now(connection, [topic]).records())
    assert texts(read, 0) == numbers[0::2]
    assert texts(read, 1) == numbers[1::2]


def test_what_an_aborted_transaction_wrote_is_not_read(connection: KafkaConnection, topic: str) -> None:
    servers = connection.bootstrap_servers
    write_transaction(servers, f"{topic}-1", [record(topic, 0, "aborted")], commit=False)
    write_transaction(servers, f"{topic}-2", [record(topic, 0, "committed")], commit=True)
    write_transaction(servers, f"{topic}-3", [record(topic, 1, "aborted")], commit=False)
    assert texts(list(OutputTopics.now(connection, [topic]).records()), 0) == ["committed"]


def test_what_is_written_after_the_call_is_not_read(connection: KafkaConnection, topic: str) -> None:
    write(connection.bootstrap_servers, [record(topic, 0, "before")])
    topics = OutputTopics.now(connection, [topic])
    write(connection.bootstrap_servers, [record(topic, 0, "after"), record(topic, 1, "after")])
    assert [each.value for each in topics.records()] == [b"before"]


def test_an_empty_topic_has_no_records(connection: KafkaConnection, topic: str) -> None:
    assert list(OutputTopics.now(connection, [topic]).records()) == []


def test_a_deleted_beginning_is_reported(connection: KafkaConnection, topic: str) -> None:
    write(connection.bootstrap_servers, [record(topic, 2, text) for text in "abc"])
    delete_before(connection.bootstrap_servers, topic, 2, 2)
    topics = OutputTopics.now(connection, [topic])
    assert topics.truncated == {TopicPartition(topic, 2)}
    assert texts(list(topics.records()), 2) == ["c"]


def test_a_beginning_deleted_while_it_is_read_is_an_error(connection: KafkaConnection, topic: str) -> None:
    write(connection.bootstrap_servers, [record(topic, 0, text) for text in "abc"])
    topics = OutputTopics.now(connection, [topic])
    delete_before(connection.bootstrap_servers, topic, 0, 2)
    with pytest.raises(InputError, match="were deleted while they were to be read"):
        list(topics.records())


def test_a_missing_topic_is_named(connection: KafkaConnection, topic: str) -> None:
    with pytest.raises(InputError, match=f"has no topic {topic}-x, {topic}-y"):
        OutputTopics.now(connection, [topic, f"{topic}-x", f"{topic}-y"])


def test_a_broker_that_stops_answering_is_reported_in_bounded_time() -> None:
    with KafkaBroker() as own:
        patient = KafkaConnection(own.bootstrap)
        create_topic(own.bootstrap, "rows")
        write(own.bootstrap, [record("rows", 0, "a")])
        topics = replace(OutputTopics.now(patient, ["rows"]), connection=replace(patient, timeout_s=1.0))
        own.pause()
        with pytest.raises(BrokerUnavailable, match=f"Kafka at {own.bootstrap} gave no answer within 1 s"):
            list(topics.records())
        own.resume()
