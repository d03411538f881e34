"""A subscription of a topic on a real broker: complete batches, tokens, and what ends it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from stack.kafka import KafkaBroker
from tests.hand_log import HandTable
from tests.unit.client.subscribe.hand_feed import (
    COMES_S,
    OPTIONS,
    HandFeed,
    account,
    next_of,
    opened,
)
from tests.unit.client.topics import create_topic, delete_before, wait_until_forgotten
from tidegate.changefeed.definition.options import InitialScan
from tidegate.client.subscribe import DeliveredBatch, SpillSettings
from tidegate.errors import HistoryLost, InputError, ObjectDropped, PromiseBroken, TokenRefused
from tidegate.hlc import Timestamp

pytestmark = pytest.mark.broker

UPSERT = "SUBSCRIBE accounts ENVELOPE UPSERT (KEY (id)) WITH (PROGRESS)"


@pytest.fixture
def feed(broker: KafkaBroker, topic_prefix: str) -> HandFeed:
    return HandFeed(broker.bootstrap, topic_prefix)


def test_a_batch_has_what_is_complete_in_all_partitions(feed: HandFeed) -> None:
    feed.write(0, 5, 1, account(1, 10))
    feed.write(1, 6, 2, account(2, 20))
    feed.mark(7)
    feed.write(0, 8, 1, account(1, 11), account(1, 10))
    feed.mark(9, 0)
    with opened(feed) as subscription:
        snapshot = next_of(subscription)
        assert subscription.header == ("mz_timestamp", "mz_diff", "id", "balance", "note")
        assert subscription.as_of == Timestamp(7)
        assert snapshot.is_snapshot
        assert [each[1:] for each in snapshot.rows] == [(1, 1, 10, ""), (1, 2, 20, "")]
        assert subscription.next(0.3) is None  # partition 1 has no marker above 7
        feed.mark(9, 1)
        change = next_of(subscription)
        assert change.rows == ((Timestamp(8), -1, 1, 10, ""), (Timestamp(8), 1, 1, 11, ""))
        assert change.frontier == Timestamp(9).next()


def test_a_call_that_does_not_wait_delivers_what_is_there(feed: HandFeed) -> None:
    feed.write(0, 5, 1, account(1, 10))
    feed.mark(7)
    with opened(feed) as subscription:
        until = time.monotonic() + COMES_S
        while (batch := subscription.next(0)) is None and time.monotonic() < until:
            pass  # librdkafka fetches meanwhile
        assert batch is not None
        assert [each[1:] for each in batch.rows] == [(1, 1, 10, "")]
        assert subscription.next(0) is None


def test_a_token_goes_on_behind_its_batch(feed: HandFeed) -> None:
    feed.write(0, 5, 1, account(1, 10))
    feed.mark(7)
    feed.write(0, 12, 1, account(1, 12), account(1, 11))  # above the token, and before its marker
    with opened(feed, UPSERT) as subscription:
        assert subscription.opening == ((Timestamp(7), True, None, None, None, None),)
        token = str(next_of(subscription).token)
    feed.write(0, 8, 2, account(2, 20))
    feed.mark(13)
    with opened(feed, UPSERT, token=token) as resumed:
        batch = next_of(resumed)
        assert not batch.is_snapshot
        assert batch.rows == (
            (Timestamp(8), False, "upsert", 2, 20, ""),
            (Timestamp(12), False, "upsert", 1, 12, ""),
            (Timestamp(13).next(), True, None, None, None, None),
        )


def test_a_token_of_a_topic_that_was_created_anew_is_refused(feed: HandFeed) -> None:
    feed.mark(7)
    with opened(feed) as subscription:
        token = str(next_of(subscription).token)
    admin = AdminClient({"bootstrap.servers": feed.connection.bootstrap_servers})
    admin.delete_topics([feed.topic])[feed.topic].result(30)
    wait_until_forgotten(admin, feed.topic)
    create_topic(feed.connection.bootstrap_servers, feed.topic, feed.partitions)
    feed.mark(9)
    with pytest.raises(TokenRefused):
        opened(feed, token=token)


def test_without_a_snapshot_it_begins_above_as_of(feed: HandFeed) -> None:
    second = 1_000_000_000
    feed.write(0, 5 * second, 1, account(1, 10))
    feed.write(0, 7 * second, 1, account(1, 11), account(1, 10))
    feed.mark(8 * second)
    statement = f"SUBSCRIBE accounts WITH (SNAPSHOT = false) AS OF {5 * second}"
    with opened(feed, statement) as subscription:
        assert [each[1:] for each in next_of(subscription).rows] == [(-1, 1, 10, ""), (1, 1, 11, "")]


def test_the_first_rows_of_an_order_are_of_the_whole_table_without_a_snapshot_too(feed: HandFeed) -> None:
    second = 1_000_000_000
    feed.write(0, 5 * second, 1, account(1, 10))
    feed.write(0, 7 * second, 2, account(2, 20))
    feed.mark(8 * second)
    query = "SELECT id FROM accounts ORDER BY id LIMIT 1"
    statement = f"SUBSCRIBE ({query}) WITH (SNAPSHOT = false) AS OF {6 * second}"
    with opened(feed, statement) as subscription:
        assert next_of(subscription).rows == ()  # row 2 is not the first: row 1 was there before
        feed.write(0, 9 * second, 1, None, account(1, 10))
        feed.mark(10 * second)
        assert [each[1:] for each in next_of(subscription).rows] == [(-1, 1), (1, 2)]


def test_keys_are_tracked_from_a_snapshot_on_alone(feed: HandFeed) -> None:
    feed.mark(8)
    with pytest.raises(InputError, match="track_keys"):
        opened(feed, UPSERT.replace("PROGRESS", "SNAPSHOT = false"), track_keys=True)


def test_it_ends_at_up_to(feed: HandFeed) -> None:
    feed.write(0, 5, 1, account(1, 10))
    feed.write(0, 7, 1, account(1, 11), account(1, 10))
    feed.mark(8)
    with opened(feed, "SUBSCRIBE accounts AS OF 5 UP TO 7") as subscription:
        batches = list(subscription)
        assert [each.is_last for each in batches] == [True]
        assert [each[1:] for batch in batches for each in batch.rows] == [(1, 1, 10, "")]
        assert subscription.next(0) is None


def test_rows_that_records_do_not_tell_come_from_the_table_of_rows(
    broker: KafkaBroker, topic_prefix: str
) -> None:
    feed = HandFeed(broker.bootstrap, topic_prefix, options=replace(OPTIONS, diff=False))
    feed.put(0, b"[1]", b'{"after": {"id": 1, "balance": 10, "note": ""}, "updated": "5.0000000000"}', 5)
    feed.put(0, b"[1]", b'{"after": null, "updated": "8.0000000000"}', 8)
    feed.mark(9)
    with opened(feed, "SUBSCRIBE accounts AS OF 5") as subscription:
        assert next_of(subscription).rows == (
            (Timestamp(5), 1, 1, 10, ""),
            (Timestamp(8), -1, 1, 10, ""),
        )


def test_without_a_snapshot_the_rows_before_are_known_all_the_same(
    broker: KafkaBroker, topic_prefix: str
) -> None:
    feed = HandFeed(broker.bootstrap, topic_prefix, options=replace(OPTIONS, diff=False))
    second = 1_000_000_000
    for wall, balance in ((5, 10), (8, 11)):
        value = '{"after": {"id": 1, "balance": %d, "note": ""}, "updated": "%d.0000000000"}'
        feed.put(0, b"[1]", (value % (balance, wall * second)).encode(), wall * second)
    feed.mark(9 * second)
    statement = f"SUBSCRIBE accounts WITH (SNAPSHOT = false) AS OF {7 * second}"
    with opened(feed, statement) as subscription:
        assert [each[1:] for each in next_of(subscription).rows] == [(-1, 1, 10, ""), (1, 1, 11, "")]


def test_a_key_table_goes_on_with_a_token(broker: KafkaBroker, topic_prefix: str, tmp_path: Path) -> None:
    feed = HandFeed(broker.bootstrap, topic_prefix, options=replace(OPTIONS, diff=False))
    value = '{"after": %s, "updated": "%d.0000000000"}'
    feed.put(0, b"[1]", (value % ('{"id": 1, "balance": 10, "note": ""}', 5)).encode(), 5)
    feed.mark(6)
    rows = tmp_path / "rows"
    with opened(feed, key_table=rows) as subscription:
        stored = next_of(subscription)
        subscription.settle(stored)
        feed.put(0, b"[1]", (value % ('{"id": 1, "balance": 11, "note": ""}', 8)).encode(), 8)
        feed.mark(9)
        lost = next_of(subscription)  # its token is not stored: the consumer dies
    for _ in range(2):
        with opened(feed, token=str(stored.token), key_table=rows) as resumed:
            assert next_of(resumed) == replace(lost, is_snapshot=False)
    with pytest.raises(HistoryLost, match="rows by key are gone"):
        opened(feed, token=str(stored.token))
    with opened(feed, key_table=rows) as anew:
        assert [each[1:] for each in next_of(anew).rows] == [(1, 1, 11, "")]


def test_markers_aside_are_passed_at_offsets_without_a_record(broker: KafkaBroker, topic_prefix: str) -> None:
    side = f"{topic_prefix}resolved"
    feed = HandFeed(broker.bootstrap, topic_prefix, 1, replace(OPTIONS, resolved_topic=side))
    writer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": f"{topic_prefix}writer"})
    writer.init_transactions(30)
    writer.begin_transaction()
    value = b'{"after": {"id": 1, "balance": 10, "note": ""}, "before": null, "updated": "5.0000000000"}'
    writer.produce(feed.topic, value, b"[1]", 0)
    writer.commit_transaction(30)  # its control record is at offset 1: no consumer ever gets a record there
    marker = f'{{"offsets":{{"{feed.topic}":2}},"resolved":"7.0000000000"}}'.encode()
    feed.producer.produce(side, marker, None, 0)
    feed.flush()
    with opened(feed, "SUBSCRIBE accounts AS OF 5") as subscription:
        batch = next_of(subscription)
        assert batch.frontier == Timestamp(7).next()
        assert [each[1:] for each in batch.rows] == [(1, 1, 10, "")]
        token = str(batch.token)
    marker = f'{{"offsets":{{"{feed.topic}":2}},"resolved":"9.0000000000"}}'.encode()
    feed.producer.produce(side, marker, None, 0)
    feed.flush()
    with opened(feed, "SUBSCRIBE accounts", token=token) as resumed:
        assert next_of(resumed).frontier == Timestamp(9).next()


def test_rows_of_a_transaction_that_was_aborted_are_not_there(feed: HandFeed) -> None:
    writer = Producer(
        {"bootstrap.servers": feed.connection.bootstrap_servers, "transactional.id": feed.topic}
    )
    writer.init_transactions(30)
    writer.begin_transaction()
    writer.produce(feed.topic, b'{"after": null, "updated": "5.0000000000"}', b"[1]", 0)
    writer.flush(30)
    writer.abort_transaction(30)
    feed.mark(9)
    with opened(feed) as subscription:
        assert next_of(subscription).rows == ()


def test_a_row_that_breaks_the_promise_ends_it_for_good(feed: HandFeed) -> None:
    feed.mark(9)
    with opened(feed) as subscription:
        next_of(subscription)
        feed.write(1, 8, 1, account(1, 1))
        feed.mark(12)
        for _ in range(2):
            with pytest.raises(PromiseBroken) as failure:
                subscription.next(COMES_S)
        assert (failure.value.topic, failure.value.partition) == (feed.topic, 1)


def test_a_deleted_topic_ends_it(feed: HandFeed) -> None:
    feed.mark(9)
    with opened(feed) as subscription:
        next_of(subscription)
        admin = AdminClient({"bootstrap.servers": feed.connection.bootstrap_servers})
        admin.delete_topics([feed.topic])[feed.topic].result(30)
        with pytest.raises(ObjectDropped):
            subscription.next(60)


def test_async_for_gives_the_same_batches(feed: HandFeed) -> None:
    feed.write(0, 5, 1, account(1, 10))
    feed.mark(7)

    async def consume() -> list[Timestamp]:
        async with opened(feed, "SUBSCRIBE accounts UP TO 10") as subscription:
            frontiers: list[Timestamp] = []
            async for batch in subscription:
                frontiers.append(batch.frontier)
                assert subscription.figures().batches >= len(frontiers)
                if batch.is_snapshot:
                    assert [each["balance"] for each in batch.dicts()] == [10]
                    feed.mark(8)
                    feed.mark(11)
            return frontiers

    frontiers = asyncio.run(consume())
    assert frontiers[0] == Timestamp(7).next()
    assert frontiers[-1] == Timestamp(10)


def test_figures_can_be_had_of_a_subscription_that_is_closed(feed: HandFeed) -> None:
    feed.mark(7)
    with opened(feed) as subscription:
        next_of(subscription)
    assert subscription.figures().batches == 1


def test_deleted_records_are_a_lost_history(feed: HandFeed) -> None:
    for wall in range(5, 9):
        feed.write(0, wall, 1, account(1, wall))
        feed.mark(wall)
    with opened(feed) as subscription:
        token = str(next_of(subscription).token)
    feed.write(0, 20, 1, account(1, 20))
    feed.mark(21)
    feed.write(0, 22, 1, account(1, 22))
    feed.mark(23)
    admin = AdminClient({"bootstrap.servers": feed.connection.bootstrap_servers})
    for deleted in admin.delete_records([KafkaPartition(feed.topic, 0, 10)]).values():
        deleted.result(30)
    with pytest.raises(HistoryLost, match="goes on at offset"):
        opened(feed, token=token)
    with pytest.raises(HistoryLost, match="no snapshot"):
        opened(feed)
    with pytest.raises(HistoryLost, match="not valid for all inputs"):
        opened(feed, "SUBSCRIBE accounts WITH (SNAPSHOT = false) AS OF 6")
    with opened(feed, "SUBSCRIBE accounts WITH (SNAPSHOT = false)") as present:
        assert present.as_of == Timestamp(23)
        feed.mark(24)
        assert next_of(present).rows == ()


@pytest.mark.parametrize("stamped", ["CreateTime", "LogAppendTime"])
def test_deleted_records_may_have_rows_above_the_present(
    broker: KafkaBroker, topic_prefix: str, stamped: str
) -> None:
    """Markers stand still while rows go on, and retention passes rows. Only a row shows that it has not."""
    feed = HandFeed(broker.bootstrap, topic_prefix, 1, message_timestamp_type=stamped)
    for wall in (55, 60):
        feed.write(0, wall, 1, account(1, wall))
    feed.mark(50)
    feed.write(0, 70, 1, account(1, 70), account(1, 60))
    statement = "SUBSCRIBE accounts WITH (SNAPSHOT = false)"
    delete_before(broker.bootstrap, feed.topic, 0, 2)  # the marker is the first that is left
    feed.flush()
    with pytest.raises(HistoryLost, match=r"first 2 records .* above AS OF 50.* may be among them"):
        opened(feed, statement)
    feed.mark(80)
    with opened(feed, statement) as later:
        assert later.as_of == Timestamp(80)
    with pytest.raises(HistoryLost, match="not valid for all inputs"):
        opened(feed, f"{statement} AS OF 50")


def test_a_feed_without_a_scan_has_no_snapshot(broker: KafkaBroker, topic_prefix: str) -> None:
    feed = HandFeed(broker.bootstrap, topic_prefix, options=replace(OPTIONS, initial_scan=InitialScan.NO))
    feed.mark(9)
    with pytest.raises(HistoryLost, match="began without a scan"):
        opened(feed)
    with opened(feed, "SUBSCRIBE accounts WITH (SNAPSHOT = false) AS OF 5") as subscription:
        assert next_of(subscription).frontier == Timestamp(9).next()


@pytest.mark.parametrize("scan", [InitialScan.YES, InitialScan.NO])
def test_rows_of_a_feed_that_had_the_topic_before_are_none_of_the_table(
    broker: KafkaBroker, topic_prefix: str, scan: InitialScan
) -> None:
    """Between the two feeds the store has deleted row 1: no record tells that."""
    start, options = Timestamp(40), replace(OPTIONS, initial_scan=scan)
    feed = HandFeed(broker.bootstrap, topic_prefix, 1, options, start=start)
    feed.write(0, 10, 1, account(1, 100))
    feed.write(0, 10, 2, account(2, 200))
    feed.mark(20)
    scanned = scan is InitialScan.YES
    if scanned:
        feed.write(0, 40, 2, account(2, 222))
    feed.write(0, 41, 3, account(3, 333))
    feed.mark(50)
    snapshot = "true" if scanned else "false"
    with opened(feed, f"SUBSCRIBE accounts WITH (SNAPSHOT = {snapshot}) AS OF 40") as subscription:
        rows = [row[1:4] for row in next_of(subscription).rows]
    assert rows == [(1, 2, 222)] * scanned + [(1, 3, 333)]


def test_a_compacted_topic_is_refused(broker: KafkaBroker, topic_prefix: str) -> None:
    """Compaction removes rows that a marker covers, and the offsets begin at 0 all the same."""
    options = replace(OPTIONS, resolved_topic=f"{topic_prefix}marks")
    feed = HandFeed(broker.bootstrap, topic_prefix, 1, options, cleanup_policy="compact")
    for snapshot in ("true", "false"):
        with pytest.raises(HistoryLost, match="is compacted"):
            opened(feed, f"SUBSCRIBE accounts WITH (SNAPSHOT = {snapshot}) AS OF 5")


def test_a_topic_with_more_partitions_than_the_feed_writes_to_is_refused(feed: HandFeed) -> None:
    admin = AdminClient({"bootstrap.servers": feed.connection.bootstrap_servers})
    admin.create_partitions([NewPartitions(feed.topic, 3)])[feed.topic].result(60)
    until = time.monotonic() + COMES_S
    while len(admin.list_topics(feed.topic, timeout=COMES_S).topics[feed.topic].partitions) < 3:
        assert time.monotonic() < until, "the broker answers before it tells of them"
    with pytest.raises(InputError, match="has 3 partitions"):
        opened(feed)


def test_a_partition_that_is_ahead_is_not_read_meanwhile(feed: HandFeed) -> None:
    for wall in range(1, 30_001):
        feed.put(0, b"[1]", b'{"after": null, "before": null, "updated": "%d.0000000000"}' % wall, wall)
        if wall % 1_000 == 0:
            feed.mark(wall, 0)
    feed.flush()
    feed.mark(1, 1)
    with opened(feed, "SUBSCRIBE accounts AS OF 1") as subscription:
        deadline = time.monotonic() + COMES_S
        while not (status := subscription.figures()).paused:
            assert time.monotonic() < deadline, status
            subscription.next(0.1)
        assert [place.partition for place in status.paused] == [0]
        assert status.paused_partitions == 1
        assert 0 < status.waiting_rows < 30_000
        assert status.waiting_bytes > 50 * status.waiting_rows
        feed.mark(30_000, 1)
        while status.delivered < Timestamp(30_000):
            next_of(subscription)
            status = subscription.figures()
        assert status.waiting_rows == 0


def test_rows_that_wait_on_disk_come_in_their_time(feed: HandFeed, tmp_path: Path) -> None:
    for wall in range(1, 201):
        feed.write(0, wall, wall, account(wall, wall))
    feed.mark(1, 1)
    with opened(feed, "SUBSCRIBE accounts AS OF 1", spill=SpillSettings(10_000, tmp_path)) as subscription:
        deadline = time.monotonic() + COMES_S
        while (figures := subscription.figures()).waiting_rows < 200:
            assert time.monotonic() < deadline, figures
            assert subscription.next(0.1) is None
        assert figures.spilled_bytes > 0
        assert figures.waiting_bytes < 10_000
        feed.mark(300)
        seen: list[int] = []
        while subscription.figures().delivered < Timestamp(300):
            seen += [each[2] for each in next_of(subscription).rows]
        assert seen == list(range(1, 201))
        assert subscription.figures().spilled_bytes == 0


def test_rows_of_older_versions_of_the_table_have_null_in_new_columns(
    broker: KafkaBroker, topic_prefix: str
) -> None:
    older = HandTable.of(104, "accounts", "id INT, balance INT, old_note STRING").descriptor
    columns = (*older.columns[:2], replace(older.columns[2], id=4, name="note"))
    families = (replace(older.families[0], column_ids=(1, 2, 4)),)
    newer = replace(older, version=2, modified=older.modified.next(), columns=columns, families=families)
    feed = HandFeed(broker.bootstrap, topic_prefix, descriptors=(older, newer))
    feed.write(0, 5, 1, {"id": 1, "balance": 10, "old_note": "x"})
    feed.write(0, 6, 2, account(2, 20, "y"))
    feed.mark(7)
    with opened(feed) as subscription:
        assert [each[2:] for each in next_of(subscription).rows] == [(1, 10, None), (2, 20, "y")]


def test_a_snapshot_in_chunks_comes_again_unless_its_last_token_is_stored(feed: HandFeed) -> None:
    rows = 20_000
    for key in range(rows):
        feed.write(key % 2, 5, key, account(key, key, "n" * 100))
    feed.mark(7)
    small = SpillSettings(memory_bytes=0)
    with opened(feed, snapshot_chunks=True, spill=small) as subscription:
        for _ in range(2):
            chunk = next_of(subscription)
            assert (chunk.is_partial, chunk.is_snapshot, chunk.token) == (True, False, None)
            assert {row[0] for row in chunk.rows} == {Timestamp(7)}
            subscription.settle(chunk)  # which says nothing
    feed.write(0, 8, 1, account(1, -1), account(1, 1, "n" * 100))
    feed.mark(9)
    with opened(feed, snapshot_chunks=True, spill=small) as subscription:
        chunks: list[DeliveredBatch] = []
        while not chunks or chunks[-1].is_partial:
            chunks.append(next_of(subscription))
        assert [each.token is None for each in chunks] == [True] * (len(chunks) - 1) + [False]
        assert len(chunks) > 2
        assert chunks[-1].is_snapshot
        assert chunks[-1].frontier == Timestamp(9).next()
        shown = [row[1:] for chunk in chunks for row in chunk.rows]
        wanted = [(1, key, key, "n" * 100) for key in range(rows)]
        wanted[1] = (1, 1, -1, "")
        assert sorted(shown) == wanted
        assert subscription.figures().spilled_bytes == 0
    feed.write(1, 10, 2, None, account(2, 2, "n" * 100))
    feed.mark(11)
    with opened(feed, token=str(chunks[-1].token), snapshot_chunks=True) as resumed:
        change = next_of(resumed)
        assert not change.is_partial
        assert change.rows == ((Timestamp(10), -1, 2, 2, "n" * 100),)


def test_columns_have_what_rows_have(feed: HandFeed) -> None:
    pytest.importorskip("pyarrow")
    for key in range(1_000):
        feed.write(key % 2, 5, key, account(key, key, "é"))
    feed.mark(7)
    with opened(feed) as by_rows, opened(feed, columnar=True) as by_columns:
        for count in (1_000, 4):
            rows, columns = next_of(by_rows), next_of(by_columns)
            assert len(columns.rows) == count
            assert not isinstance(columns.rows, tuple)
            assert columns.arrow().equals(rows.arrow())
            assert (columns.rows, columns.token) == (rows.rows, rows.token)
            feed.write(0, 8, 0, account(0, 1), account(0, 0, "é"))
            feed.write(1, 8, 1, account(1, 2), account(1, 1, "é"))
            feed.mark(9)
        assert by_columns.figures().rows == 1_004


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "statement",
    [
        "SUBSCRIBE accounts WITHIN TIMESTAMP ORDER BY balance",
        "SUBSCRIBE (SELECT id FROM accounts ORDER BY id LIMIT 9999999)",
        "SUBSCRIBE (SELECT balance FROM accounts)",
        "SUBSCRIBE accounts ENVELOPE DEBEZIUM (KEY (balance))",
    ],
)
def test_a_snapshot_that_has_to_be_whole_is_one_batch(feed: HandFeed, statement: str) -> None:
    for key in range(12_000):
        feed.write(key % 2, 5, key, account(key, key, "n" * 100))
    feed.mark(7)
    with opened(feed, statement, snapshot_chunks=True, spill=SpillSettings(memory_bytes=0)) as subscription:
        batch = next_of(subscription)
        assert batch.is_snapshot
        assert len(batch.rows) == 12_000
