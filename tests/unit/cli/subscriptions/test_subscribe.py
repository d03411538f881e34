"""``tidegate subscribe`` on a real broker."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from click.testing import Result
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from stack.kafka import KafkaBroker
from tests.unit.cli.running import NOBODY, run
from tests.unit.client.subscribe.hand_feed import HandFeed, next_of, opened
from tidegate.cli.subscriptions import batch_outputs
from tidegate.client.subscribe import HistoryLoss, HistoryPolicy, LiveSubscription
from tidegate.errors import HistoryLost
from tidegate.hlc import Timestamp
from tidegate.subscribe.updates.frontier import Frontier

_TOKEN = re.compile(r"--token (\S+)")


@pytest.fixture
def feed(broker: KafkaBroker, topic_prefix: str) -> HandFeed:
    """A feed with two accounts, complete up to 7."""
    feed = HandFeed(broker.bootstrap, topic_prefix)
    feed.write(0, 5, 1, {"id": 1, "balance": 10, "note": "a"})
    feed.write(1, 6, 2, {"id": 2, "balance": 20, "note": None})
    feed.mark(7)
    return feed


def subscribed(feed: HandFeed, *arguments: str) -> Result:
    """Return what the command prints for the feed."""
    kafka = ("-b", feed.connection.bootstrap_servers, "--app-id", feed.app_id, "--topic-prefix", feed.prefix)
    return run("subscribe", "--timeout", "60", *arguments, *kafka)


def lines(result: Result) -> list[dict[str, Any]]:
    """Return the lines of JSON."""
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


@contextmanager
def markers_going_on(feed: HandFeed, wall: int) -> Iterator[None]:
    """Markers from ``wall`` on, while a command runs."""
    ended = Event()

    def mark() -> None:
        for at in count(wall):
            feed.mark(at)
            if ended.wait(0.2):
                return

    with ThreadPoolExecutor(1) as threads:
        marking = threads.submit(mark)
        try:
            yield
        finally:
            ended.set()
        marking.result()


@pytest.mark.broker
def test_rows_are_lines_of_json_and_the_token_comes_last(feed: HandFeed) -> None:
    first = subscribed(feed, "SUBSCRIBE accounts", "--batches", "1")
    assert lines(first) == [
        {"mz_timestamp": "7.0000000000", "mz_diff": 1, "id": 1, "balance": 10, "note": "a"},
        {"mz_timestamp": "7.0000000000", "mz_diff": 1, "id": 2, "balance": 20, "note": None},
    ]
    token = _TOKEN.search(first.stderr)
    assert token is not None, first.stderr
    feed.write(0, 8, 1, None, {"id": 1, "balance": 10, "note": "a"})
    feed.mark(9)
    second = subscribed(feed, "SUBSCRIBE accounts", "--batches", "1", "--token", token[1])
    assert [(each["mz_diff"], each["id"]) for each in lines(second)] == [(-1, 1)]


@pytest.mark.broker
def test_csv_has_a_line_of_names(feed: HandFeed) -> None:
    statement = "SUBSCRIBE accounts ENVELOPE UPSERT (KEY (id)) AS OF 6 UP TO 7"
    result = subscribed(feed, statement, "--format", "csv")
    assert result.stdout.splitlines() == [
        "mz_timestamp,mz_state,id,balance,note",
        "6.0000000000,upsert,1,10,a",
        "6.0000000000,upsert,2,20,",
    ]


@pytest.mark.broker
def test_a_table_is_shown_as_it_is_at_the_frontier(feed: HandFeed) -> None:
    result = subscribed(
        feed, "SUBSCRIBE accounts ENVELOPE DEBEZIUM (KEY (id))", "--format", "table", "--batches", "1"
    )
    assert result.exit_code == 0, result.output
    shown = [line.split() for line in result.stdout.splitlines()]
    assert ["id", "balance", "note"] in shown
    assert ["1", "10", "a"] in shown
    assert ["2", "20"] in shown


@pytest.mark.broker
def test_a_table_stays_with_its_last_batch_however_soon_that_comes(
    feed: HandFeed, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(batch_outputs, "_REFRESH_S", 3600.0)
    with opened(feed, "SUBSCRIBE accounts ENVELOPE DEBEZIUM (KEY (id)) WITH (PROGRESS)") as subscription:
        output = batch_outputs.TableOutput(subscription)
        with output.shown():
            output.idle()
            output.deliver(next_of(subscription))
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["1", "10", "a"] in shown


@pytest.mark.broker
def test_a_table_without_a_snapshot_shows_what_came_since(feed: HandFeed) -> None:
    feed.write(0, 8, 1, {"id": 1, "balance": 11, "note": "new"}, {"id": 1, "balance": 10, "note": "a"})
    feed.write(1, 8, 2, None, {"id": 2, "balance": 20, "note": None})
    feed.mark(9)
    statement = "SUBSCRIBE accounts WITH (SNAPSHOT = false) AS OF 7"
    result = subscribed(feed, statement, "--format", "table", "--batches", "1")
    assert result.exit_code == 0, result.output
    shown = [line.split() for line in result.stdout.splitlines()]
    assert ["1", "11", "new"] in shown
    assert ["1", "10", "a"] not in shown
    assert ["2", "20"] not in shown


@pytest.mark.broker
def test_a_table_goes_on_behind_changes_that_were_skipped(feed: HandFeed) -> None:
    before = {"id": 1, "balance": 11, "note": "a"}
    with opened(feed, "SUBSCRIBE accounts WITH (PROGRESS)") as subscription:
        output = batch_outputs.TableOutput(subscription)
        output.deliver(next_of(subscription))
        feed.write(0, 8, 1, None, before)  # the row at 11 came among what was skipped
        feed.mark(9)
        batch = next_of(subscription)
        lost = HistoryLost("records are deleted", feed.topic, 0, 1)
        loss = HistoryLoss(HistoryPolicy.SKIP, Frontier(Timestamp(7, 1)), Timestamp(7, 5), lost)
        output.deliver(replace(batch, loss=loss))
        assert output._contents.rows() == [(1, 10, "a"), (2, 20, None)]


def test_a_table_takes_no_token_and_touches_nothing(tmp_path: Path) -> None:
    rows = tmp_path / "rows"
    token = ("--format", "table", "--token", "abc", "--key-table", str(rows))
    result = run("subscribe", "SUBSCRIBE flights", *token, *NOBODY)
    assert (result.exit_code, "Add --format json" in result.stderr) == (1, True)
    assert "To go on" not in result.stderr
    assert not rows.exists()


@pytest.mark.broker
def test_a_command_that_ends_before_its_first_batch_prints_no_token(
    feed: HandFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = _TOKEN.search(subscribed(feed, "SUBSCRIBE accounts", "--batches", "1").stderr)
    assert token is not None

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(LiveSubscription, "next", interrupted)
    result = subscribed(feed, "SUBSCRIBE accounts", "--token", token[1])
    assert (result.exit_code, result.stderr) == (0, "")


@pytest.mark.broker
def test_a_command_gets_the_rows_and_the_token_of_each_batch(feed: HandFeed, tmp_path: Path) -> None:
    script = tmp_path / "take.py"
    script.write_text(
        "import os, pathlib, sys\n"
        f"pathlib.Path({str(tmp_path / 'rows')!r}).write_text(sys.stdin.read())\n"
        f"pathlib.Path({str(tmp_path / 'token')!r}).write_text(os.environ['TIDEGATE_TOKEN'])\n"
    )
    command = f"{sys.executable} {script}"
    result = subscribed(feed, "SUBSCRIBE accounts", "--batches", "1", "--exec", command)
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in (tmp_path / "rows").read_text().splitlines()]
    assert [each["id"] for each in rows] == [1, 2]
    assert (tmp_path / "token").read_text() in result.stderr


@pytest.mark.broker
def test_a_batch_whose_command_fails_counts_as_not_delivered(feed: HandFeed) -> None:
    command = f"{sys.executable} -c 'raise SystemExit(3)'"
    result = subscribed(feed, "SUBSCRIBE accounts", "--exec", command)
    assert result.exit_code == 1
    assert "ended with status 3" in result.stderr
    assert not _TOKEN.search(result.stderr)


@pytest.mark.broker
def test_the_feed_has_to_be_named_where_several_have_the_table(feed: HandFeed) -> None:
    feed.define("other")
    result = subscribed(feed, "SUBSCRIBE accounts", "--batches", "1")
    assert result.exit_code == 1
    assert "Several feeds have" in result.stderr
    named = subscribed(feed, "SUBSCRIBE accounts", "--batches", "1", "--feed", "other")
    assert named.exit_code == 0, named.output


@pytest.mark.broker
def test_what_cannot_be_subscribed_to_is_refused_with_a_sentence(feed: HandFeed) -> None:
    unknown = subscribed(feed, "SUBSCRIBE nothing")
    assert (unknown.exit_code, "unknown catalog item 'nothing'" in unknown.stderr) == (1, True)
    assert "Hint: feeds write defaultdb.public.accounts." in unknown.stderr
    feed.drop()
    dropped = subscribed(feed, "SUBSCRIBE accounts", "--feed", "feed")
    assert (dropped.exit_code, "was dropped" in dropped.stderr) == (1, True)


def test_a_statement_is_read_before_kafka_is_asked() -> None:
    result = run("subscribe", "SUBSCRIBE flights ENVELOPE", *NOBODY)
    assert result.exit_code == 1
    assert "Expected one of" in result.stderr


@pytest.mark.parametrize("command", ["", "'"])
@pytest.mark.broker
def test_a_command_that_cannot_be_read_is_refused(feed: HandFeed, command: str) -> None:
    result = subscribed(feed, "SUBSCRIBE accounts", "--exec", command)
    assert (result.exit_code, "--exec" in result.stderr) == (1, True)


@pytest.mark.broker
def test_lost_history_is_skipped_if_asked_for_and_told(feed: HandFeed) -> None:
    first = subscribed(feed, "SUBSCRIBE accounts", "--batches", "1")
    token = _TOKEN.search(first.stderr)
    assert token is not None
    feed.write(0, 8, 1, {"id": 1, "balance": 11, "note": "a"}, {"id": 1, "balance": 10, "note": "a"})
    feed.mark(9)
    feed.write(0, 10, 1, None, {"id": 1, "balance": 11, "note": "a"})
    feed.mark(11)
    admin = AdminClient({"bootstrap.servers": feed.connection.bootstrap_servers})
    for deleted in admin.delete_records([TopicPartition(feed.topic, 0, 5)]).values():
        deleted.result(30)
    again = ("SUBSCRIBE accounts", "--batches", "1", "--token", token[1])
    stalled = subscribed(feed, *again)
    assert (stalled.exit_code, "goes on at offset" in stalled.stderr) == (1, True)
    with markers_going_on(feed, 12):
        skipped = subscribed(feed, *again, "--on-history-lost", "skip")
    assert skipped.exit_code == 0, skipped.output
    assert "are never delivered" in skipped.stderr


@pytest.mark.broker
def test_a_snapshot_in_chunks_has_its_token_behind_the_last_one(feed: HandFeed) -> None:
    for key in range(3, 20_000):
        feed.write(key % 2, 8, key, {"id": key, "balance": key, "note": "n" * 100})
    feed.mark(9)
    chunks = ("--snapshot-chunks", "--spill-above", "0", "--batches")
    first = subscribed(feed, "SUBSCRIBE accounts", *chunks, "1")
    assert 0 < len(first.stdout.splitlines()) < 19_999
    assert "--token" not in first.stderr
    whole = subscribed(feed, "SUBSCRIBE accounts AS OF 8 UP TO 9", *chunks, "99")
    assert sorted(json.loads(line)["id"] for line in whole.stdout.splitlines()) == list(range(1, 20_000))
    assert "--token" in whole.stderr
