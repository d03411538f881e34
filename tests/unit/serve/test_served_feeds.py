"""What clients of the server are told when a feed ends or its table changes, and of outputs that are off."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import wraps
from typing import Any

import httpx2
import psycopg
import pytest

from stack.kafka import KafkaBroker
from tests.hand_log import HandTable, at
from tests.unit.client.subscribe.hand_feed import COMES_S, HandFeed
from tidegate.changefeed.definition.feed import FeedState
from tidegate.client.subscribe import standing_gate
from tidegate.errors import SchemaMismatch
from tidegate.serve.addresses import read_address
from tidegate.serve.feed_subscriptions import FeedSubscriptions
from tidegate.serve.limits import ServeLimits
from tidegate.serve.server import RunningServer, ServeSettings, check_settings, serving
from tidegate.subscribe.statement.switches import ALL_ON, SubscribeSwitches

pytestmark = pytest.mark.broker

#: The first version of accounts, and the one that has a note ten seconds later.
_FIRST = HandTable.of(104, "accounts", "id INT, balance INT").descriptor
_NOTED = replace(
    HandTable.of(104, "accounts", "id INT, balance INT, note STRING").descriptor, version=2, modified=at(10)
)


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that runs in an event loop of its own, for a minute at most."""

    @wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*arguments, **named), 2 * COMES_S))

    return run


@pytest.fixture
def feed(broker: KafkaBroker, topic_prefix: str, monkeypatch: pytest.MonkeyPatch) -> HandFeed:
    """A feed with two accounts, complete up to 7."""
    monkeypatch.setattr(standing_gate, "LOOK_S", 0.1)
    feed = HandFeed(broker.bootstrap, topic_prefix)
    for key in (1, 2):
        feed.write(key - 1, 5, key, {"id": key, "balance": 10 * key, "note": None})
    feed.persist(7)
    feed.mark(7)
    return feed


@asynccontextmanager
async def served(feed: HandFeed, switches: SubscribeSwitches = ALL_ON) -> AsyncIterator[RunningServer]:
    settings = ServeSettings(postgres=read_address("127.0.0.1:0"), web=read_address("127.0.0.1:0"))
    subscriptions = FeedSubscriptions(
        feed.connection, feed.app_id, feed.prefix, ServeLimits(), switches=switches
    )
    async with serving(subscriptions, check_settings(settings)) as running:
        yield running


async def connected(running: RunningServer) -> psycopg.AsyncConnection[Any]:
    assert running.postgres is not None
    place = f"host={running.postgres.host} port={running.postgres.port}"
    return await psycopg.AsyncConnection.connect(f"{place} user=ada dbname=tidegate", autocommit=True)


@in_loop
async def test_a_feed_that_has_succeeded_ends_streams_without_an_error(feed: HandFeed) -> None:
    url, asked = "/subscribe", {"statement": "SUBSCRIBE accounts"}
    async with (
        served(feed) as running,
        await connected(running) as connection,
        await connected(running) as copying,
        httpx2.AsyncClient(timeout=COMES_S, base_url=f"http://{running.web}") as client,
        client.stream("GET", url, params=asked) as answer,
        copying.cursor().copy("COPY (SUBSCRIBE accounts) TO STDOUT") as copy,
    ):
        rows = connection.cursor().stream("SUBSCRIBE accounts")
        assert [await anext(rows) for _ in range(2)] == [(7, 1, 1, 10, None), (7, 1, 2, 20, None)]
        assert [(await copy.read_row() or ())[2] for _ in range(2)] == ["1", "2"]
        lines = answer.aiter_lines()
        while "frontier" not in json.loads(await anext(lines)):
            pass
        feed.end(FeedState.SUCCEEDED)
        assert [json.loads(line) async for line in lines][-1] == {"end": True}
        assert [row async for row in rows] == []
        assert await copy.read_row() is None
        assert await (await connection.execute("SELECT 1")).fetchone() is not None


@in_loop
async def test_a_feed_that_was_dropped_ends_streams_with_an_error(feed: HandFeed) -> None:
    async with served(feed) as running, await connected(running) as connection:
        rows = connection.cursor().stream("SUBSCRIBE accounts")
        for _ in range(2):
            await anext(rows)
        feed.drop()
        with pytest.raises(psycopg.errors.UndefinedObject, match="feed feed was dropped") as failure:
            await anext(rows)
        assert failure.value.sqlstate == "42704"


@in_loop
async def test_a_column_that_is_dropped_behind_a_reader_ends_its_streams(
    broker: KafkaBroker, topic_prefix: str
) -> None:
    noted = _NOTED.modified.wall
    feed = HandFeed(broker.bootstrap, topic_prefix, descriptors=(_FIRST, _NOTED))
    feed.write(0, noted, 1, {"id": 1, "balance": 10, "note": "x"})
    feed.mark(noted)
    subscriptions = FeedSubscriptions(feed.connection, feed.app_id, feed.prefix)
    stream = await subscriptions.open("SUBSCRIBE accounts")
    try:
        snapshot = await stream.next()
        assert snapshot is not None
        assert [row[2:] for row in snapshot.rows] == [(1, 10, "x")]
        later = at(30).wall
        feed.write(0, later, 1, {"id": 1, "balance": 11}, {"id": 1, "balance": 10})
        feed.mark(later)
        with pytest.raises(SchemaMismatch, match="missing columns: note"):
            await stream.next()
    finally:
        await stream.close()
        await subscriptions.close()


@in_loop
async def test_an_output_that_is_switched_off_is_refused_on_both_fronts(feed: HandFeed) -> None:
    off = SubscribeSwitches.without(["envelope_upsert"])
    upsert = "SUBSCRIBE accounts ENVELOPE UPSERT (KEY (id))"
    async with served(feed, off) as running, await connected(running) as connection:
        with pytest.raises(
            psycopg.errors.FeatureNotSupported, match="ENVELOPE UPSERT is not available"
        ) as failure:
            await anext(connection.cursor().stream(upsert))
        assert failure.value.sqlstate == "0A000"
        async with httpx2.AsyncClient(timeout=COMES_S, base_url=f"http://{running.web}") as client:
            refused = await client.get("/subscribe", params={"statement": upsert})
            assert refused.status_code == 400
            error = refused.json()["error"]
            assert (error["code"], error["sqlstate"]) == ("output_switched_off", "0A000")
            ((table,),) = (await client.get("/tables")).json().values()
            assert "ENVELOPE" not in table["statement"]
        rows = connection.cursor().stream("SUBSCRIBE accounts ENVELOPE DEBEZIUM (KEY (id))")
        assert (await anext(rows))[1] == "insert"
        await connection.cancel_safe()
        with pytest.raises(psycopg.errors.QueryCanceled):
            async for _ in rows:
                pass
