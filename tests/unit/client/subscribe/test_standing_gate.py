"""The end of a feed whose topics nobody takes, while a subscription is open: it does not wait for ever."""

from __future__ import annotations

import asyncio
import time

import pytest

from stack.kafka import KafkaBroker
from tests.unit.client.subscribe.hand_feed import (
    COMES_S,
    OPTIONS,
    TRANSFERS,
    HandFeed,
    account,
    next_of,
    opened,
)
from tidegate.changefeed.definition.feed import FeedState
from tidegate.client.subscribe import standing_gate, subscribe_together
from tidegate.client.subscribe.ended_feeds import EndedFeeds
from tidegate.client.subscribe.feed_reader import FeedReader, PartitionRecords
from tidegate.errors import ObjectDropped
from tidegate.hlc import Timestamp

pytestmark = pytest.mark.broker


@pytest.fixture
def feed(broker: KafkaBroker, topic_prefix: str, monkeypatch: pytest.MonkeyPatch) -> HandFeed:
    """A feed that has written a row, and whose high-water is that of its marker."""
    monkeypatch.setattr(standing_gate, "LOOK_S", 0.1)
    made = HandFeed(broker.bootstrap, topic_prefix, options=OPTIONS)
    made.write(0, 5, 1, account(1, 10))
    made.persist(7)
    made.mark(7)
    return made


def end(feed: HandFeed, state: FeedState) -> None:
    if state is FeedState.DROPPED:
        feed.drop()
    else:
        feed.end(state, "its topic is full" if state is FeedState.FAILED else "")


@pytest.mark.parametrize(
    ("state", "fault"),
    [
        (FeedState.DROPPED, r"feed feed was dropped, and is complete up to 7\.0{10}\. Nothing follows"),
        (FeedState.FAILED, r"feed feed has failed \(its topic is full\), and is complete up to 7\.0{10}\."),
    ],
)
def test_a_feed_that_was_dropped_or_has_failed_ends_it(feed: HandFeed, state: FeedState, fault: str) -> None:
    with opened(feed) as subscription:
        assert [each[1:] for each in next_of(subscription).rows] == [(1, 1, 10, "")]
        feed.write(0, 9, 1, account(1, 11), account(1, 10))  # no marker is ever above it
        end(feed, state)
        for _ in range(2):
            with pytest.raises(ObjectDropped, match=fault) as caught:
                subscription.next(COMES_S)
        assert caught.value.sqlstate == "42704"


def test_a_feed_that_has_succeeded_ends_the_loop(feed: HandFeed) -> None:
    with opened(feed) as subscription:
        batches = []
        for batch in subscription:
            batches.append(batch)
            feed.end(FeedState.SUCCEEDED)
        assert [len(batch.rows) for batch in batches] == [1]
        assert subscription.ended
        assert subscription.next() is None


def test_a_loop_of_asyncio_ends_too(feed: HandFeed) -> None:
    async def read() -> int:
        count = 0
        async with opened(feed) as subscription:
            async for _ in subscription:
                feed.end(FeedState.SUCCEEDED)
                count += 1
        return count

    assert asyncio.run(asyncio.wait_for(read(), COMES_S)) == 1


def test_a_feed_that_had_succeeded_before_is_given_whole(feed: HandFeed) -> None:
    feed.end(FeedState.SUCCEEDED)
    with opened(feed, feed="feed") as subscription:
        assert [len(batch.rows) for batch in subscription] == [1]


def test_a_feed_that_has_succeeded_below_as_of_has_no_snapshot(feed: HandFeed) -> None:
    feed.end(FeedState.SUCCEEDED)
    with (
        opened(feed, "SUBSCRIBE accounts AS OF 9", feed="feed") as subscription,
        pytest.raises(ObjectDropped, match="below AS OF, so there is no snapshot"),
    ):
        subscription.next(COMES_S)


def test_without_a_snapshot_a_feed_that_has_succeeded_just_ends(feed: HandFeed) -> None:
    feed.end(FeedState.SUCCEEDED)
    with opened(feed, "SUBSCRIBE accounts WITH (SNAPSHOT = false) AS OF 7", feed="feed") as subscription:
        assert list(subscription) == []


@pytest.mark.parametrize("state", [FeedState.DROPPED, FeedState.SUCCEEDED])
def test_the_last_marker_is_waited_for(feed: HandFeed, state: FeedState) -> None:
    with opened(feed) as subscription:
        next_of(subscription)
        feed.write(0, 8, 1, account(1, 11), account(1, 10))
        feed.persist(9)
        end(feed, state)
        assert subscription.next(2.0) is None
        assert not subscription.ended
        feed.mark(9)
        assert next_of(subscription).frontier == Timestamp(9).next()
        if state is FeedState.DROPPED:
            with pytest.raises(ObjectDropped, match="complete up to 9"):
                subscription.next(COMES_S)
        else:
            assert list(subscription) == []


