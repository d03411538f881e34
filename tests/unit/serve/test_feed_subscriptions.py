"""The server over a feed on a real broker, as psycopg and a browser's client see it."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest
from confluent_kafka.admin import AdminClient

from stack.kafka import KafkaBroker
from tests.unit.client.subscribe.hand_feed import OPTIONS, TRANSFERS, HandFeed
from tidegate.changefeed.definition.options import InitialScan
from tidegate.client import table_descriptors
from tidegate.client.kafka.reader import PartitionReader
from tidegate.client.subscribe import LiveSubscription, SpillSettings
from tidegate.client.subscribe.feed_catalog import FeedCatalog
from tidegate.errors import (
    HistoryLost,
    InputError,
    ObjectDropped,
    RetryError,
    SubscribeStatementError,
    TokenRefused,
)
from tidegate.hlc import Timestamp
from tidegate.serve import feed_subscriptions, known_feeds, statement_threads
from tidegate.serve.addresses import read_address
from tidegate.serve.encoded_batches import EncodedBatches
from tidegate.serve.feed_subscriptions import FeedSubscriptions
from tidegate.serve.known_feeds import LookTimes
from tidegate.serve.limits import ServeLimits
from tidegate.serve.server import RunningServer, ServeSettings, check_settings, serving
from tidegate.serve.shared import shared_stream
from tidegate.serve.shared.shared_stream import SharedStream
from tidegate.serve.stream_source import SubscriptionStream
from tidegate.serve.web.batch_messages import batch_messages
from tidegate.subscribe.statement.parser import parse_subscribe
from tidegate.subscribe.subscription import SubscriptionBatch
from tidegate.verify import TopicPartition, TopicRecord

pytestmark = pytest.mark.broker

_COMES_S = 60.0


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that runs in an event loop of its own, for a minute at most."""

    @wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*arguments, **named), _COMES_S))

    return run


@pytest.fixture
def feed(broker: KafkaBroker, topic_prefix: str) -> HandFeed:
    """A feed with two accounts, complete up to 7."""
    feed = HandFeed(broker.bootstrap, topic_prefix)
    feed.write(0, 5, 1, row(1, 10))
    feed.write(1, 6, 2, row(2, 20))
    feed.mark(7)
    return feed


def row(key: int, balance: int) -> dict[str, Any]:
    return {"id": key, "balance": balance, "note": None}


def subscriptions_of(feed: HandFeed, **limits: int) -> FeedSubscriptions:
    return FeedSubscriptions(feed.connection, feed.app_id, feed.prefix, ServeLimits(**limits))


@asynccontextmanager
async def served(feed: HandFeed) -> AsyncIterator[RunningServer]:
    settings = ServeSettings(postgres=read_address("127.0.0.1:0"), web=read_address("127.0.0.1:0"))
    async with serving(subscriptions_of(feed), check_settings(settings)) as running:
        yield running


def dsn(running: RunningServer) -> str:
    assert running.postgres is not None
    return f"host={running.postgres.host} port={running.postgres.port} user=ada dbname=tidegate"


@in_loop
async def test_psycopg_sees_a_table_live(feed: HandFeed) -> None:
    async with served(feed) as running, await psycopg.AsyncConnection.connect(dsn(running)) as connection:
        cursor = connection.cursor()
        rows = cursor.stream("SUBSCRIBE accounts")
        assert [await anext(rows) for _ in range(2)] == [(7, 1, 1, 10, None), (7, 1, 2, 20, None)]
        feed.write(0, 8, 1, row(1, 11), row(1, 10))
        feed.mark(9)
        assert [await anext(rows) for _ in range(2)] == [(8, -1, 1, 10, None), (8, 1, 1, 11, None)]
        await connection.cancel_safe()
        with pytest.raises(psycopg.errors.QueryCanceled):
            await anext(rows)


