"""Cases of transactions: rows are committed in one phase, by intents in any order, in later epochs, or not at
all."""

from __future__ import annotations

from itertools import permutations
from typing import Final

from tests.contract.case import Case, World
from tests.hand_log import aborted, intent, moved
from tidegate.raftlog.entry import AbortTxn


def _one_phase(world: World) -> None:
    """Commands with several rows and no intents."""
    table = world.table()
    rows = world.range(table.span)
    for second in range(1, 10):
        rows.apply(*(table.put(second, number, f"{second}") for number in range(3)), close=second - 1)
    rows.heartbeat(10)
    world.feed(table)


def _resolution_orders(world: World) -> None:
    """Three transactions with intents in two ranges, resolved in every order."""
    table = world.table()
    low, high = table.split(100)
    ranges = world.range(low), world.range(high)
    second = 1
    for order in permutations((1, 2, 3)):
        for number in (1, 2, 3):
            for each in ranges:
                each.apply(intent(10 * second + number, second + number), close=second)
        for step, number in enumerate(order):
            for each, row in zip(ranges, (number, 100 + number), strict=True):
                each.apply(
                    table.commit(10 * second + number, second + 3 + number, row, f"{order}"),
                    close=second + step,
                )
        second += 10
    for each in ranges:
        each.heartbeat(second + 10)
    world.feed(table)


def _aborted(world: World) -> None:
    """Transactions end without leaving a row: their intents are removed one by one, or all by a push."""
    table = world.table()
    rows = world.range(table.span)
    rows.apply(intent(1, 2), intent(1, 2), intent(2, 3), close=1)
    rows.apply(table.put(4, 9, "between"), close=4)
    rows.apply(aborted(1), close=5)
    rows.apply(aborted(1), close=6)
    rows.apply(AbortTxn(intent(2, 3).txn_id), close=7)
    rows.apply(table.put(8, 9, "after"), close=8)
    world.feed(table)


def _restarted(world: World) -> None:
    """A transaction moves up and writes only some of its keys again; the others' intents are removed."""
    table = world.table()
    rows = world.range(table.span)
    rows.apply(intent(1, 2), intent(1, 2), close=1)
    rows.apply(table.put(5, 3, "other"), close=5)
    rows.apply(moved(1, 7))
    rows.apply(aborted(1), close=6)
    rows.apply(table.commit(1, 9, 1, "second epoch"), close=9)
    world.feed(table)


def _long_open(world: World) -> None:
    """An old intent in one range holds the markers of the whole feed back while rows go on."""
    table = world.table()
    low, high = table.split(5)
    slow, quick = world.range(low), world.range(high)
    slow.apply(intent(1, 2), close=5)
    for second in range(3, 20):
        quick.apply(table.put(second, 5 + second % 4, f"{second}"), close=second)
        slow.apply(close=second)
    slow.apply(table.commit(1, 18, 1, "at last"), close=19)
    world.feed(table)


CASES: Final = (
    Case("one-phase transactions", _one_phase),
    Case("intents resolved in any order", _resolution_orders),
    Case("aborted transactions", _aborted),
    Case("restarted transactions", _restarted),
    Case("a long transaction", _long_open),
)
