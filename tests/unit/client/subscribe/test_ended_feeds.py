"""Topics that pass to another feed under an open subscription: it ends where its own feed has ended."""

from __future__ import annotations

import time
from concurrent.futures import Future
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from stack.kafka import KafkaBroker
from tests.unit.client.subscribe.hand_feed import COMES_S, HandFeed, account, next_of, opened
from tidegate.changefeed.definition.feed import FeedId, FeedState
from tidegate.client.jobs import JobsReading
from tidegate.client.kafka.reader import PartitionReader
from tidegate.client.subscribe.ended_feeds import EndedFeeds, JobsPlace, SharedJobs
from tidegate.errors import InputError, ObjectDropped
from tidegate.hlc import Timestamp

pytestmark = pytest.mark.broker


@pytest.fixture
def feed(broker: KafkaBroker, topic_prefix: str) -> HandFeed:
    """A feed that has written a row, and whose high-water is that of its marker."""
    made = HandFeed(broker.bootstrap, topic_prefix)
    made.write(0, 5, 1, account(1, 10))
    made.persist(7)
    made.mark(7)
    return made


def test_rows_of_a_later_feed_are_not_given_for_its_own(feed: HandFeed) -> None:
    """The row may have been deleted in between: nobody wrote that."""
    with opened(feed) as subscription:
        assert [each[1:] for each in next_of(subscription).rows] == [(1, 1, 10, "")]
        feed.drop()
        feed.define("later", start=Timestamp(9))
        feed.write(1, 9, 2, account(2, 20))
        feed.persist(11, "later")
        feed.mark(11)
        with pytest.raises(ObjectDropped, match=r"feed feed has ended, complete up to 7\.0000000000; what"):
            subscription.next(COMES_S)


def test_all_up_to_the_end_of_the_feed_is_given(feed: HandFeed) -> None:
    with opened(feed) as subscription:
        next_of(subscription)
        feed.write(0, 8, 1, account(1, 11), account(1, 10))
        feed.persist(9)
        feed.mark(9)
        feed.drop()
        assert next_of(subscription).frontier == Timestamp(9).next()
        assert subscription.next(0.3) is None


def test_a_call_that_does_not_wait_looks_too(feed: HandFeed) -> None:
    with opened(feed) as subscription:
        until = time.monotonic() + COMES_S
        while (batch := subscription.next(0)) is None:
            assert time.monotonic() < until
        assert [each[1:] for each in batch.rows] == [(1, 1, 10, "")]


def test_records_that_were_there_at_the_beginning_are_asked_for_once(
    feed: HandFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever catches up opens the gate again and again, and must not wait for Kafka each time."""
    asked: list[float] = []
    ask = EndedFeeds.ask

    def count(ends: EndedFeeds) -> None:
        asked.append(time.monotonic())
        ask(ends)

    monkeypatch.setattr(EndedFeeds, "ask", count)
    last = 60
    for wall in range(8, last + 1):
        feed.persist(wall)
        feed.mark(wall)
    with opened(feed, "SUBSCRIBE accounts WITH (PROGRESS) AS OF 7") as subscription:
        batches = 0
        while next_of(subscription).frontier != Timestamp(last).next():
            batches += 1
    assert len(asked) <= 4, batches


def test_a_jobs_topic_that_is_away_is_waited_for(feed: HandFeed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is given until it is known whose it is."""
    look = EndedFeeds.look
    with opened(feed) as subscription:
        with monkeypatch.context() as patched:
            patched.setattr(EndedFeeds, "look", lambda *_: False)
            assert subscription.next(1.0) is None
        assert EndedFeeds.look is look
        assert [each[1:] for each in next_of(subscription).rows] == [(1, 1, 10, "")]


@pytest.mark.parametrize(
    ("code", "is_final"),
    [
        (KafkaError.FENCED_LEADER_EPOCH, False),
        (KafkaError._TRANSPORT, False),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, True),
    ],
)
def test_an_answer_that_passes_is_asked_for_again(
    feed: HandFeed, code: int, is_final: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that has just come back knows an older leader epoch, for a moment."""
    ends = EndedFeeds(JobsPlace(feed.connection, feed.app_id), {FeedId("feed")})
    failed: Future[Any] = Future()
    failed.set_exception(KafkaException(KafkaError(code, "not now")))
    monkeypatch.setattr(ends, "_asked", failed)
    with closing(ends):
        if is_final:
            with pytest.raises(InputError, match="not now"):
                ends.look(0.1)
            return
        assert not ends.look(0.1)
        assert ends.look(COMES_S)
        assert ends.first() is None


@pytest.mark.parametrize("code", [KafkaError.FENCED_LEADER_EPOCH, KafkaError._TRANSPORT])
def test_who_looks_without_waiting_is_not_kept_and_asks_no_broker_each_time(
    feed: HandFeed, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A subscription looks at each poll, between its records."""
    ends = EndedFeeds(JobsPlace(feed.connection, feed.app_id), {FeedId("feed")})
    asked: list[float] = []

    def refuse() -> None:
        asked.append(time.monotonic())
        failed: Future[Any] = Future()
        failed.set_exception(KafkaException(KafkaError(code, "not now")))
        ends._asked = failed

    with closing(ends):
        ends.ask()
        assert ends.look(COMES_S)
        monkeypatch.setattr(ends, "ask", refuse)
        ends.ask()
        begun = time.monotonic()
        for _ in range(1_000):
            assert not ends.look(0.0)
        took_s = time.monotonic() - begun
        assert len(asked) <= 2 + took_s / 0.5
        assert took_s < COMES_S


def deleted(*_: object) -> None:
    """What reading raises when records are gone."""
    raise InputError("deleted")


def test_gates_that_share_a_reading_of_the_jobs_topic_see_what_stood_there_when_each_asked(
    feed: HandFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers: list[PartitionReader] = []
    opened_by = PartitionReader.__init__

    def count(reader: PartitionReader, *arguments: Any) -> None:
        readers.append(reader)
        opened_by(reader, *arguments)

    monkeypatch.setattr(PartitionReader, "__init__", count)
    application = JobsPlace(feed.connection, feed.app_id)
    with closing(SharedJobs(application)) as jobs:
        first, second = (EndedFeeds(application, {FeedId("feed")}, jobs) for _ in range(2))
        with closing(first), closing(second):
            first.ask()
            assert first.look(COMES_S)
            assert first.first() is None
            feed.drop()
            second.ask()
            assert second.look(COMES_S)
            end = second.first()
            assert end is not None
            assert (end.high_water, end.state) == (Timestamp(7), FeedState.DROPPED)
        assert len(readers) == 1
        monkeypatch.setattr(JobsReading, "poll", deleted)
        feed.persist(8)
        third = EndedFeeds(application, {FeedId("feed")}, jobs)
        third.ask()
        with pytest.raises(InputError, match="deleted"):
            third.look(COMES_S)
        monkeypatch.undo()  # the next look begins anew
        assert third.look(COMES_S)
        assert third.first() == end._replace(high_water=Timestamp(8))
