"""Logs for the processor's property tests: simulated ones, and one by hand with every kind of entry."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Final

from sim.workloads.bank import Bank, BankOptions
from tests.hand_log import HandLog, HandRange, HandTable, aborted, at, intent, moved, txn, update_of
from tests.logs import EVENTFUL_MIX, Record, SimulatedLog, eventful_store, simulate
from tidegate.raftlog.entry import OpenIntent, SnapshotReason, Trigger

PARTITIONS: Final = 3

PLAIN: Final = HandTable.of(104, "plain")
OTHER: Final = HandTable.of(105, "other")


def opened() -> tuple[HandLog, HandRange]:
    """A range with the keys of one table, one row, and closed up to 6; two tables are described."""
    log = HandLog(partitions=1)
    log.describe(PLAIN, OTHER)
    plain = log.open_range(1, PLAIN.span)
    plain.apply(PLAIN.put(5, 1, "before"), close=6)
    return log, plain


@cache
def bank_log(seed: int) -> SimulatedLog:
    """A small bank with every outcome of a transaction."""
    bank = Bank(BankOptions(accounts=20, ranges=5, outcomes=EVENTFUL_MIX), seed)
    return simulate(bank, eventful_store(PARTITIONS), seed=seed, transactions=40)


def eventful_log() -> tuple[Record, ...]:
    """One partition in which everything happens that state has to remember."""
    log = HandLog(partitions=1)
    low, high = PLAIN.split(100)
    log.describe(PLAIN, OTHER)
    first = log.open_range(1, low)
    second = log.open_range(
        2, high, intents=[OpenIntent(txn(1), b"anchor", PLAIN.key(100), at(1))], chunk=0, chunks=2
    )
    second.snapshot(close=0, reason=SnapshotReason.INITIAL, chunk=1, chunks=2)
    third = log.open_range(3, OTHER.span)
    first.apply(PLAIN.put(1, 1, "one"), intent(2, 2), close=1)
    third.apply(intent(3, 2), intent(3, 2), close=1)
    first.heartbeat(3, covers=first.index + 1)  # before the command that it covers
    first.apply(moved(2, 5))
    third.apply(aborted(3), close=4)
    second.apply(PLAIN.commit(1, 4, 100, "a"), intent(4, 6), close=5)
    widened = replace(PLAIN.descriptor, version=2, modified=at(6), name="plain")
    log.write(update_of(widened))
    first.apply(PLAIN.commit(2, 7, 2, "two"), PLAIN.delete(7, 1), close=7)
    third.index += 1  # index lost: a hole
    third.apply(OTHER.put(8, 1, "lost"), close=8)
    first.apply(PLAIN.put(8, 3, "three"), close=8, trigger=Trigger.SPLIT)
    first.generation = 2
    first.snapshot(close=8, chunk=0, chunks=2)
    first.snapshot(close=8, chunk=1, chunks=2)
    first.apply(PLAIN.put(9, 3, "more"), close=9)
    second.apply(PLAIN.commit(4, 9, 101, "b"), close=9)
    second.end()
    second.apply(PLAIN.put(12, 101, "after the end"), close=12)
    first.heartbeat(12)
    return log.partitions[0]
