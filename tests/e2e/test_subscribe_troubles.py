"""Troubles of topics and brokers under a subscription: it goes on, or ends with a typed error."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from random import Random
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from stack.kafka import KafkaBroker
from tests.unit.client.subscribe.hand_feed import HandFeed
from tests.unit.client.topics import create_topic, delete_before, wait_until_forgotten
from tidegate.client.kafka.cluster import Cluster
from tidegate.client.subscribe import LiveSubscription, subscribe
from tidegate.client.subscribe.feed_reader import FeedReader
from tidegate.errors import HistoryLost, ObjectDropped
from tidegate.hlc import Timestamp
from tidegate.subscribe import SubscriptionBatch
from tidegate.verify import TopicPartition as KafkaPartition

pytestmark = [pytest.mark.broker, pytest.mark.slow]

_COMES_S: Final = 60.0
_ROWS: Final = 200
_AHEAD: Final = 30_000


@pytest.fixture(scope="module")
def mistreated() -> Iterator[KafkaBroker]:
    with KafkaBroker() as running:
        yield running


@pytest.fixture
def feed(mistreated: KafkaBroker, topic_prefix: str) -> HandFeed:
    """A feed on the module's broker, which runs whatever became of it in the test before."""
    mistreated.start().resume()
    return HandFeed(mistreated.bootstrap, topic_prefix)


def opened(feed: HandFeed, **more: Any) -> LiveSubscription:
    return subscribe(
        "SUBSCRIBE accounts", feed.connection, app_id=feed.app_id, topic_prefix=feed.prefix, **more
    )


def next_of(subscription: LiveSubscription) -> SubscriptionBatch:
    """The next batch, which has to come."""
    batch = subscription.next(_COMES_S)
    assert batch is not None, "no batch came"
    return batch


def write(feed: HandFeed, first: int, last: int) -> None:
    """Rows at the timestamps from one to another, each of a key of its own, and markers above them."""
    for wall in range(first, last + 1):
        feed.write(wall % feed.partitions, wall, wall, {"id": wall, "balance": wall, "note": ""})
    feed.mark(last)


def read_to(subscription: LiveSubscription, time: Timestamp) -> list[int]:
    """Read until everything up to a time was delivered; returns the keys of the rows."""
    seen: list[int] = []
    while subscription.figures().delivered < time:
        seen += walls([next_of(subscription)])
    return seen


def walls(batches: list[SubscriptionBatch]) -> list[int]:
    """The keys of the rows of some batches."""
    return [row[2] for batch in batches for row in batch.rows]


def wait_until_fetched(reader: FeedReader, feed: HandFeed) -> None:
    """Wait until the client has fetched from the topic as it is now; nobody polls it meanwhile.

    With each fetch the broker tells where the partition ends.
    """
    places = [KafkaPartition(feed.topic, number) for number in range(feed.partitions)]
    ends = {place: found.end for place, found in Cluster(feed.connection).bounds(places).items()}
    deadline = time.monotonic() + _COMES_S
    while {place: _fetched_end(reader._consumer, place) for place in places} != ends:
        assert time.monotonic() < deadline, "the client has fetched nothing of the new topic"
        time.sleep(0.01)


def _fetched_end(consumer: Consumer, place: KafkaPartition) -> int | None:
    """Return where a partition ends by the client's last fetch; ``None`` while it does not know the
    partition."""
    try:
        _, high = consumer.get_watermark_offsets(TopicPartition(place.topic, place.partition), cached=True)
    except KafkaException as unknown:
        if unknown.args[0].code() != KafkaError._UNKNOWN_PARTITION:
            raise
        return None
    return int(high)


@pytest.mark.parametrize("polled", [True, False], ids=["polled", "between-two-polls"])
def test_a_topic_that_is_created_anew_gives_no_row_of_the_new_one(feed: HandFeed, polled: bool) -> None:
    """Between two polls the client goes on in the new topic, at its own offsets, where nothing tells it."""
    write(feed, 1, 20)
    with opened(feed) as subscription:
        next_of(subscription)
        reader = subscription._reading._gate._reader
        if not polled:
            reader.pause(reader.positions)  # a fetch before the new rows are there ends its reading
        admin = AdminClient({"bootstrap.servers": feed.connection.bootstrap_servers})
        admin.delete_topics([feed.topic])[feed.topic].result(30)
        wait_until_forgotten(admin, feed.topic)
        create_topic(feed.connection.bootstrap_servers, feed.topic, feed.partitions)
        write(feed, 21, 21 + _ROWS)  # beyond all offsets that were read: whoever goes on there misses some
        if not polled:
            reader.pause(())
            wait_until_fetched(reader, feed)
        with pytest.raises((HistoryLost, ObjectDropped)):
            print("a batch of the new topic:", walls([next_of(subscription)]))


def test_a_broker_that_is_killed_and_comes_back_loses_and_repeats_nothing(
    mistreated: KafkaBroker, feed: HandFeed
) -> None:
    seed = 18
    print("seed", seed)
    random = Random(seed)
    write(feed, 1, 20)
    with opened(feed) as subscription:
        seen, last = walls([next_of(subscription)]), 20
        for _ in range(2):
            write(feed, last + 1, last + _ROWS)
            last += _ROWS
            killing = threading.Timer(random.uniform(0, 0.05), mistreated.kill)  # amid reading, or behind it
            killing.start()
            if random.random() < 0.5 and (batch := subscription.next(0.2)) is not None:
                seen += walls([batch])
            killing.join()
            while (batch := subscription.next(1)) is not None:  # what was read before
                seen += walls([batch])
            mistreated.start()
            while subscription.figures().delivered < Timestamp(last) or len(seen) < last:
                seen += walls([next_of(subscription)])
        assert seen == list(range(1, last + 1))


def test_retention_that_passes_a_paused_partition_is_a_lost_history(feed: HandFeed) -> None:
    for wall in range(1, _AHEAD + 1):
        feed.put(0, b"[1]", b'{"after": null, "before": null, "updated": "%d.0000000000"}' % wall, wall)
        if wall % 1_000 == 0:
            feed.mark(wall, 0)
    feed.mark(1, 1)
    with subscribe(
        "SUBSCRIBE accounts AS OF 1", feed.connection, app_id=feed.app_id, topic_prefix=feed.prefix
    ) as subscription:
        deadline = time.monotonic() + _COMES_S
        while not subscription.figures().paused:
            assert time.monotonic() < deadline
            subscription.next(0.1)
        for _ in range(3):
            subscription.next(0.1)
        delete_before(feed.connection.bootstrap_servers, feed.topic, 0, _AHEAD)
        feed.mark(_AHEAD, 1)
        with pytest.raises(HistoryLost) as lost:
            read_to(subscription, Timestamp(_AHEAD))
        assert (lost.value.topic, lost.value.partition) == (feed.topic, 0)


def test_what_comes_again_by_the_thousands_is_dropped(feed: HandFeed) -> None:
    write(feed, 1, 1_000)
    with opened(feed) as subscription:
        seen = walls([next_of(subscription)])
        for round_ in range(1, 6):
            for wall in range(1, 1_000):  # a worker that reads its log again, from further back each time
                feed.write(wall % 2, wall, wall, {"id": wall, "balance": wall, "note": ""})
            write(feed, 1_000 + round_, 1_000 + round_)
            seen += read_to(subscription, Timestamp(1_000 + round_))
        assert seen == list(range(1, 1_006))
        assert subscription.figures().repeats == 5 * 999