@pytest.mark.parametrize("state", [FeedState.DROPPED, FeedState.SUCCEEDED])
def test_a_last_marker_that_never_comes_is_not_waited_for_for_ever(
    feed: HandFeed, state: FeedState, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An owner that was fenced between progress and marker writes none; nobody says that 9 is complete."""
    monkeypatch.setattr(standing_gate, "LAST_MARKER_S", 0.5)
    with opened(feed) as subscription:
        next_of(subscription)
        feed.write(0, 8, 1, account(1, 11), account(1, 10))
        feed.persist(9)
        end(feed, state)
        with pytest.raises(
            ObjectDropped, match=r"complete up to 7\..* high-water is 9\..* whose marker has not come"
        ):
            subscription.next(COMES_S)


def patience(timeout_s: float) -> list[PartitionRecords]:
    """No record, after a while."""
    time.sleep(min(timeout_s, 0.05))
    return []


def test_what_was_not_read_yet_is_read_before_the_end(
    feed: HandFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standing_gate, "LAST_MARKER_S", 0.0)
    with opened(feed) as subscription:
        next_of(subscription)
        with monkeypatch.context() as patched:
            patched.setattr(FeedReader, "poll", lambda _, timeout_s: patience(timeout_s))
            feed.persist(9)
            feed.mark(9)
            feed.drop()
            patched.setattr(FeedReader, "at_ends", lambda _: False)
            assert subscription.next(1.0) is None
        assert next_of(subscription).frontier == Timestamp(9).next()


def test_the_end_of_one_feed_ends_all_members(feed: HandFeed, broker: KafkaBroker) -> None:
    moves = HandFeed(broker.bootstrap, feed.prefix, 1, descriptors=(TRANSFERS.descriptor,), beside=feed)
    moves.mark(7)
    statements = {"accounts": "SUBSCRIBE accounts", "moves": "SUBSCRIBE transfers"}
    with subscribe_together(
        statements, feed.connection, app_id=feed.app_id, topic_prefix=feed.prefix
    ) as subscription:
        next_of(subscription)
        moves.mark(20)  # the other feed goes on
        feed.drop()
        with pytest.raises(ObjectDropped, match="feed feed was dropped"):
            subscription.next(COMES_S)


def test_a_gate_that_another_feed_holds_back_gives_all_of_a_feed_that_has_ended(
    feed: HandFeed, broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last marker of the feed is there, so it is not that one that is waited for."""
    monkeypatch.setattr(standing_gate, "LAST_MARKER_S", 0.2)
    moves = HandFeed(broker.bootstrap, feed.prefix, 1, descriptors=(TRANSFERS.descriptor,), beside=feed)
    moves.mark(7)
    statements = {"accounts": "SUBSCRIBE accounts", "moves": "SUBSCRIBE transfers"}
    with subscribe_together(
        statements, feed.connection, app_id=feed.app_id, topic_prefix=feed.prefix
    ) as subscription:
        next_of(subscription)
        feed.write(0, 8, 1, account(1, 11), account(1, 10))
        feed.persist(9)
        feed.mark(9)
        feed.drop()
        assert subscription.next(2.0) is None
        moves.mark(12)
        assert next_of(subscription).frontier == Timestamp(9).next()
        with pytest.raises(ObjectDropped, match="feed feed was dropped, and is complete up to 9"):
            subscription.next(COMES_S)


def test_a_gate_that_stands_asks_now_and_then_and_a_feed_that_goes_on_ends_nothing(
    feed: HandFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []
    ask = EndedFeeds.ask

    def count(ends: EndedFeeds) -> None:
        asked.append(time.monotonic())
        ask(ends)

    monkeypatch.setattr(EndedFeeds, "ask", count)
    with opened(feed) as subscription:
        next_of(subscription)
        monkeypatch.setattr(standing_gate, "LOOK_S", 0.5)
        asked.clear()
        assert subscription.next(3.0) is None
    assert 1 <= len(asked) <= 7


def test_a_jobs_topic_that_does_not_answer_ends_nothing(
    feed: HandFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(feed) as subscription:
        next_of(subscription)
        feed.drop()
        with monkeypatch.context() as patched:
            patched.setattr(EndedFeeds, "look", lambda *_: False)
            assert subscription.next(1.0) is None
        with pytest.raises(ObjectDropped):
            subscription.next(COMES_S)
