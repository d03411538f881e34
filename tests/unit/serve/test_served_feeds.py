"""What clients of the server are told of outputs that are off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any

import httpx2
import psycopg
import pytest

from stack.kafka import KafkaBroker
from tests.unit.client.subscribe.hand_feed import COMES_S, HandFeed
from tidegate.serve.addresses import read_address
from tidegate.serve.feed_subscriptions import FeedSubscriptions
from tidegate.serve.limits import ServeLimits
from tidegate.serve.server import RunningServer, ServeSettings, check_settings, serving
from tidegate.subscribe.statement.switches import ALL_ON, SubscribeSwitches

pytestmark = pytest.mark.broker


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that runs in an event loop of its own, for a minute at most."""

    @wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*arguments, **named), 2 * COMES_S))

    return run


@pytest.fixture
def feed(broker: KafkaBroker, topic_prefix: str) -> HandFeed:
    """A feed with two accounts, complete up to 7."""
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
