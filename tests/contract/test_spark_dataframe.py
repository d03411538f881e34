"""``format("tidegate")`` on feeds whose records are written by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from deltalake import DeltaTable
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from examples.spark_delta import DeltaTables
from examples.spark_delta import start as start_delta
from stack.kafka import KafkaBroker
from tests.hand_log import HandTable
from tests.unit.client.subscribe.hand_feed import OPTIONS, HandFeed, account
from tests.unit.client.topics import create_topic
from tidegate.changefeed.definition.options import InitialScan
from tidegate.hlc import NANOS_PER_SECOND, Timestamp
from tidegate.spark.datasource.tidegate_source import register

pytestmark = [pytest.mark.broker, pytest.mark.together]

_SECOND: Final = NANOS_PER_SECOND
_TOTAL: Final = 30
_COLUMNS: Final = "id INT, balance INT, note STRING"


@pytest.fixture
def session(spark_session: SparkSession) -> SparkSession:
    register(spark_session)
    return spark_session


class Batches:
    """The batches of a query: for each the cut in seconds, and operation, key and balance of its rows."""

    def __init__(self) -> None:
        self.found: list[tuple[int, list[tuple[str, int, int | None]]]] = []

    def add_batch(self, batch: DataFrame, _: int) -> None:
        """Add a batch that has rows."""
        rows = batch.orderBy("_updated", "id").collect()
        if rows:
            (cut,) = {row["_resolved"] for row in rows}
            self.found.append((int(cut / _SECOND), [(row["_op"], row["id"], row["balance"]) for row in rows]))


def options_of(of: HandFeed, **more: str) -> dict[str, str]:
    where = {
        "bootstrap": of.connection.bootstrap_servers,
        "app_id": of.app_id,
        "topic_prefix": of.prefix,
    }
    return {**where, **more}


@contextmanager
def running(
    session: SparkSession,
    feed: HandFeed,
    receive: Callable[[DataFrame, int], None],
    checkpoint: Path,
    /,
    **more: str,
) -> Iterator[StreamingQuery]:
    """A query that gives its batches to ``receive``, while the context lasts."""
    frame = session.readStream.format("tidegate").options(**options_of(feed, **more)).load()
    query = frame.writeStream.foreachBatch(receive).option("checkpointLocation", str(checkpoint)).start()
    try:
        yield query
    finally:
        query.stop()


def second(feed: HandFeed, partition: int, at: int, key: int, balance: int | None) -> None:
    """Write a row of a whole second, or a deletion."""
    feed.write(partition, at * _SECOND, key, None if balance is None else account(key, balance))


def test_a_batch_is_a_closed_cut_and_a_query_goes_on_from_its_checkpoint(
    session: SparkSession, broker: KafkaBroker, topic_prefix: str, tmp_path: Path
) -> None:
    feed, batches = HandFeed(broker.bootstrap, topic_prefix), Batches()
    second(feed, 0, 5, 1, 10)
    second(feed, 1, 5, 2, 20)
    second(feed, 0, 9, 1, 5)  # above the cut: its other half is not there yet
    feed.mark(7 * _SECOND)
    feed.mark(9 * _SECOND, 0)
    with running(session, feed, batches.add_batch, tmp_path) as query:
        query.processAllAvailable()
        assert batches.found == [(7, [("insert", 1, 10), ("insert", 2, 20)])]
    second(feed, 1, 9, 2, 25)
    second(feed, 1, 5, 2, 20)  # comes again behind a crash
    second(feed, 1, 9, 2, 25)
    feed.mark(9 * _SECOND)
    with running(session, feed, batches.add_batch, tmp_path) as query:
        query.processAllAvailable()
        assert batches.found[1:] == [(9, [("insert", 1, 5), ("insert", 2, 25)])]
        second(feed, 0, 12, 1, None)
        feed.mark(12 * _SECOND, 1)
        query.processAllAvailable()
        assert len(batches.found) == 2
        feed.mark(12 * _SECOND)
        query.processAllAvailable()
        assert batches.found[2:] == [(12, [("delete", 1, None)])]


def test_a_stream_begins_where_it_is_told_and_ends_batches_with_buckets(
    session: SparkSession, broker: KafkaBroker, topic_prefix: str, tmp_path: Path
) -> None:
    feed = HandFeed(broker.bootstrap, topic_prefix)
    for at in (5, 15, 25):
        second(feed, 0, at, at, at)
        feed.mark(at * _SECOND)
    above, whole = Batches(), Batches()
    start = Timestamp(5 * _SECOND).decimal()
    with running(session, feed, above.add_batch, tmp_path / "above", start=start) as query:
        query.processAllAvailable()
    assert above.found == [(25, [("insert", 15, 15), ("insert", 25, 25)])]
    with running(session, feed, whole.add_batch, tmp_path / "whole", cut="10s") as query:
        query.processAllAvailable()
        assert whole.found == [(20, [("insert", 5, 5), ("insert", 15, 15)])]
    newest = Batches()
    with running(session, feed, newest.add_batch, tmp_path / "newest", start="latest") as query:
        query.processAllAvailable()
        second(feed, 1, 30, 30, 30)
        feed.mark(30 * _SECOND)
        query.processAllAvailable()
    assert newest.found == [(30, [("insert", 30, 30)])]


def test_rows_of_the_initial_scan_are_in_the_first_bucket_that_ends_above_the_feeds_start(
    session: SparkSession, broker: KafkaBroker, topic_prefix: str, tmp_path: Path
) -> None:
    start = Timestamp(12 * _SECOND)
    feed, batches = HandFeed(broker.bootstrap, topic_prefix, start=start), Batches()
    for key in (1, 2):  # their versions are older than the feed, and so are the times of their records
        members = {"after": account(key, key), "before": None, "updated": start.decimal()}
        feed.put(0, f"[{key}]".encode(), json.dumps(members).encode(), key * _SECOND)
    second(feed, 0, 14, 3, 3)
    feed.mark(15 * _SECOND)  # the last bucket that it closes ends below the start
    with running(session, feed, batches.add_batch, tmp_path, cut="10s") as query:
        query.processAllAvailable()
        assert not batches.found
        second(feed, 0, 25, 4, 4)
        feed.mark(26 * _SECOND)
        query.processAllAvailable()
    assert batches.found == [(20, [("insert", key, key) for key in (1, 2, 3)])]


def test_latest_begins_where_the_feed_began_if_it_has_no_marker_yet(
    session: SparkSession, broker: KafkaBroker, topic_prefix: str, tmp_path: Path
) -> None:
    feed, batches = HandFeed(broker.bootstrap, topic_prefix), Batches()
    with running(session, feed, batches.add_batch, tmp_path, start="latest") as query:
        query.processAllAvailable()
        second(feed, 0, 5, 1, 10)
        feed.mark(5 * _SECOND)
        query.processAllAvailable()
    assert batches.found == [(5, [("insert", 1, 10)])]


def test_a_batch_reads_few_records_and_a_query_of_what_is_there_reads_all_of_it(
    session: SparkSession, broker: KafkaBroker, topic_prefix: str, tmp_path: Path
) -> None:
    feed, batches = HandFeed(broker.bootstrap, topic_prefix), Batches()
    for at in range(5, 11):
        for key in (1, 2):
            second(feed, key % 2, at, key, at)
    feed.mark(10 * _SECOND)
    frame = session.readStream.format("tidegate").options(**options_of(feed, batch_records="4")).load()
    writer = frame.writeStream.foreachBatch(batches.add_batch).option("checkpointLocation", str(tmp_path))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(240), "it ends by itself"
    rows = [row for _, batch in batches.found for row in batch]
    assert sorted((key, balance) for _, key, balance in rows) == sorted(
        (key, at) for key in (1, 2) for at in range(5, 11)
    )
    assert len(batches.found) >= 3
    assert all(len(batch) <= 4 for _, batch in batches.found)
    assert batches.found[-1][0] == 10


def test_a_batch_query_shows_the_state_at_a_cut(
    session: SparkSession, broker: KafkaBroker, topic_prefix: str
) -> None:
    feed = HandFeed(broker.bootstrap, topic_prefix)
    for at, key, balance in ((5, 1, 10), (6, 2, 20), (8, 1, 15), (9, 2, None)):
        second(feed, key % 2, at, key, balance)
    feed.mark(9 * _SECOND)

    def state(**more: str) -> list[tuple[int, int, Decimal]]:
        frame = session.read.format("tidegate").options(**options_of(feed, **more)).load()
        return [(row["id"], row["balance"], row["_updated"]) for row in frame.orderBy("id").collect()]

    assert state() == [(1, 15, Decimal(8 * _SECOND))]
    as_of = Timestamp(6 * _SECOND).decimal()
    assert state(as_of=as_of) == [(1, 10, Decimal(5 * _SECOND)), (2, 20, Decimal(6 * _SECOND))]
    with pytest.raises(Exception, match="the feed is complete up to 9000000000"):
        state(as_of=Timestamp(10 * _SECOND).decimal())


def test_what_cannot_be_read_ends_with_a_sentence(
    session: SparkSession, broker: KafkaBroker, topic_prefix: str
) -> None:
    feed = HandFeed(broker.bootstrap, topic_prefix, options=replace(OPTIONS, initial_scan=InitialScan.NO))
    for options, words in (
        ({"feed": "other"}, "other"),
        ({"tables": "pets"}, "has no table pets: it has defaultdb.public.accounts"),
        ({"starts": "earliest"}, "has no option 'starts'"),
        ({"app_id": "nobody"}, "nobody"),
    ):
        with pytest.raises(Exception, match=words):
            session.read.format("tidegate").options(**options_of(feed, **options)).load()
    with pytest.raises(Exception, match="began without a scan"):
        session.read.format("tidegate").options(**options_of(feed)).load().collect()


def test_deleted_records_and_a_topic_made_anew_end_a_query(
    session: SparkSession, broker: KafkaBroker, topic_prefix: str, tmp_path: Path
) -> None:
    feed, batches = HandFeed(broker.bootstrap, topic_prefix), Batches()
    for at in (5, 6):
        second(feed, 0, at, at, at)
        feed.mark(at * _SECOND)
    with running(session, feed, batches.add_batch, tmp_path) as query:
        query.processAllAvailable()
    for at in (7, 8):
        second(feed, 0, at, at, at)
        feed.mark(at * _SECOND)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for done in admin.delete_records([TopicPartition(feed.topic, 0, 6)]).values():
        done.result(30)
    with (
        running(session, feed, batches.add_batch, tmp_path) as query,
        pytest.raises(Exception, match="whose first record is at 6"),
    ):
        query.processAllAvailable()
    for done in admin.delete_topics([feed.topic]).values():
        done.result(30)
    create_topic(broker.bootstrap, feed.topic, 2)
    feed.mark(9 * _SECOND)
    with (
        running(session, feed, batches.add_batch, tmp_path) as query,
        pytest.raises(Exception, match="was deleted and created anew"),
    ):
        query.processAllAvailable()
    assert len(batches.found) == 1


def test_a_column_that_came_later_is_there_once_the_query_begins_again(
    session: SparkSession, broker: KafkaBroker, topic_prefix: str, tmp_path: Path
) -> None:
    wider = HandTable.of(104, "accounts", f"{_COLUMNS}, city STRING").descriptor
    narrow = replace(HandTable.of(104, "accounts", _COLUMNS).descriptor, modified=Timestamp(1 * _SECOND))
    more = replace(wider, version=narrow.version + 1, modified=Timestamp(6 * _SECOND))
    feed, batches = HandFeed(broker.bootstrap, topic_prefix, descriptors=(narrow,)), Batches()
    second(feed, 0, 5, 1, 10)
    feed.mark(5 * _SECOND)
    with running(session, feed, batches.add_batch, tmp_path) as query:
        query.processAllAvailable()
        feed.describe(more)
        feed.write(0, 6 * _SECOND, 1, {**account(1, 11), "city": "Ulm"})
        feed.mark(6 * _SECOND)
        with pytest.raises(Exception, match="has a new column: city"):
            query.processAllAvailable()
    with running(session, feed, batches.add_batch, tmp_path) as query:
        query.processAllAvailable()
    assert batches.found == [(5, [("insert", 1, 10)]), (6, [("insert", 1, 11)])]


def test_a_value_that_spark_has_no_form_of_is_read_as_text(
    session: SparkSession, broker: KafkaBroker, topic_prefix: str
) -> None:
    table = HandTable.of(104, "accounts", f"{_COLUMNS}, day DATE")
    feed = HandFeed(broker.bootstrap, topic_prefix, descriptors=(table.descriptor,))
    feed.write(0, 5 * _SECOND, 1, {**account(1, 10), "day": "infinity"})
    feed.mark(5 * _SECOND)

    def read(**more: str) -> DataFrame:
        return session.read.format("tidegate").options(**options_of(feed, **more)).load()

    with pytest.raises(Exception, match="read the column as text, by the option as_text='day'"):
        read().collect()
    for name in ("day", "accounts.day", "defaultdb.public.accounts.day"):
        assert [row["day"] for row in read(as_text=name).collect()] == ["infinity"]
    with pytest.raises(Exception, match=r"as_text names accounts\.night, which is no column of defaultdb"):
        read(as_text="day, accounts.night")


def test_every_version_of_a_delta_table_is_a_cut_whose_sum_never_wavers(
    session: SparkSession, broker: KafkaBroker, topic_prefix: str, tmp_path: Path
) -> None:
    feed = HandFeed(broker.bootstrap, topic_prefix)
    tables = DeltaTables(tmp_path, {"accounts": ["id"]})
    second(feed, 0, 5, 1, 10)
    second(feed, 1, 5, 2, 20)
    feed.mark(5 * _SECOND)
    for at, first in ((6, 9), (7, 3), (8, 12)):
        query = start_delta(session, options_of(feed), tables, tmp_path / "checkpoint")
        query.processAllAvailable()
        second(feed, 0, at, 1, first)
        feed.mark(at * _SECOND, 0)
        query.processAllAvailable()  # half of a transfer changes nothing
        second(feed, 1, at, 2, _TOTAL - first)
        feed.mark(at * _SECOND)
        query.processAllAvailable()
        query.stop()
    second(feed, 1, 9, 2, None)
    second(feed, 0, 9, 1, _TOTAL)
    feed.mark(9 * _SECOND)
    query = start_delta(session, options_of(feed), tables, tmp_path / "checkpoint")
    query.processAllAvailable()
    query.stop()
    newest = DeltaTable(tmp_path / "accounts")
    states = [
        DeltaTable(tmp_path / "accounts", version=version).to_pyarrow_table().to_pylist()
        for version in range(1, newest.version() + 1)
    ]
    assert [{row["id"]: row["balance"] for row in state} for state in states] == [
        {1: 10, 2: 20},
        {1: 9, 2: 21},
        {1: 3, 2: 27},
        {1: 12, 2: 18},
        {1: 30},
    ]
    assert all(sum(row["balance"] for row in state) == _TOTAL for state in states)


def _state(session: SparkSession, feed: HandFeed, /, **more: str) -> list[tuple[int, int]]:
    frame = session.read.format("tidegate").options(**options_of(feed, **more)).load()
    return sorted((row["id"], row["balance"]) for row in frame.collect())


def test_a_topic_that_a_later_feed_gets_is_read_as_that_of_two_feeds(
    session: SparkSession, broker: KafkaBroker, topic_prefix: str, tmp_path: Path
) -> None:
    feed, batches = HandFeed(broker.bootstrap, topic_prefix), Batches()
    second(feed, 0, 5, 1, 10)
    second(feed, 1, 5, 2, 20)
    feed.persist(7 * _SECOND)
    feed.mark(7 * _SECOND)
    with running(session, feed, batches.add_batch, tmp_path / "first", feed="feed") as query:
        query.processAllAvailable()
        assert [cut for cut, _ in batches.found] == [7]
        feed.drop()  # then key 1 is deleted, which no feed tells, and a feed with a higher id begins
        feed.define("later", start=Timestamp(10 * _SECOND))
        second(feed, 1, 10, 2, 20)
        feed.persist(12 * _SECOND, "later")
        feed.mark(12 * _SECOND)
        with pytest.raises(StreamingQueryException, match="Feed feed has ended, and is read to its end"):
            query.processAllAvailable()
    assert [cut for cut, _ in batches.found] == [7]
    assert _state(session, feed, feed="feed") == [(1, 10), (2, 20)]
    assert _state(session, feed, feed="later") == [(2, 20)]
    later = Batches()
    with running(session, feed, later.add_batch, tmp_path / "later", feed="later") as query:
        query.processAllAvailable()
    assert later.found == [(12, [("insert", 2, 20)])]
    with (
        running(session, feed, later.add_batch, tmp_path / "first", feed="later") as query,
        pytest.raises(StreamingQueryException, match="is of the feed feed, and the query reads later"),
    ):
        query.processAllAvailable()
