"""The page's looks: one for all clients, its errors, and the course of each feed."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from tests.unit.client.why.hand_evidence import evidence, held
from tests.unit.serve.postgres.served import run
from tidegate.errors import BrokerUnavailable
from tidegate.serve.feeds.feed_lookup import FeedsLook
from tidegate.serve.feeds.shown_feed import ShownFeed, explained_feed
from tidegate.serve.web.watched_feeds import MOST_POINTS, WatchedFeeds

FEED = explained_feed(evidence(held()), 100)


def looking_at(*looks: tuple[int, ShownFeed] | Exception) -> Callable[[], FeedsLook]:
    """Return a look that gives these looks, one after the other: each with its time, or an error."""
    left = list(looks)

    def look() -> FeedsLook:
        found = left.pop(0)
        if isinstance(found, Exception):
            raise found
        return FeedsLook(found[0], (found[1],))

    return look


async def shown(feeds: WatchedFeeds) -> Any:
    return json.loads((await feeds.now())[1])


def test_however_many_clients_ask_there_is_one_look() -> None:
    async def test() -> None:
        feeds = WatchedFeeds(looking_at((1_000, FEED)), interval_s=3_600)
        answers = await asyncio.gather(*(feeds.now() for _ in range(500)))
        answers += [await feeds.now() for _ in range(500)]
        assert feeds.looks == 1
        assert len({id(body) for _, body in answers}) == 1, "it is encoded once"
        assert json.loads(answers[0][1])["feeds"][0]["why"]["cause"] == "transaction"
        feeds.close()

    run(test)


def test_nobody_who_asks_means_no_look() -> None:
    async def test() -> None:
        feeds = WatchedFeeds(looking_at((1_000, FEED)), interval_s=0)
        await asyncio.sleep(0)
        assert feeds.looks == 0
        feeds.close()

    run(test)


def test_a_slow_look_gives_the_last_one_meanwhile() -> None:
    release = threading.Event()

    def slow() -> FeedsLook:
        if feeds.looks > 1:
            release.wait()
        return FeedsLook(feeds.looks, (FEED,))

    feeds = WatchedFeeds(slow, interval_s=0.01)

    async def test() -> None:
        assert (await shown(feeds))["at_ms"] == 1
        await asyncio.sleep(0.02)
        for _ in range(20):
            assert (await shown(feeds))["at_ms"] == 1
        assert feeds.looks == 2, "the look that is under way is the only one"
        release.set()
        while (await shown(feeds))["at_ms"] == 1:
            pass
        feeds.close()

    run(test)


def test_a_client_that_is_gone_ends_no_look() -> None:
    release = threading.Event()

    def slow() -> FeedsLook:
        release.wait()
        return FeedsLook(7, (FEED,))

    async def test() -> None:
        feeds = WatchedFeeds(slow, interval_s=3_600)
        gone, stays = asyncio.ensure_future(feeds.now()), asyncio.ensure_future(feeds.now())
        await asyncio.sleep(0)
        gone.cancel()
        release.set()
        assert json.loads((await stays)[1])["at_ms"] == 7
        assert feeds.looks == 1
        feeds.close()

    run(test)


def test_a_look_that_fails_keeps_the_feeds_of_the_one_before() -> None:
    away = BrokerUnavailable("no broker answers")

    async def test() -> None:
        feeds = WatchedFeeds(looking_at(away, (5, FEED), away, ValueError("x"), (9, FEED)), 0, 60)
        status, body = await feeds.now()
        assert (status, json.loads(body)["feeds"]) == (HTTPStatus.SERVICE_UNAVAILABLE, [])
        assert json.loads(body)["error"]["message"] == "no broker answers"
        assert "error" not in await shown(feeds)
        status, body = await feeds.now()
        kept = json.loads(body)
        assert (status, kept["at_ms"], len(kept["feeds"])) == (HTTPStatus.OK, 5, 1)
        assert kept["error"]["message"] == "no broker answers"
        assert (await shown(feeds))["error"]["code"] == "internal_error"
        assert "error" not in await shown(feeds)
        feeds.close()

    run(test)


def test_the_course_of_a_feed_has_rates_of_its_epoch_and_a_bound() -> None:
    later = [
        (1_000 * at, replace(FEED, records=100 + 10 * at, lag_ms=at)) for at in range(1, MOST_POINTS + 5)
    ]
    anew = (10**6, replace(FEED, records=0))
    moved = (10**6 + 1_000, replace(FEED, epoch=2, records=50))

    async def test() -> None:
        feeds = WatchedFeeds(looking_at(*later, anew, moved), 0, 60)
        (first,) = (await shown(feeds))["feeds"]
        assert (first["records_per_s"], first["points"]) == (None, [[1_000, 1, None]])
        for _ in later[1:]:
            (last,) = (await shown(feeds))["feeds"]
        assert last["records_per_s"] == 10.0
        assert len(last["points"]) == MOST_POINTS
        assert last["points"][-1] == [1_000 * (MOST_POINTS + 4), MOST_POINTS + 4, 10.0]
        assert (await shown(feeds))["feeds"][0]["records_per_s"] is None, "the topic was made anew"
        assert len((await shown(feeds))["feeds"][0]["points"]) == 1, "another epoch has another course"
        feeds.close()

    run(test)
