"""``tidegate tail``: the lines of records, and which records of a real broker are read."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from tests.unit.client.feeds import definition, failed
from tests.unit.client.topic_texts import record, texts
from tests.unit.client.topics import create_topic, delete_topic, wait_until_forgotten, write
from tidegate.changefeed.definition.options import Envelope
from tidegate.changefeed.definition.oversize import Oversize
from tidegate.changefeed.encoding.csv_records import CsvDecoder
from tidegate.changefeed.encoding.json_decoder import JsonDecoder
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.client import tail
from tidegate.client.followed_feed import SILENCE_S, FollowedFeed
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.tail import TailFrom, line_of, tail_topics
from tidegate.hlc import Timestamp
from tidegate.verify import TopicRecord

VERSION = Timestamp(1_743_792_394_409_866_000, 2)


@pytest.mark.parametrize(("deleted", "what"), [(False, "row"), (True, "deletion")])
def test_a_row_that_was_too_large_says_so_and_which_version_it_is(deleted: bool, what: str) -> None:
    header = Oversize(1_234_567, deleted, VERSION, VERSION).header()
    record = TopicRecord("pets", 2, 7, b"[1]", b"", 0, [("tidegate-source", b"7/1/0"), header])
    assert line_of(record, JsonDecoder(Envelope.WRAPPED)) == (
        f"pets[2]@7 [1] -> left out: a {what} of 1234567 bytes, version 1743792394409866000.0000000002"
    )


def test_an_empty_value_that_nothing_explains_is_shown_as_its_bytes() -> None:
    record = TopicRecord("pets", 2, 7, b"[1]", b"", 0)
    assert line_of(record, JsonDecoder(Envelope.WRAPPED)) == "pets[2]@7 unreadable: key b'[1]' value b''"


@pytest.mark.parametrize(
    ("row", "shown"),
    [
        ("1,\x1b]0;owned\x07\x1b[2J", r"1,\u001b]0;owned\u0007\u001b[2J"),
        ('1,"a\npets[2]@8 [1] -> 2"', r'1,"a\u000apets[2]@8 [1] -> 2"'),
        ("1,\x7f\x9b2J\x00", r"1,\u007f\u009b2J\u0000"),
        ("1,a\tb\\c é \U0001f511", "1,a\tb\\c é \U0001f511"),
    ],
)
def test_control_characters_of_a_row_are_escaped(row: str, shown: str) -> None:
    csv = TopicRecord("pets", 2, 7, b"", row.encode(), 0)
    assert line_of(csv, CsvDecoder()) == f"pets[2]@7  -> {shown}"


def test_control_characters_of_json_are_escaped_as_json_escapes_them() -> None:
    row = TopicRecord("pets", 2, 7, b"[1]", '{"after": {"a": "\x9b2J"}}'.encode(), 0)
    line = line_of(row, JsonDecoder(Envelope.WRAPPED))
    assert line == r'pets[2]@7 [1] -> {"after": {"a": "\u009b2J"}}'
    assert json.loads(line.partition(" -> ")[2]) == {"after": {"a": "\x9b2J"}}


@pytest.mark.broker
def test_tail_from_the_beginning_ends_where_the_topic_ended(connection: KafkaConnection, topic: str) -> None:
    write(connection.bootstrap_servers, [record(topic, 0, "a"), record(topic, 1, "b")])
    read = list(tail_topics(connection, [topic], TailFrom.BEGINNING, follow=False))
    assert sorted(each.value or b"" for each in read) == [b"a", b"b"]


@pytest.mark.broker
def test_tail_from_the_end_without_following_is_empty(connection: KafkaConnection, topic: str) -> None:
    write(connection.bootstrap_servers, [record(topic, 0, "a")])
    assert list(tail_topics(connection, [topic], TailFrom.END, follow=False)) == []


@pytest.mark.broker
def test_tail_follows_from_the_end_on(connection: KafkaConnection, topic: str) -> None:
    write(connection.bootstrap_servers, [record(topic, 0, "old")])
    followed = tail_topics(connection, [topic], TailFrom.END, follow=True)
    write(connection.bootstrap_servers, [record(topic, 1, "new")])
    assert next(followed).value == b"new"
    followed.close()


@pytest.mark.broker
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


@pytest.mark.broker
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
            wait_until_forgotten(AdminClient({"bootstrap.servers": connection.bootstrap_servers}), deleted)
        return looks == 5

    topics = [deleted, topic]
    followed = list(tail_topics(connection, topics, TailFrom.BEGINNING, follow=True, ended=ended))
    assert sorted(each.value or b"" for each in followed if each.topic == topic) == [b"last", b"old"]


@pytest.mark.broker
def test_of_a_topic_that_goes_while_its_last_records_are_read_there_is_nothing_more(
    connection: KafkaConnection, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ends are known by then. What has come to the others is read, and once."""
    create_topic(connection.bootstrap_servers, deleted := f"{topic}-deleted")
    bounds_left, read_to_ends = tail._bounds_left, tail._read_to_ends

    def ended() -> bool:
        write(connection.bootstrap_servers, [record(name, 0, "last") for name in (deleted, topic)])
        return True

    def bounds_before_it_goes(*arguments: Any) -> Any:
        bounds = bounds_left(*arguments)
        delete_topic(connection.bootstrap_servers, deleted)
        wait_until_forgotten(AdminClient({"bootstrap.servers": connection.bootstrap_servers}), deleted)
        return bounds

    def read_soon(connection: KafkaConnection, starts: Any, bounds: Any) -> Any:
        """Nobody answers for the one that is gone. That is waited for a second, and all else for long."""
        has_gone = any(place.topic == deleted for place in bounds)
        return read_to_ends(replace(connection, timeout_s=1.0) if has_gone else connection, starts, bounds)

    monkeypatch.setattr(tail, "_bounds_left", bounds_before_it_goes)
    monkeypatch.setattr(tail, "_read_to_ends", read_soon)
    topics = [deleted, topic]
    followed = list(tail_topics(connection, topics, TailFrom.BEGINNING, follow=True, ended=ended))
    assert [each.value for each in followed if each.topic == topic] == [b"last"]


@pytest.mark.broker
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
