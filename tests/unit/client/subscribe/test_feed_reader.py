"""The reader of output topics, on a real broker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from stack.kafka import KafkaBroker
from tests.unit.client.subscribe.hand_feed import COMES_S, HandFeed, account
from tidegate.client.subscribe.feed_reader import FeedReader
from tidegate.subscribe.gate.feed_record import FeedPartition

pytestmark = pytest.mark.broker

#: How long a thread waits for records that do not come.
_READS_S = 2.0


@pytest.fixture
def feed(broker: KafkaBroker, topic_prefix: str) -> HandFeed:
    written = HandFeed(broker.bootstrap, topic_prefix, partitions=1)
    written.write(0, 5, 1, account(1, 10))
    written.mark(7)
    written.mark(9)
    return written


@pytest.fixture
def admin(feed: HandFeed) -> AdminClient:
    return AdminClient({"bootstrap.servers": feed.connection.bootstrap_servers})


@pytest.fixture
def reader(feed: HandFeed, admin: AdminClient) -> Iterator[FeedReader]:
    described = admin.describe_topics(TopicCollection([feed.topic]))[feed.topic].result(30)
    opened = FeedReader(feed.connection, {_place(feed): 0}, {feed.topic: str(described.topic_id)})
    yield opened
    opened.close()


def _place(feed: HandFeed) -> FeedPartition:
    return FeedPartition(feed.topic, 0)


def _read_all(feed: HandFeed, reader: FeedReader) -> None:
    """Read until nothing comes any more, not even the message that says where the partition ends."""
    until, took_s = time.monotonic() + COMES_S, 0.0
    while took_s < 0.5 or reader.positions[_place(feed)] < 3:
        assert time.monotonic() < until
        began = time.monotonic()
        reader.poll(0.5)
        took_s = time.monotonic() - began


def test_the_first_offsets_are_known_at_once_while_another_thread_reads(
    feed: HandFeed, reader: FeedReader
) -> None:
    _read_all(feed, reader)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(reader.poll, _READS_S)
        began, asked = time.monotonic(), 0
        while time.monotonic() < began + _READS_S / 4:  # the thread is in the client for most of this time
            assert reader.lows == {_place(feed): 0}
            asked += 1
        assert not reading.done()
        assert reading.result(COMES_S) == []
    assert asked > 100


def test_records_that_are_deleted_raise_the_first_offset(
    feed: HandFeed, reader: FeedReader, admin: AdminClient
) -> None:
    _read_all(feed, reader)
    for deleted in admin.delete_records([TopicPartition(feed.topic, 0, 2)]).values():
        deleted.result(30)
    until = time.monotonic() + COMES_S
    while reader.lows.get(_place(feed)) != 2:
        assert time.monotonic() < until, reader.lows
        reader.poll(0.1)
