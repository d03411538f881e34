"""Ctrl-C within ``next``: what was read is not lost in silence, and a topic that is quiet loses nothing."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest

from stack.kafka import KafkaBroker
from tests.unit.client.subscribe.hand_feed import (
    COMES_S,
    OPTIONS,
    HandFeed,
    account,
    next_of,
    opened,
)
from tests.unit.client.subscribe.interrupts import Interrupt
from tidegate.client.subscribe import (
    DeliveredBatch,
    DeliveredJointBatch,
    LiveJointSubscription,
    LiveSubscription,
    feed_reader,
    subscribe_together,
)
from tidegate.client.subscribe.collector_pace import _SLOWDOWNS
from tidegate.errors import CallInterrupted
from tidegate.hlc import Timestamp

pytestmark = pytest.mark.broker

_Subscription: TypeAlias = LiveSubscription | LiveJointSubscription
#: Opens a subscription after a token.
_Open: TypeAlias = Callable[[str], _Subscription]
_LAST: Final = 40


def written(feed: HandFeed) -> HandFeed:
    """Write a row at each time, and a marker after each second one."""
    for wall in range(5, _LAST, 2):
        for at in (wall, wall + 1):
            before = account(at % 3, at - 3) if at > 7 else None
            feed.write(at % 3 % 2, at, at % 3, account(at % 3, at), before)
        feed.mark(wall + 1)
    feed.mark(_LAST + 2)
    return feed


def rows_of(batch: DeliveredBatch | DeliveredJointBatch) -> list[Any]:
    """The rows of a batch, with the names of their members."""
    members = batch.members if isinstance(batch, DeliveredJointBatch) else {"": batch}
    return [(name, row) for name, member in members.items() for row in member.rows]


def in_order(rows: list[Any]) -> list[Any]:
    """Rows in an order that does not depend on how they came in batches."""
    return sorted(rows, key=str)


class InterruptedReading:
    """Reads a subscription to its end, though it is interrupted at random moments again and again.

    Attributes:
        rows: all rows that came, after each interrupt from the last token on.
        lost: how many calls were interrupted amid their work; each later call has to say so.
        waited: how many were interrupted while they waited, and could be made again.
    """

    def __init__(self, open_at: _Open, seed: int) -> None:
        self._open_at = open_at
        self._draw = random.Random(seed)
        self.rows: list[Any] = []
        self._token = ""
        self.lost = self.waited = 0

    def read(self) -> None:
        """Read to the end."""
        while not self._read_on():
            pass

    def _read_on(self) -> bool:
        """Go on after the last token; returns whether the end was reached."""
        with self._open_at(self._token) as subscription:
            while not subscription.ended:
                try:
                    with Interrupt(self._draw.randrange(1, 4_000)):
                        batch = subscription.next(COMES_S)
                except KeyboardInterrupt:
                    if subscription._only_waited():
                        self.waited += 1
                        continue
                    self.lost += 1
                    for _ in range(2):
                        with pytest.raises(CallInterrupted):
                            subscription.next(0)
                    return False
                assert batch is not None, "no batch came"
                self.rows += rows_of(batch)
                self._token = str(batch.token)
                subscription.settle(batch)  # type: ignore[arg-type]  # it is of this subscription
        return True


def all_rows(open_at: _Open) -> list[Any]:
    """Read a subscription to its end, and return its rows."""
    with open_at("") as subscription:
        return [row for batch in subscription for row in rows_of(batch)]


def require_nothing_lost(open_at: _Open, expected: list[Any], seed: int) -> None:
    """Read with interrupts; the rows have to be those of a reading without."""
    reading = InterruptedReading(open_at, seed)
    reading.read()
    assert in_order(reading.rows) == in_order(expected)
    assert reading.lost > 0


@pytest.fixture(autouse=True)
def collector_as_before() -> Iterator[None]:
    """An interrupt amid a slowdown of the collector leaves it slow, which is of this process alone."""
    before = gc.get_threshold()
    yield
    _SLOWDOWNS._count = 0
    gc.set_threshold(*before)


@pytest.fixture
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A poll brings few records: there are many batches."""
    monkeypatch.setattr(feed_reader, "_POLLED_RECORDS", 3)


