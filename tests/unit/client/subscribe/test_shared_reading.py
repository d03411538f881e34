"""Lost history on a real broker: each policy does what it says, and says what it did."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient

from stack.kafka import KafkaBroker
from tests.unit.client.subscribe.hand_feed import OPTIONS, HandFeed, account, next_of, opened
from tests.unit.client.topics import create_topic, wait_until_forgotten
from tidegate.client.subscribe import HistoryPolicy, LiveSubscription
from tidegate.client.subscribe.feed_catalog import SubscribableTable
from tidegate.client.subscribe.feed_history import FeedHistory
from tidegate.client.subscribe.state.generation_sweep import GenerationSweep
from tidegate.client.subscribe.state.sql_dialect import SQLITE
from tidegate.errors import BrokerUnavailable, HistoryLost, InputError
from tidegate.hlc import Timestamp
from tidegate.subscribe import ConsumerState, FeedPartition

pytestmark = pytest.mark.broker

UPSERT = "SUBSCRIBE accounts ENVELOPE UPSERT (KEY (id))"


@pytest.fixture
def feed(broker: KafkaBroker, topic_prefix: str) -> HandFeed:
    return HandFeed(broker.bootstrap, topic_prefix)


@pytest.fixture
def plain_feed(broker: KafkaBroker, topic_prefix: str) -> HandFeed:
    """A feed whose records do not tell the row before."""
    return HandFeed(broker.bootstrap, topic_prefix, options=replace(OPTIONS, diff=False))


def put(feed: HandFeed, wall: int, key: int, balance: int | None) -> None:
    """Write a row to a feed whose records do not tell the row before."""
    after = "null" if balance is None else f'{{"id": {key}, "balance": {balance}, "note": ""}}'
    feed.put(0, b"[%d]" % key, f'{{"after": {after}, "updated": "{wall}.0000000000"}}'.encode(), wall)


def delete_beginning(feed: HandFeed, before: int, partition: int = 0) -> None:
    """Delete the records of a partition below an offset, as retention does."""
    admin = AdminClient({"bootstrap.servers": feed.connection.bootstrap_servers})
    for deleted in admin.delete_records([KafkaPartition(feed.topic, partition, before)]).values():
        deleted.result(30)


def lose_beginning(feed: HandFeed) -> str:
    """A token whose records are deleted: the row at 20 was never read."""
    feed.write(0, 5, 1, account(1, 5))
    feed.mark(8)
    with opened(feed) as subscription:
        token = str(next_of(subscription).token)
    for wall in (20, 22):
        feed.write(0, wall, 1, account(1, wall), account(1, wall - 2))
        feed.mark(wall + 1)
    delete_beginning(feed, 4)  # the row at 20 and its marker
    return token


def test_by_default_it_stalls(feed: HandFeed) -> None:
    token = lose_beginning(feed)
    with pytest.raises(HistoryLost, match="goes on at offset"):
        opened(feed, token=token)


def test_skip_goes_on_from_what_is_readable_and_the_batch_names_the_loss(feed: HandFeed) -> None:
    token = lose_beginning(feed)
    with opened(feed, token=token, on_history_lost="skip") as subscription:
        assert subscription.as_of == Timestamp(23)
        feed.write(0, 24, 1, account(1, 24), account(1, 22))
        feed.mark(25)
        batch = next_of(subscription)
        assert [each[1:4] for each in batch.rows] == [(-1, 1, 22), (1, 1, 24)]
        loss = batch.loss
        assert loss is not None
        assert (loss.policy, loss.held, loss.as_of) == (
            HistoryPolicy.SKIP,
            Timestamp(8).next(),
            Timestamp(23),
        )
        assert loss.skipped
        assert (loss.cause.topic, loss.cause.partition) == (feed.topic, 0)
        assert not batch.is_snapshot
        assert subscription.figures().losses == 1
        feed.mark(26)
        assert next_of(subscription).loss is None
    feed.mark(27)
    with opened(feed, token=str(batch.token), on_history_lost="skip") as resumed:
        assert next_of(resumed).loss is None


def test_a_bound_within_what_is_lost_cannot_be_reached(feed: HandFeed) -> None:
    token = lose_beginning(feed)
    with pytest.raises(HistoryLost, match=r"To skip does not help: .* beyond its upper"):
        opened(feed, "SUBSCRIBE accounts UP TO 21", token=token, on_history_lost="skip")


def until_lost(subscription: LiveSubscription) -> None:
    """Read until it goes on after lost history."""
    while subscription.figures().losses == 0:
        assert subscription.next(0.1) is None


def test_a_subscription_that_retention_overtakes_skips_too(feed: HandFeed) -> None:
    feed.write(0, 5, 1, account(1, 5))
    feed.mark(8)
    with opened(feed, on_history_lost=HistoryPolicy.SKIP) as subscription:
        assert next_of(subscription).is_snapshot
        reader = subscription._reading._gate._reader
        reader.pause([FeedPartition(feed.topic, at) for at in range(feed.partitions)])
        for wall in (20, 22):
            feed.write(0, wall, 1, account(1, wall), account(1, wall - 2))
            feed.mark(wall + 1)
        delete_beginning(feed, 4)
        until_lost(subscription)  # the next marker comes only now
        feed.write(0, 24, 1, account(1, 24), account(1, 22))
        feed.mark(25)
        batch = next_of(subscription)
        assert batch.loss is not None
        assert batch.loss.held == Timestamp(8).next()
        assert [each[1:4] for each in batch.rows] == [(-1, 1, 22), (1, 1, 24)]
        assert subscription.figures().repeats == 1  # the row at 22, of the same millisecond


def test_while_kafka_is_away_the_loss_waits(feed: HandFeed, monkeypatch: pytest.MonkeyPatch) -> None:
    feed.mark(8)
    with opened(feed, on_history_lost="skip") as subscription:
        next_of(subscription)
        reading, now, away = subscription._reading, FeedHistory.now, ["once", "twice"]
        reading._lost = HistoryLost("records are deleted", feed.topic, 0, 3)

        def answer(table: SubscribableTable) -> FeedHistory:
            if away:
                raise BrokerUnavailable(f"no answer {away.pop()}")
            return now(table)

        monkeypatch.setattr(FeedHistory, "now", staticmethod(answer))
        assert subscription.next(0.0) is None
        assert away == ["once"]
        feed.mark(9)
        until_lost(subscription)
        feed.mark(10)
        batch = next_of(subscription)
        assert not away
        assert batch.loss is not None
        assert batch.loss.cause.offset == 3


def test_a_topic_without_its_beginning_has_no_new_snapshot_and_both_reasons_are_told(feed: HandFeed) -> None:
    token = lose_beginning(feed)
    with pytest.raises(
        HistoryLost, match=r"goes on at offset .* To resnapshot does not help: .* no snapshot"
    ):
        opened(feed, token=token, on_history_lost="resnapshot")


def test_rows_by_key_that_are_gone_are_a_new_snapshot(plain_feed: HandFeed) -> None:
    feed = plain_feed
    put(feed, 5, 1, 10)
    put(feed, 5, 2, 20)
    feed.mark(8)
    with opened(feed) as subscription:
        token = str(next_of(subscription).token)
    put(feed, 12, 2, None)
    put(feed, 12, 3, 30)
    feed.mark(13)
    with pytest.raises(HistoryLost, match="rows by key are gone"):
        opened(feed, token=token)
    with opened(feed, token=token, on_history_lost="resnapshot") as subscription:
        batch = next_of(subscription)
        held = Timestamp(8).next()
        assert batch.is_snapshot
        assert batch.loss is not None
        assert (batch.loss.held, batch.loss.as_of, batch.loss.skipped) == (held, held, False)
        assert batch.rows == (
            *((held, 1, 1, 10, ""), (held, 1, 2, 20, "")),
            *((Timestamp(12), -1, 2, 20, ""), (Timestamp(12), 1, 3, 30, "")),
        )


def test_rows_by_key_that_are_gone_are_read_again_and_nothing_is_skipped(plain_feed: HandFeed) -> None:
    feed = plain_feed
    put(feed, 5, 1, 10)
    feed.mark(8)
    with opened(feed) as subscription:
        token = str(next_of(subscription).token)
    put(feed, 12, 1, 11)
    feed.mark(13)
    with opened(feed, token=token, on_history_lost="skip") as subscription:
        batch = next_of(subscription)
        assert batch.rows == ((Timestamp(12), -1, 1, 10, ""), (Timestamp(12), 1, 1, 11, ""))
        assert batch.loss is not None
        assert not batch.loss.skipped


@pytest.mark.parametrize("policy", ["resnapshot", "skip"])
def test_a_damaged_key_table_is_read_again(plain_feed: HandFeed, tmp_path: Path, policy: str) -> None:
    feed, rows = plain_feed, tmp_path / "rows"
    put(feed, 5, 1, 10)
    feed.mark(8)
    with opened(feed, key_table=rows) as subscription:
        token = str(next_of(subscription).token)
    for file in rows.rglob("CURRENT"):
        file.write_bytes(b"damaged")
    put(feed, 12, 1, 11)
    feed.mark(13)
    with pytest.raises(HistoryLost):
        opened(feed, token=token, key_table=rows)
    with opened(feed, token=token, key_table=rows, on_history_lost=policy) as subscription:
        batch = next_of(subscription)
        assert batch.loss is not None
        assert batch.is_snapshot is (policy == "resnapshot")
        assert batch.rows[-2:] == ((Timestamp(12), -1, 1, 10, ""), (Timestamp(12), 1, 1, 11, ""))
    with opened(feed, token=str(batch.token), key_table=rows) as resumed:
        feed.mark(14)
        assert next_of(resumed).loss is None


def test_frontiers_of_a_stream_with_progress_do_not_fall_behind_a_loss(feed: HandFeed) -> None:
    token = lose_beginning(feed)
    statement = "SUBSCRIBE accounts WITH (PROGRESS)"
    with opened(feed, statement, token=token, on_history_lost="skip") as subscription:
        state = ConsumerState(subscription.header, resumed=True)
        for each in subscription.opening:
            assert state.push(each) is None
        feed.write(0, 24, 1, account(1, 24), account(1, 22))
        feed.mark(25)
        batch = next_of(subscription)
        released = [state.push(each) for each in batch.rows]
        assert [each.frontier for each in released if each is not None] == [batch.frontier]


def test_a_topic_that_is_there_anew_is_never_gone_on_with(feed: HandFeed) -> None:
    feed.write(0, 5, 1, account(1, 5))
    feed.mark(8)
    with opened(feed, on_history_lost="skip") as subscription:
        next_of(subscription)
        admin = AdminClient({"bootstrap.servers": feed.connection.bootstrap_servers})
        admin.delete_topics([feed.topic])[feed.topic].result(30)
        wait_until_forgotten(admin, feed.topic)
        create_topic(feed.connection.bootstrap_servers, feed.topic, feed.partitions)
        feed.mark(9)
        for _ in range(2):
            with pytest.raises(HistoryLost):
                subscription.next(60)


def test_what_was_never_delivered_is_not_lost(feed: HandFeed) -> None:
    """A begin that cannot be read is an error under every policy: nobody has asked to begin elsewhere."""
    lose_beginning(feed)
    for policy in HistoryPolicy:
        with pytest.raises(HistoryLost):
            opened(feed, on_history_lost=policy)


@pytest.mark.parametrize(
    ("statement", "policy", "more"),
    [
        ("SUBSCRIBE accounts WITH (SNAPSHOT = false)", "resnapshot", {}),
        ("SUBSCRIBE (SELECT * FROM accounts ORDER BY id LIMIT 1)", "skip", {}),
        (UPSERT, "skip", {"track_keys": True}),
    ],
)
def test_a_policy_that_a_statement_excludes_is_refused(
    feed: HandFeed, statement: str, policy: str, more: dict[str, Any]
) -> None:
    feed.mark(8)
    with pytest.raises(InputError, match="policy"):
        opened(feed, statement, on_history_lost=policy, **more)


def test_a_new_snapshot_with_a_sweep_leaves_what_the_table_has(plain_feed: HandFeed, tmp_path: Path) -> None:
    """As in docs/subscribe.md: rows that went while nobody looked go with the sweep."""
    feed = plain_feed
    target = sqlite3.connect(tmp_path / "target.db")
    target.execute("CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance, tidegate_generation)")
    sweep = GenerationSweep(target, SQLITE, "accounts")

    def mirror(**more: Any) -> str:
        """Mirror until the present; returns the token."""
        with opened(feed, **more) as subscription:
            batch = next_of(subscription)
            generation = sweep.begin()
            with target:
                for change in batch.net_changes():
                    after = change.after
                    if after is None:
                        target.execute("DELETE FROM accounts WHERE id = ?", change.key)
                    else:
                        values = (after["id"], after["balance"], generation)
                        target.execute("INSERT OR REPLACE INTO accounts VALUES (?, ?, ?)", values)
                if batch.is_snapshot:
                    sweep.sweep(generation)
            return str(batch.token)

    put(feed, 5, 1, 10)
    put(feed, 5, 2, 20)
    feed.mark(8)
    token = mirror()
    put(feed, 12, 1, None)
    put(feed, 12, 3, 30)
    feed.mark(13)
    mirror(token=token, on_history_lost="resnapshot")
    assert target.execute("SELECT id, balance FROM accounts ORDER BY id").fetchall() == [(2, 20), (3, 30)]
