"""Looks at the feeds for all statements: when one begins, who waits for it, and for how long."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import pytest

from tidegate.client.subscribe.feed_catalog import FeedCatalog
from tidegate.errors import RetryError
from tidegate.serve.known_feeds import KnownFeeds, LookTimes
from tidegate.subscribe.updates.relation import Relations

_COMES_S = 100.0
#: Times within which each look ends that is not held back, and such in which none ends that is.
_PATIENT = LookTimes(patience_s=_COMES_S, wait_s=_COMES_S)
_FAST = LookTimes(patience_s=0.05, wait_s=0.05)


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that runs in an event loop of its own."""

    @wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*arguments, **named), _COMES_S))

    return run


class _Seen(FeedCatalog):
    """The findings of look number ``number``."""

    def __init__(self, number: int) -> None:
        self.number = number

    def relations(self) -> Relations:
        return Relations(())


class Looks:
    """Looks of an application whose Kafka answers once it ``may``, or fails by ``failure``."""

    def __init__(self) -> None:
        self.count = 0
        self.may = threading.Event()
        self.may.set()
        self.failure: Exception | None = None
        self.now = 1000.0

    def look(self) -> FeedCatalog:
        self.count += 1
        number = self.count
        self.may.wait(_COMES_S)
        if self.failure is not None:
            raise self.failure
        return _Seen(number)

    def known(self) -> KnownFeeds:
        return KnownFeeds(self.look, _PATIENT, lambda: self.now)

    @contextmanager
    def held_back(self, known: KnownFeeds) -> Iterator[None]:
        """No look ends in this context, and no statement waits for long."""
        self.may.clear()
        known._times = _FAST
        yield
        known._times = _PATIENT
        self.may.set()


async def number(asked: Coroutine[Any, Any, Any]) -> int:
    """The number of the look that a question is answered by."""
    catalog = (await asked).catalog
    assert isinstance(catalog, _Seen)
    return catalog.number


@in_loop
async def test_a_look_serves_for_five_seconds_and_the_next_statement_waits_for_another() -> None:
    looks = Looks()
    known = looks.known()
    assert await number(known.now()) == 1
    looks.now += 5
    assert await number(known.now()) == 1
    looks.now += 1
    assert await number(known.now()) == 2


@in_loop
async def test_statements_are_planned_by_what_is_known_while_a_look_is_slow() -> None:
    looks = Looks()
    known = looks.known()
    await known.now()
    looks.now += 59
    with looks.held_back(known):
        assert await asyncio.gather(*(number(known.now()) for _ in range(9))) == [1] * 9
    assert await number(known.newer(looks.now)) == 2
    assert looks.count == 2


@in_loop
async def test_what_is_known_for_too_long_serves_nobody_and_nobody_waits_without_end() -> None:
    looks = Looks()
    known = looks.known()
    await known.now()
    looks.now += 61
    with looks.held_back(known), pytest.raises(RetryError, match="being looked up"):
        await known.now()
    looks.now += 1
    await known.refresh()
    assert await number(known.now()) == 3  # a refresh takes no look that began before it


@in_loop
async def test_before_the_first_look_is_done_nobody_waits_without_end() -> None:
    looks = Looks()
    known = looks.known()
    with looks.held_back(known), pytest.raises(RetryError, match="being looked up"):
        await known.now()
    assert await number(known.newer(looks.now)) == 1


@in_loop
async def test_a_statement_that_cannot_be_planned_has_a_look_that_begins_after_it() -> None:
    looks = Looks()
    known = looks.known()
    await known.now()
    looks.now += 2
    assert await number(known.newer(looks.now)) == 2
    looks.now += 10
    looks.may.clear()
    slow = asyncio.ensure_future(number(known.now()))  # it begins look 3
    await asyncio.sleep(0)
    looks.now += 2
    waits = asyncio.ensure_future(number(known.newer(looks.now)))
    await asyncio.sleep(0)
    looks.may.set()
    assert await slow == 3
    assert await waits == 4


@in_loop
async def test_mistakes_in_statements_cause_one_look_a_second() -> None:
    looks = Looks()
    known = looks.known()
    await known.now()
    for _ in range(100):
        await known.newer(looks.now)
        looks.now += 0.05
    assert looks.count <= 6


@in_loop
async def test_a_look_that_fails_is_the_failure_of_those_that_wait_and_the_next_begins_another() -> None:
    looks = Looks()
    known = looks.known()
    looks.failure = RetryError("it does not answer")
    failures = await asyncio.gather(*(known.now() for _ in range(5)), return_exceptions=True)
    assert {str(failure) for failure in failures} == {"it does not answer"}
    assert looks.count == 1
    looks.failure = None
    assert await number(known.now()) == 2


@in_loop
async def test_a_client_that_is_gone_ends_no_look_of_the_feeds() -> None:
    looks = Looks()
    looks.may.clear()
    known = looks.known()
    gone = asyncio.ensure_future(known.now())
    stays = asyncio.ensure_future(number(known.now()))
    await asyncio.sleep(0)
    gone.cancel()
    looks.may.set()
    assert await stays == 1
    assert looks.count == 1