@in_loop
async def test_statements_are_parsed_and_planned_beside_the_event_loop(
    feed: HandFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, seen = threading.get_ident(), []

    def noted(name: str, module: Any) -> None:
        call = getattr(module, name)

        def note(*arguments: Any, **named: Any) -> Any:
            seen.append((name, threading.get_ident()))
            return call(*arguments, **named)

        monkeypatch.setattr(module, name, note)

    noted("parse_subscribe", statement_threads)
    noted("plan_subscribe", feed_subscriptions)
    noted("StatementRows", feed_subscriptions)
    noted("StatementRows", shared_stream)
    subscriptions = subscriptions_of(feed)
    try:
        stream = await subscriptions.open("SUBSCRIBE (SELECT id FROM accounts WHERE id = 1)")
        await stream.next()
        await stream.close()
    finally:
        await subscriptions.close()
    assert {name for name, _ in seen} == {"parse_subscribe", "plan_subscribe", "StatementRows"}
    assert loop not in {thread for _, thread in seen}


@in_loop
async def test_a_cursor_fetches_what_is_there(feed: HandFeed) -> None:
    async with served(feed) as running, await psycopg.AsyncConnection.connect(dsn(running)) as connection:
        await connection.execute("BEGIN")
        await connection.execute("DECLARE c CURSOR FOR SUBSCRIBE accounts ENVELOPE UPSERT (KEY (id))")
        fetched = await connection.execute("FETCH ALL c")
        assert [each[1:4] async for each in fetched] == [("upsert", 1, 10), ("upsert", 2, 20)]
        fetched = await connection.execute("FETCH ALL c WITH (timeout = '0s')")
        assert await fetched.fetchall() == []


@in_loop
async def test_a_statement_that_cannot_be_carried_out_has_its_sqlstate(feed: HandFeed) -> None:
    async with (
        served(feed) as running,
        await psycopg.AsyncConnection.connect(dsn(running), autocommit=True) as connection,
    ):
        with pytest.raises(psycopg.errors.UndefinedTable):
            await connection.execute("SUBSCRIBE nothing")
        with pytest.raises(psycopg.errors.UndefinedColumn):
            await connection.execute("SUBSCRIBE accounts ENVELOPE UPSERT (KEY (nothing))")


@in_loop
async def test_lines_of_json_go_on_behind_their_token(feed: HandFeed) -> None:
    async with served(feed) as running:
        url = f"http://{running.web}/subscribe"
        asked = {"statement": "SUBSCRIBE accounts ENVELOPE UPSERT (KEY (id))"}
        async with httpx2.AsyncClient(timeout=_COMES_S) as client:
            async with client.stream("GET", url, params=asked) as answer:
                first = json.loads(await anext(lines := answer.aiter_lines()))
                while not first.get("token"):
                    first = json.loads(await anext(lines))
            feed.write(1, 8, 2, None, row(2, 20))
            feed.mark(9)
            async with client.stream("GET", url, params={**asked, "token": first["token"]}) as answer:
                async for line in answer.aiter_lines():
                    batch = json.loads(line)
                    if batch.get("rows"):
                        break
        assert [each[1:3] for each in batch["rows"]] == [["delete", 2]]


@in_loop
async def test_a_call_that_is_cancelled_loses_no_batch(feed: HandFeed) -> None:
    subscriptions = subscriptions_of(feed)
    stream = await subscriptions.open("SUBSCRIBE accounts WITH (PROGRESS)")
    opening, snapshot = await stream.next(), await stream.next()
    assert opening is not None
    assert opening.rows == ((Timestamp(7), True, None, None, None, None),)
    assert snapshot is not None
    assert len(snapshot.rows) == 3
    for _ in range(3):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(stream.next(), 0.05)
    feed.write(0, 8, 1, None, row(1, 10))
    feed.mark(9)
    change = await stream.next()
    assert change is not None
    assert change.rows[0] == (Timestamp(8), False, -1, 1, 10, None)
    await subscriptions.close()
    assert await stream.next() is None


@in_loop
async def test_more_streams_than_are_served_are_refused(feed: HandFeed) -> None:
    subscriptions = subscriptions_of(feed, streams=1)
    stream = await subscriptions.open("SUBSCRIBE accounts")
    with pytest.raises(RetryError, match="1 subscriptions are open"):
        await subscriptions.open("SUBSCRIBE accounts")
    await stream.close()
    await (await subscriptions.open("SUBSCRIBE accounts")).close()
    await subscriptions.close()


@in_loop
async def test_more_streams_than_are_served_are_refused_if_they_open_at_once(feed: HandFeed) -> None:
    subscriptions = subscriptions_of(feed, streams=2)
    for _ in range(3):
        with pytest.raises(SubscribeStatementError):
            await subscriptions.open("SUBSCRIBE nothing")
    opening = (subscriptions.open("SUBSCRIBE accounts") for _ in range(5))
    answers = await asyncio.gather(*opening, return_exceptions=True)
    assert [isinstance(answer, RetryError) for answer in answers] == [False, False, True, True, True]
    await subscriptions.close()


@in_loop
async def test_subscriptions_whose_cluster_does_not_answer_hold_up_no_other(
    feed: HandFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = threading.Event()

    class Waits(LiveSubscription):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            answered.wait()
            super().__init__(*arguments, **named)

    monkeypatch.setattr(feed_subscriptions, "LiveSubscription", Waits)
    subscriptions = subscriptions_of(feed, own_readers=20)
    away = [
        asyncio.ensure_future(subscriptions.open("SUBSCRIBE accounts AS OF AT LEAST 7 UP TO 8"))
        for _ in range(20)
    ]
    try:
        while subscriptions._own_readers < 20:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
        stream = await asyncio.wait_for(subscriptions.open("SUBSCRIBE accounts"), 20)
        assert await stream.next() is not None
    finally:
        answered.set()
    await asyncio.gather(*away)
    await subscriptions.close()


@in_loop
async def test_clients_share_one_question_for_the_feeds_and_its_failure(
    feed: HandFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answered, catalog = [], threading.Event(), FeedCatalog

    def fail(*_: Any) -> Any:
        asked.append(1)
        answered.wait()
        raise RetryError("it does not answer")

    monkeypatch.setattr(feed_subscriptions, "FeedCatalog", fail)
    subscriptions = subscriptions_of(feed)
    statement = parse_subscribe("SUBSCRIBE accounts")  # so that all of them ask at once
    clients = [asyncio.ensure_future(subscriptions.describe(statement)) for _ in range(20)]
    while not asked:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0.01)
    answered.set()
    failures = await asyncio.gather(*clients, return_exceptions=True)
    assert {str(failure) for failure in failures} == {"it does not answer"}
    assert len(asked) == 1
    monkeypatch.setattr(feed_subscriptions, "FeedCatalog", catalog)
    assert (await subscriptions.describe("SUBSCRIBE accounts")).header[2:] == ("id", "balance", "note")
    await subscriptions.close()


@in_loop
async def test_a_feed_that_comes_later_is_found(feed: HandFeed) -> None:
    subscriptions = subscriptions_of(feed)
    with pytest.raises(SubscribeStatementError):
        await subscriptions.describe("SUBSCRIBE flights")
    assert (await subscriptions.describe("SUBSCRIBE accounts")).header[2:] == ("id", "balance", "note")
    feed.define("other")
    await subscriptions.refresh()
    with pytest.raises(InputError, match="Several feeds"):
        await subscriptions.open("SUBSCRIBE accounts")
    await subscriptions.close()


@in_loop
async def test_statements_read_no_log_again(feed: HandFeed, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []

    class Noted(PartitionReader):
        def read_to(self, ends: Mapping[TopicPartition, int]) -> Iterator[TopicRecord]:
            for record in super().read_to(ends):
                read.append(record.offset)
                yield record

    monkeypatch.setattr(table_descriptors, "PartitionReader", Noted)
    subscriptions = subscriptions_of(feed)
    for _ in range(3):
        await subscriptions.refresh()
        assert [str(table.name) for table in await subscriptions.relations()] == ["defaultdb.public.accounts"]
    assert read == [0]
    await subscriptions.close()


@in_loop
async def test_a_table_of_a_feed_that_was_created_a_moment_ago_is_found(
    feed: HandFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_feeds, "LookTimes", partial(LookTimes, again_s=0.0))
    subscriptions = subscriptions_of(feed)
    await subscriptions.refresh()
    with pytest.raises(SubscribeStatementError, match="unknown catalog item 'transfers'"):
        await subscriptions.describe("SUBSCRIBE transfers")
    HandFeed(feed.connection.bootstrap_servers, feed.prefix, descriptors=[TRANSFERS.descriptor], beside=feed)
    assert (await subscriptions.describe("SUBSCRIBE transfers")).header[2:] == ("id", "amount")
    await subscriptions.close()


@in_loop
async def test_all_subscribers_of_a_table_have_one_reader(feed: HandFeed) -> None:
    subscriptions = subscriptions_of(feed)
    statements = ("SUBSCRIBE accounts", "SUBSCRIBE accounts ENVELOPE UPSERT (KEY (id))")
    streams = await asyncio.gather(*(subscriptions.open(statements[at % 2]) for at in range(20)))
    snapshots = await asyncio.gather(*(stream.next() for stream in streams))
    assert {len(batch.rows) for batch in snapshots if batch is not None} == {2}
    feed.write(0, 8, 1, row(1, 11), row(1, 10))
    feed.mark(9)
    changes = await asyncio.gather(*(stream.next() for stream in streams))
    assert len({id(batch) for batch in changes}) == 2  # one for each form
    assert subscriptions.tables.started == 1
    assert {type(stream) for stream in streams} == {SharedStream}
    await subscriptions.close()


@in_loop
async def test_a_feed_without_the_row_before_goes_on_behind_a_token(
    broker: KafkaBroker, topic_prefix: str
) -> None:
    """A reader of its own would have to refuse it: the rows by key are shared."""
    feed = HandFeed(broker.bootstrap, topic_prefix, options=replace(OPTIONS, diff=False))
    feed.write(0, 5, 1, row(1, 10))
    feed.mark(7)
    subscriptions = subscriptions_of(feed)
    stream = await subscriptions.open("SUBSCRIBE accounts")
    snapshot = await stream.next()
    assert snapshot is not None
    await stream.close()
    feed.write(0, 8, 1, row(1, 11))
    feed.mark(9)
    again = await subscriptions.open("SUBSCRIBE accounts", token=str(snapshot.token))
    change = await again.next()
    assert change is not None
    assert change.rows == ((Timestamp(8), -1, 1, 10, None), (Timestamp(8), 1, 1, 11, None))
    with pytest.raises(TokenRefused):
        await subscriptions.open("SUBSCRIBE accounts ENVELOPE UPSERT (KEY (id))", token=str(snapshot.token))
    assert subscriptions.tables.started == 1
    await subscriptions.close()


@in_loop
async def test_the_past_has_a_reader_of_its_own(feed: HandFeed) -> None:
    feed.write(0, 8, 1, row(1, 11), row(1, 10))
    feed.mark(9)
    subscriptions = subscriptions_of(feed)
    past = await subscriptions.open("SUBSCRIBE accounts AS OF 7 UP TO 9")
    batches = [batch async for batch in all_of(past)]
    assert [each for batch in batches for each in batch.rows] == [
        (Timestamp(7), 1, 1, 10, None),
        (Timestamp(7), 1, 2, 20, None),
        (Timestamp(8), -1, 1, 10, None),
        (Timestamp(8), 1, 1, 11, None),
    ]
    assert subscriptions.tables.started == 0
    present = await subscriptions.open("SUBSCRIBE accounts")
    assert await present.next() is not None
    later = await subscriptions.open("SUBSCRIBE accounts WITH (SNAPSHOT = false) AS OF 9")
    assert isinstance(later, SharedStream)
    feed.write(1, 10, 2, None, row(2, 20))
    feed.mark(11)
    change = await later.next()
    assert change is not None
    assert change.rows == ((Timestamp(10), -1, 2, 20, None),)
    await subscriptions.close()


@in_loop
async def test_a_table_without_a_snapshot_has_readers_of_their_own(
    broker: KafkaBroker, topic_prefix: str
) -> None:
    feed = HandFeed(broker.bootstrap, topic_prefix, options=replace(OPTIONS, initial_scan=InitialScan.NO))
    feed.mark(7)
    subscriptions = subscriptions_of(feed, own_readers=1)
    with pytest.raises(HistoryLost, match="began without a scan"):
        await subscriptions.open("SUBSCRIBE accounts")
    stream = await subscriptions.open("SUBSCRIBE accounts WITH (SNAPSHOT = false)")
    with pytest.raises(RetryError, match="a reader of their own"):
        await subscriptions.open("SUBSCRIBE accounts WITH (SNAPSHOT = false)")
    feed.write(0, 8, 1, row(1, 10))
    feed.mark(9)
    change = await stream.next()
    assert change is not None
    assert change.rows == ((Timestamp(8), 1, 1, 10, None),)
    await stream.close()
    await (await subscriptions.open("SUBSCRIBE accounts WITH (SNAPSHOT = false)")).close()
    await subscriptions.close()


@in_loop
async def test_a_stream_that_fell_behind_reads_on_by_itself_and_comes_back(feed: HandFeed) -> None:
    subscriptions = subscriptions_of(feed, log_bytes=3_000)
    slow, quick = await asyncio.gather(*(subscriptions.open("SUBSCRIBE accounts") for _ in range(2)))
    assert await slow.next() is not None
    assert await quick.next() is not None
    for wall in range(11, 21):
        feed.write(0, wall, 1, row(1, wall), row(1, wall - 1))
        feed.mark(wall)
        assert await quick.next() is not None
    seen: list[int] = []
    while 20 not in seen:
        batch = await slow.next()
        assert batch is not None
        seen += [each[3] for each in batch.rows if each[1] == 1]
    assert seen == list(range(11, 21))
    assert isinstance(slow, SharedStream)
    assert slow.times_behind == 1
    feed.write(0, 30, 1, row(1, 30), row(1, 20))
    feed.mark(30)
    batches = await asyncio.gather(slow.next(), quick.next())
    assert batches[0] is batches[1]
    await subscriptions.close()


@in_loop
async def test_a_reader_ends_some_time_after_its_last_subscriber(feed: HandFeed) -> None:
    subscriptions = FeedSubscriptions(feed.connection, feed.app_id, feed.prefix, linger_s=0.05)
    for started in (1, 2):
        stream = await subscriptions.open("SUBSCRIBE accounts")
        assert await stream.next() is not None
        assert subscriptions.tables.started == started
        await stream.close()
        while [*subscriptions.tables]:  # noqa: ASYNC110 - the timer tells nobody
            await asyncio.sleep(0.01)
    await subscriptions.close()


@in_loop
async def test_rows_may_be_kept_in_a_directory(feed: HandFeed, tmp_path: Path) -> None:
    pytest.importorskip("rocksdict")
    for _ in range(2):  # the second run finds what the first one has left
        subscriptions = FeedSubscriptions(feed.connection, feed.app_id, feed.prefix, data=tmp_path)
        stream = await subscriptions.open("SUBSCRIBE accounts")
        snapshot = await stream.next()
        assert snapshot is not None
        assert sorted(snapshot.rows) == [(Timestamp(7), 1, 1, 10, None), (Timestamp(7), 1, 2, 20, None)]
        await subscriptions.close()
    assert len(os.listdir(tmp_path)) == 1


@in_loop
async def test_a_dropped_topic_ends_all_and_a_new_subscriber_begins_anew(feed: HandFeed) -> None:
    subscriptions = subscriptions_of(feed)
    streams = [await subscriptions.open("SUBSCRIBE accounts") for _ in range(2)]
    for stream in streams:
        assert await stream.next() is not None
    admin = AdminClient({"bootstrap.servers": feed.connection.bootstrap_servers})
    admin.delete_topics([feed.topic])[feed.topic].result(30)
    for stream in streams:
        with pytest.raises(ObjectDropped):
            await stream.next()
    await subscriptions.close()


async def require_cancel(running: RunningServer, statement: str) -> None:
    """A COPY that is cancelled while it waits ends, and its session goes on."""

    async def copied() -> None:
        async with connection.cursor().copy(f"COPY ({statement}) TO STDOUT") as copy:
            cancel = asyncio.ensure_future(connection.cancel_safe())
            async for _ in copy:
                pass
            await cancel

    async with await psycopg.AsyncConnection.connect(dsn(running), autocommit=True) as connection:
        with pytest.raises(psycopg.errors.QueryCanceled):
            await copied()
        assert (await (await connection.execute("SELECT 1")).fetchone()) is not None


@in_loop
async def test_a_cancel_is_heard_by_readers_of_their_own_and_by_the_shared_one(feed: HandFeed) -> None:
    feed.write(0, 8, 1, row(1, 11), row(1, 10))
    feed.mark(9)
    feed.mark(20, 0)  # the other partition lags
    subscriptions = subscriptions_of(feed)
    settings = ServeSettings(postgres=read_address("127.0.0.1:0"))
    async with serving(subscriptions, check_settings(settings)) as running:
        await require_cancel(running, "SUBSCRIBE accounts AS OF AT LEAST 15")
        await require_cancel(running, "SUBSCRIBE accounts AS OF 7")
        await require_cancel(running, "SUBSCRIBE accounts WITH (SNAPSHOT = false)")
        assert not subscriptions._streams
        assert subscriptions._own_readers == 0
        assert [shared.subscribers for _, shared in subscriptions.tables] == [0]


@in_loop
async def test_a_cancel_is_heard_while_a_table_fills(broker: KafkaBroker, topic_prefix: str) -> None:
    feed = HandFeed(broker.bootstrap, topic_prefix)
    feed.mark(7, 0)
    subscriptions = subscriptions_of(feed)
    settings = ServeSettings(postgres=read_address("127.0.0.1:0"))
    async with serving(subscriptions, check_settings(settings)) as running:
        await require_cancel(running, "SUBSCRIBE accounts")
        ((_, shared),) = subscriptions.tables
        assert (shared.filled, shared.subscribers) == (False, 0)


async def all_of(stream: SubscriptionStream) -> AsyncIterator[SubscriptionBatch]:
    """Every batch to the end."""
    while (batch := await stream.next()) is not None:
        yield batch


@in_loop
async def test_a_snapshot_of_the_past_is_sent_in_parts_that_the_last_one_completes(feed: HandFeed) -> None:
    for key in range(3, 20_000):
        feed.write(key % 2, 8, key, {"id": key, "balance": key, "note": "n" * 100})
    feed.mark(9)
    small = SpillSettings(memory_bytes=0)
    source = FeedSubscriptions(feed.connection, feed.app_id, feed.prefix, spill=small)
    stream = await source.open("SUBSCRIBE accounts AS OF 8")
    batches = [await anext_of(stream)]
    while batches[-1].is_partial:
        batches.append(await anext_of(stream))
    messages = [
        json.loads(message) for batch in batches for message, _ in batch_messages(batch, EncodedBatches())
    ]
    assert len(batches) > 1
    assert ["frontier" in each for each in messages] == [False] * (len(messages) - 1) + [True]
    assert messages[-1]["snapshot"] is True
    assert messages[-1]["token"]
    assert sorted(each[2] for message in messages for each in message["rows"]) == list(range(1, 20_000))
    await source.close()


async def anext_of(stream: SubscriptionStream) -> SubscriptionBatch:
    batch = await stream.next()
    assert batch is not None
    return batch
