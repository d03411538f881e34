"""Tests how long the topics of a feed are followed once it has ended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.client.feeds import definition, failed, running, succeeded
from tidegate.changefeed.definition.feed import FeedState
from tidegate.changefeed.lifecycle.job_records import DropRecord, StateRecord
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.client.followed_feed import AT_MOST_S, SILENCE_S, FollowedFeed

_DROPPED = replace(running(), state=FeedState.DROPPED)


class Followed:
    """A feed that is followed, on a clock of its own."""

    def __init__(self, state: StateRecord | None = None) -> None:
        self.now_s = 1_000.0
        self.feed: FeedView | None = FeedView(definition(), state=state)
        self.watch = FollowedFeed(lambda: self.feed, lambda: self.now_s)

    def reached_after(self, seconds: float) -> bool:
        self.now_s += seconds
        return self.watch.has_ended()


@pytest.mark.parametrize("state", [None, running()])
def test_a_feed_that_has_not_ended_is_followed(state: StateRecord | None) -> None:
    followed = Followed(state)
    assert not followed.reached_after(0)
    assert not followed.reached_after(10 * AT_MOST_S)


def test_a_feed_of_which_nothing_is_known_yet_is_followed() -> None:
    followed = Followed()
    followed.feed = None
    assert not followed.reached_after(10 * AT_MOST_S)


def test_a_drop_that_is_only_wished_for_is_no_end() -> None:
    followed = Followed(running())
    followed.feed = FeedView(definition(), DropRecord(definition().id, 1), running())
    assert not followed.reached_after(10 * AT_MOST_S)


def test_a_scan_that_is_complete_needs_no_silence() -> None:
    followed = Followed(succeeded())
    followed.watch.record_came()
    assert followed.reached_after(0)


@pytest.mark.parametrize("state", [failed("no such column"), _DROPPED])
def test_the_silence_begins_when_the_end_is_known(state: StateRecord) -> None:
    followed = Followed(running())
    assert not followed.reached_after(10 * SILENCE_S)
    followed.feed = FeedView(definition(), state=state)
    assert not followed.reached_after(0)
    assert not followed.reached_after(SILENCE_S - 0.1)
    assert followed.reached_after(0.1)
    assert "nothing has come for 2 s; a worker that has not heard of it may" in followed.watch.outlook()


def test_each_record_begins_the_silence_anew() -> None:
    followed = Followed(_DROPPED)
    assert not followed.reached_after(0)
    for _ in range(10):
        followed.now_s += SILENCE_S - 0.1
        followed.watch.record_came()
        assert not followed.reached_after(0)
    assert followed.reached_after(SILENCE_S)


def test_nothing_is_called_silent_of_which_rows_were_read_on_to_the_end() -> None:
    """What had come while nobody looked is read when the topics are followed no longer."""
    followed = Followed(_DROPPED)
    assert not followed.reached_after(0)
    assert followed.reached_after(SILENCE_S)
    followed.watch.record_came()
    assert "rows came to the last; more may follow until every worker" in followed.watch.outlook()


def test_topics_that_are_not_silent_are_given_up_in_the_end() -> None:
    followed = Followed(failed("no such column"))
    seconds = 0
    while not followed.reached_after(0):
        followed.now_s += 1
        followed.watch.record_came()
        seconds += 1
    assert seconds == AT_MOST_S
    assert "rows still came 60 s later; more may follow" in followed.watch.outlook()


def test_a_feed_that_is_created_anew_is_followed_on() -> None:
    followed = Followed(_DROPPED)
    assert not followed.reached_after(0)
    followed.feed = FeedView(definition(), state=running())
    assert not followed.reached_after(SILENCE_S)
    followed.feed = FeedView(definition(), state=_DROPPED)
    assert not followed.reached_after(SILENCE_S)
    assert followed.reached_after(SILENCE_S)
