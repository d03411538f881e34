"""``tidegate tail`` on a real broker."""

from __future__ import annotations

import threading

import pytest

from tests.unit.cli.fed_topics import TABLE, Fed, FedAside, Topic, fed_row
from tests.unit.cli.running import run
from tests.unit.client.feeds import tell
from tests.unit.verify.streams import at, marker
from tidegate.changefeed.definition.feed import FIRST_EPOCH, FeedState, FeedTarget, TableName
from tidegate.changefeed.lifecycle.job_records import StateRecord

pytestmark = pytest.mark.broker


def test_tail_prints_rows_and_markers(topic: Topic) -> None:
    topic.write(topic.row(2, 5), marker(at(9), topic.name, 1))
    result = run("tail", topic.name, *topic.kafka)
    value = (topic.row(2, 5).value or b"").decode()
    assert result.stdout.splitlines() == [
        f"{topic.name}[1]@0 [2] -> {value}",
        f"{topic.name}[1]@1 resolved 9000000.0000000000",
    ]


def test_tail_stops_at_its_limit(topic: Topic) -> None:
    topic.write(*[topic.row(2, ms) for ms in range(1, 9)])
    assert len(run("tail", topic.name, "-n", "3", *topic.kafka).stdout.splitlines()) == 3


def test_tail_shows_what_is_unreadable_as_it_is(topic: Topic) -> None:
    topic.write(marker(at(5), topic.name, 0)._replace(value=b"\xff{"))
    assert run("tail", topic.name, *topic.kafka).stdout == (
        f"{topic.name}[0]@0 unreadable: key None value b'\\xff{{'\n"
    )


def test_tail_of_a_feed_shows_the_markers_of_a_topic_of_their_own(fed_aside: FedAside) -> None:
    fed_aside.write(*fed_aside.both(9, 0, 5))
    lines = run("tail", *fed_aside.feed, *fed_aside.kafka).stdout.splitlines()
    assert sorted(lines) == [
        f"{fed_aside.aside}[{i}]@0 resolved 9000000.0000000000: {fed_aside.name} below {end}"
        for i, end in enumerate((0, 5))
    ]


def _ends(fed: Fed, state: FeedState, error: str = "") -> None:
    feed = fed.definition
    target = FeedTarget(TableName("accounts"), TABLE.id, fed.name, 2, ())
    tell(fed.bootstrap, fed.prefix, StateRecord(feed.id, FIRST_EPOCH, state, at(2), (target,), error=error))


def test_following_a_scan_ends_when_it_is_complete(fed: Fed) -> None:
    fed.write(fed_row(fed, 2, 3, 7))

    def scan() -> None:
        fed.write(fed_row(fed, 1, 3, 8))
        _ends(fed, FeedState.SUCCEEDED)

    rest = threading.Timer(1, scan)
    rest.start()
    result = run("tail", *fed.feed, "--follow", "--from", "beginning", *fed.kafka)
    rest.join()
    assert result.exit_code == 0
    assert [line.partition(" ")[0] for line in sorted(result.stdout.splitlines())] == [
        f"{fed.name}[0]@0",
        f"{fed.name}[1]@0",
    ]
    assert "has succeeded: its scan is complete" in result.stderr


def test_following_a_feed_that_fails_says_why(fed: Fed) -> None:
    fed.write(fed_row(fed, 2, 3, 7))
    _ends(fed, FeedState.FAILED, "log partition 3: no such column")
    result = run("tail", *fed.feed, "--follow", "--from", "beginning", *fed.kafka)
    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) == 1
    assert "has failed, and nothing has come for 2 s; a worker that" in result.stderr
    assert "The reason: log partition 3: no such column" in result.stderr


def test_following_a_dropped_feed_ends(fed: Fed) -> None:
    _ends(fed, FeedState.DROPPED)
    result = run("tail", *fed.feed, "--follow", *fed.kafka)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "was dropped, and nothing has come for 2 s; a worker that has not heard of it may" in result.stderr


def test_the_limit_is_no_end_of_the_feed(fed: Fed) -> None:
    fed.write(fed_row(fed, 2, 3, 7))
    result = run("tail", *fed.feed, "--follow", "--from", "beginning", "-n", "1", *fed.kafka)
    assert (result.exit_code, result.stderr) == (0, "")


def test_a_feed_that_failed_before_it_started_has_nothing_to_follow(fed: Fed) -> None:
    record = StateRecord(fed.definition.id, FIRST_EPOCH, FeedState.FAILED, error="no such table")
    tell(fed.bootstrap, fed.prefix, record)
    result = run("tail", *fed.feed, "--follow", *fed.kafka)
    assert result.exit_code == 1
    assert "is failed and never had any topics: no such table." in result.stderr
