"""A look at all feeds of an application on a real broker."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from stack.kafka import KafkaBroker
from tests.unit.client.subscribe.hand_feed import TRANSFERS, HandFeed
from tidegate.errors import InputError
from tidegate.serve.feeds import feed_lookup, shown_feed
from tidegate.serve.feeds.feed_lookup import FeedLookup

pytestmark = pytest.mark.broker


def test_a_look_has_every_feed_with_its_records_and_the_most_behind_are_explained(
    broker: KafkaBroker, topic_prefix: str
) -> None:
    feed = HandFeed(broker.bootstrap, topic_prefix)
    other = HandFeed(broker.bootstrap, topic_prefix, descriptors=(TRANSFERS.descriptor,), beside=feed)
    feed.write(0, 5, 1, {"id": 1, "balance": 2, "note": None})
    feed.mark(7)
    lookup = FeedLookup(feed.connection, feed.app_id)
    shown = {each.feed: each for each in lookup.look().feeds}
    assert [shown["feed"].status, shown["feed"].tables] == ["running", ("defaultdb.public.accounts",)]
    assert (shown["feed"].records, shown["transfers"].records) == (3, 0)
    assert shown["feed"].why[0].cause.value == "workers"
    feed.write(1, 8, 2, {"id": 2, "balance": 2, "note": None})
    feed.flush()
    first, second = FeedLookup(feed.connection, feed.app_id, most=1).look().feeds
    assert (first.feed, first.records, bool(first.why), first.error) == ("feed", 4, True, "")
    assert (second.feed, second.records, second.why) == ("transfers", None, ())
    assert "asks for 1 feeds at most" in second.error
    other.drop("transfers")
    assert [each.status for each in lookup.look().feeds] == ["running", "dropped"]


def test_an_application_that_is_not_there_is_an_error(broker: KafkaBroker, topic_prefix: str) -> None:
    feed = HandFeed(broker.bootstrap, topic_prefix)
    with pytest.raises(InputError, match="has no topic"):
        FeedLookup(feed.connection, f"{topic_prefix}nobody").look()


def test_a_worker_that_does_not_answer_is_named(broker: KafkaBroker, topic_prefix: str) -> None:
    feed = HandFeed(broker.bootstrap, topic_prefix)
    (shown,) = FeedLookup(feed.connection, feed.app_id, urls=("http://127.0.0.1:9",)).look().feeds
    assert "The worker at http://127.0.0.1:9 does not answer" in " ".join(each.sentence for each in shown.why)


def test_a_feed_that_cannot_be_explained_does_not_hide_the_others(
    broker: KafkaBroker, topic_prefix: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    feed = HandFeed(broker.bootstrap, topic_prefix)
    HandFeed(broker.bootstrap, topic_prefix, descriptors=(TRANSFERS.descriptor,), beside=feed)
    explained = shown_feed.explained_feed

    def defective(evidence: Any, records: int | None) -> Any:
        if evidence.feed_id == "transfers":
            raise ZeroDivisionError
        return explained(evidence, records)

    monkeypatch.setattr(feed_lookup, "explained_feed", defective)
    with caplog.at_level(logging.ERROR, "tidegate.serve"):
        shown = {each.feed: each for each in FeedLookup(feed.connection, feed.app_id).look().feeds}
    assert shown["feed"].why
    assert (shown["transfers"].why, shown["transfers"].status) == ((), "running")
    assert "the log of the server has" in shown["transfers"].error
    assert "ZeroDivisionError" in caplog.text
