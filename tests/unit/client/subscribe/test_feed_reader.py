"""The reader of output topics, on a real broker."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from stack.kafka import KafkaBroker
from tests.unit.client.subscribe.hand_feed import COMES_S, HandFeed, account
from tidegate.client.subscribe import feed_reader
from tidegate.client.subscribe.feed_reader import FeedReader, PartitionRecords
from tidegate.subscribe.gate.feed_record import FeedPartition

pytestmark = pytest.mark.broker


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
    """Read all that is written."""
    until = time.monotonic() + COMES_S
    while reader.positions[_place(feed)] < 3:
        assert time.monotonic() < until
        reader.poll(0.1)


def test_the_first_offsets_are_known_at_once_while_another_thread_reads(
    feed: HandFeed, reader: FeedReader
) -> None:
    _read_all(feed, reader)
    reads = Event()

    def read_more() -> list[PartitionRecords]:
        while True:
            reads.set()
            if found := reader.poll(COMES_S):
                return found

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read_more)
        assert reads.wait(COMES_S)
        told = [reader.lows for _ in range(100)]
        was_done = reading.done()
        feed.mark(11)
        ((place, _),) = reading.result(COMES_S)
    assert (told, was_done) == ([{_place(feed): 0}] * 100, False)
    assert place == _place(feed)


def test_a_poll_that_was_interrupted_is_made_up_for_and_leaves_nothing_paused(
    feed: HandFeed, reader: FeedReader
) -> None:
    class Interrupted:
        def consume(self, *_: object, timeout: float) -> None:
            raise KeyboardInterrupt

    reader.pause([_place(feed)])
    client = reader._consumer
    reader._consumer = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        reader.poll(0.1)
    reader._consumer = client
    assert reader.is_waiting
    _read_all(feed, reader)
    assert (reader.is_waiting, reader.paused) == (False, frozenset())


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


def test_topics_are_confirmed_also_to_who_looks_seldom(
    feed: HandFeed, reader: FeedReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By then it is time to ask again, and the answers that are there count all the same."""
    monkeypatch.setattr(feed_reader, "_TOPICS_EVERY_S", 0.0)
    reader.ask_topics()
    wait(list(reader._topics._asked.values()), COMES_S)
    assert reader.same_topics(0.0)


def _says_that_it_is_at_the_ends(reader: FeedReader) -> bool:
    """Ask the brokers anew, and return what follows from their answers."""
    reader._ends._asked.clear()
    reader.at_ends()
    wait(list(reader._ends._asked.values()), COMES_S)
    return reader.at_ends()


def test_it_is_at_the_ends_when_all_that_brokers_have_is_read(feed: HandFeed, reader: FeedReader) -> None:
    assert not reader.at_ends()  # no broker has told anything
    assert not _says_that_it_is_at_the_ends(reader)
    _read_all(feed, reader)
    assert _says_that_it_is_at_the_ends(reader)
    feed.mark(11)
    assert not _says_that_it_is_at_the_ends(reader)
    reader.pause([_place(feed)])
    assert _says_that_it_is_at_the_ends(reader)  # others hold the partition back, so nothing opens by it


def test_it_is_not_at_the_end_of_a_partition_whose_leader_is_away(
    feed: HandFeed, reader: FeedReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client goes on telling the end that it heard before."""
    _read_all(feed, reader)

    def is_away(question: Mapping[TopicPartition, object], **_: object) -> dict[TopicPartition, Future[Any]]:
        answers: dict[TopicPartition, Future[Any]] = {place: Future() for place in question}
        for answer in answers.values():
            answer.set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
        return answers

    with monkeypatch.context() as patched:
        patched.setattr(reader._ends, "_admin", SimpleNamespace(list_offsets=is_away))
        assert not _says_that_it_is_at_the_ends(reader)
    assert _says_that_it_is_at_the_ends(reader)
