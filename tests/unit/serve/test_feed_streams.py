"""The server over a feed on a real broker, as psycopg and a browser's client see it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any

import httpx2
import psycopg
import pytest

from stack.kafka import KafkaBroker
from tests.unit.client.subscribe.hand_feed import HandFeed
from tidegate.errors import InputError, RetryError, SubscribeStatementError
from tidegate.hlc import Timestamp
from tidegate.serve.addresses import read_address
from tidegate.serve.feed_streams import FeedSubscriptions
from tidegate.serve.server import RunningServer, ServeSettings, check_settings, serving

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


def subscriptions_of(feed: HandFeed, most_streams: int = 100) -> FeedSubscriptions:
    return FeedSubscriptions(feed.connection, feed.app_id, feed.prefix, most_streams)


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
    subscriptions = subscriptions_of(feed, most_streams=1)
    stream = await subscriptions.open("SUBSCRIBE accounts")
    with pytest.raises(RetryError, match="1 subscriptions are open"):
        await subscriptions.open("SUBSCRIBE accounts")
    await stream.close()
    await (await subscriptions.open("SUBSCRIBE accounts")).close()
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