STATEMENT = f"SUBSCRIBE accounts AS OF 6 UP TO {_LAST + 1}"


@pytest.mark.usefixtures("few_at_once")
@pytest.mark.parametrize("seed", range(4))
def test_a_call_that_is_interrupted_at_any_moment_loses_no_row_in_silence(
    broker: KafkaBroker, topic_prefix: str, seed: int
) -> None:
    feed = written(HandFeed(broker.bootstrap, topic_prefix))

    def open_at(token: str) -> LiveSubscription:
        return opened(feed, STATEMENT, token=token)

    require_nothing_lost(open_at, all_rows(open_at), seed)


@pytest.mark.usefixtures("few_at_once")
@pytest.mark.parametrize("seed", range(2))
def test_a_key_table_is_never_left_half_changed_by_an_interrupt(
    broker: KafkaBroker, topic_prefix: str, tmp_path: Path, seed: int
) -> None:
    feed = written(HandFeed(broker.bootstrap, topic_prefix, options=replace(OPTIONS, diff=False)))

    def open_at(token: str) -> LiveSubscription:
        return opened(feed, STATEMENT, token=token, key_table=tmp_path / "rows")

    require_nothing_lost(open_at, all_rows(open_at), seed)


@pytest.mark.usefixtures("few_at_once")
@pytest.mark.parametrize("seed", range(2))
def test_several_tables_at_one_cut_lose_no_row_by_an_interrupt_either(
    broker: KafkaBroker, topic_prefix: str, seed: int
) -> None:
    feed = written(HandFeed(broker.bootstrap, topic_prefix))
    statements = {
        "all": STATEMENT,
        "some": STATEMENT.replace("accounts", "(SELECT id, balance FROM accounts WHERE balance > 20)"),
    }

    def open_at(token: str) -> LiveJointSubscription:
        return subscribe_together(
            statements, feed.connection, app_id=feed.app_id, topic_prefix=feed.prefix, token=token
        )

    require_nothing_lost(open_at, all_rows(open_at), seed)


class InterruptedConsumer:
    """A client of Kafka: the first call that waits and gets a record is interrupted when it has got it."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self.interrupted = False

    def consume(self, most: int, timeout: float) -> list[Any]:
        if most > 1 and not self.interrupted:
            return []  # the call that does not wait leaves all to the one that does
        found: list[Any] = self._consumer.consume(most, timeout=timeout)
        if found and not self.interrupted and any(message.error() is None for message in found):
            self.interrupted = True
            raise KeyboardInterrupt
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)


def test_an_interrupt_while_it_waits_loses_nothing_and_the_next_call_goes_on(
    broker: KafkaBroker, topic_prefix: str
) -> None:
    feed = HandFeed(broker.bootstrap, topic_prefix)
    feed.write(0, 5, 1, account(1, 5))
    feed.mark(8)
    with opened(feed) as subscription:
        next_of(subscription)
        reader = subscription._reading._gate._reader
        reader._consumer = interrupted = InterruptedConsumer(reader._consumer)
        feed.write(0, 9, 1, account(1, 9), account(1, 5))
        feed.write(1, 9, 2, account(2, 9))
        feed.mark(10)
        with pytest.raises(KeyboardInterrupt):
            subscription.next(COMES_S)
        assert interrupted.interrupted
        batches = [next_of(subscription)]
        while batches[-1].frontier <= Timestamp(10):
            batches.append(next_of(subscription))
        found = [row[1:4] for batch in batches for row in batch.rows]
        assert sorted(found) == [(-1, 1, 5), (1, 1, 9), (1, 2, 9)]
