"""Reading topics of a real broker: what is committed, all of it, up to a known end."""

from __future__ import annotations

import pytest

from stack.kafka import KafkaBroker
from tests.unit.client.feeds import definition, failed
from tests.unit.client.topics import create_topic, delete_before, delete_topic, write, write_transaction
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.client.followed_feed import SILENCE_S, FollowedFeed
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.output import OutputTopics
from tidegate.client.tail import TailFrom, tail_topics
from tidegate.errors import BrokerUnavailable, InputError
from tidegate.verify import TopicPartition, TopicRecord

pytestmark = pytest.mark.broker


def record(topic: str, partition: int, text: str) -> TopicRecord:
    return TopicRecord(topic, partition, -1, b"[1]", text.encode(), 1_000, [("h", b"1")])


def texts(records: list[TopicRecord], partition: int) -> list[str]:
    return [(each.value or b"").decode() for each in records if each.partition == partition]


@pytest.fixture
def connection(broker: KafkaBroker) -> KafkaConnection:
    return KafkaConnection(broker.bootstrap)


@pytest.fixture
def topic(broker: KafkaBroker, topic_prefix: str) -> str:
    create_topic(broker.bootstrap, f"{topic_prefix}rows", 3)
    return f"{topic_prefix}rows"


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


def test_tail_from_the_beginning_ends_where_the_topic_ended(connection: KafkaConnection, topic: str) -> None:
    write(connection.bootstrap_servers, [record(topic, 0, "a"), record(topic, 1, "b")])
    read = list(tail_topics(connection, [topic], TailFrom.BEGINNING, follow=False))
    assert sorted(each.value or b"" for each in read) == [b"a", b"b"]


def test_tail_from_the_end_without_following_is_empty(connection: KafkaConnection, topic: str) -> None:
    write(connection.bootstrap_servers, [record(topic, 0, "a")])
    assert list(tail_topics(connection, [topic], TailFrom.END, follow=False)) == []


def test_tail_follows_from_the_end_on(connection: KafkaConnection, topic: str) -> None:
    write(connection.bootstrap_servers, [record(topic, 0, "old")])
    followed = tail_topics(connection, [topic], TailFrom.END, follow=True)
    write(connection.bootstrap_servers, [record(topic, 1, "new")])
    assert next(followed).value == b"new"
    followed.close()


def test_following_ends_behind_the_last_record_that_was_there_at_the_end(
    connection: KafkaConnection, topic: str
) -> None:
    write(connection.bootstrap_servers, [record(topic, 0, "old"), record(topic, 1, "old")])
    looks = 0

    def ended() -> bool:
        """Nothing is written any more once the reader has long been at its end, but for these records."""
        nonlocal looks
        looks += 1
        if looks == 5:
            write(connection.bootstrap_servers, [record(topic, place, "last") for place in (0, 2)])
        return looks == 5

    followed = list(tail_topics(connection, [topic], TailFrom.BEGINNING, follow=True, ended=ended))
    assert [texts(followed, partition) for partition in range(3)] == [["old", "last"], ["old"], ["last"]]


def test_of_topics_that_are_deleted_at_the_end_there_is_nothing_more(
    connection: KafkaConnection, topic: str
) -> None:
    """And what has come to the others is read."""
    write(connection.bootstrap_servers, [record(topic, 0, "old")])
    create_topic(connection.bootstrap_servers, deleted := f"{topic}-deleted")
    looks = 0

    def ended() -> bool:
        nonlocal looks
        looks += 1
        if looks == 5:
            write(connection.bootstrap_servers, [record(deleted, 0, "gone"), record(topic, 1, "last")])
            delete_topic(connection.bootstrap_servers, deleted)
        return looks == 5

    topics = [deleted, topic]
    followed = list(tail_topics(connection, topics, TailFrom.BEGINNING, follow=True, ended=ended))
    assert sorted(each.value or b"" for each in followed if each.topic == topic) == [b"last", b"old"]


def test_rows_of_a_worker_that_has_not_heard_of_the_end_are_read(
    connection: KafkaConnection, topic: str
) -> None:
    """Long after the failure is known it writes on; the clock stands still until what it wrote was read."""
    looks = 0
    now_s = 0.0

    def look() -> FeedView:
        nonlocal looks
        looks += 1
        if looks == 5:
            write(connection.bootstrap_servers, [record(topic, 1, "late")])
        return FeedView(definition(), state=failed("no such column"))

    feed = FollowedFeed(look, lambda: now_s)
    read = []
    for each in tail_topics(connection, [topic], TailFrom.BEGINNING, follow=True, ended=feed.has_ended):
        read.append(each)
        feed.record_came()
        now_s += SILENCE_S
    assert texts(read, 1) == ["late"]


def test_a_broker_that_stops_answering_is_reported_in_bounded_time() -> None:
    with KafkaBroker() as own:
        connection = KafkaConnection(own.bootstrap, timeout_s=1.0)
        create_topic(own.bootstrap, "rows")
        write(own.bootstrap, [record("rows", 0, "a")])
        topics = OutputTopics.now(connection, ["rows"])
        own.pause()
        with pytest.raises(BrokerUnavailable, match=f"Kafka at {own.bootstrap} gave no answer within 1 s"):
            list(topics.records())
        own.resume()
