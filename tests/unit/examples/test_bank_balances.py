"""The sum of a bank's balances is right after every transfer, in whatever order its rows arrive."""

from __future__ import annotations

import pytest

from examples.bank_balances import watch
from stack.kafka import KafkaBroker
from tests.unit.client.subscribe.hand_feed import HandFeed
from tests.unit.examples.bank_topic import TOTAL, BankTopic
from tidegate.hlc import Timestamp

pytestmark = pytest.mark.broker


@pytest.mark.parametrize(
    "transfers", [3_000, pytest.param(1_000_000, marks=[pytest.mark.soak, pytest.mark.timeout(1_800)])]
)
def test_the_sum_of_balances_never_wavers(broker: KafkaBroker, topic_prefix: str, transfers: int) -> None:
    seed = 18
    print("seed", seed)
    feed = HandFeed(broker.bootstrap, topic_prefix, partitions=4)
    bank = BankTopic(feed, seed)
    bank.transfer(transfers)
    known = {"app_id": feed.app_id, "topic_prefix": feed.prefix}
    seen, last = 0, Timestamp(0)
    for balance in watch(feed.connection, "accounts", "balance", **known):
        assert balance.total == TOTAL, balance
        assert balance.at > last
        seen, last = seen + 1, balance.at
        if balance.at >= Timestamp(bank.last):
            break
    assert seen > 0


def test_the_sum_is_told_after_each_transfer(broker: KafkaBroker, topic_prefix: str) -> None:
    feed = HandFeed(broker.bootstrap, topic_prefix, partitions=4)
    bank = BankTopic(feed, seed=5)
    told = watch(feed.connection, "accounts", "balance", app_id=feed.app_id, topic_prefix=feed.prefix)
    snapshot = next(told)
    assert (snapshot.at, snapshot.total) == (Timestamp(1), TOTAL)
    bank.transfer(100)
    transfers = [next(told) for _ in range(100)]
    assert [each.at for each in transfers] == [Timestamp(wall) for wall in range(2, 102)]
    assert {each.total for each in transfers} == {TOTAL}
