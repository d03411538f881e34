"""Whole histories of the simulated store: a bank, and tables of random types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sim.plan import Workload
from sim.workloads.bank import Bank, BankOptions
from sim.workloads.random import RandomOptions, RandomTransactions
from tests.contract.case import PARTITIONS, Case, World
from tests.logs import EVENTFUL_MIX, Record, SimulatedLog, eventful_store, simulate
from tidegate.hlc import ZERO
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.encode import encode_entry, encode_key
from tidegate.raftlog.entry import DescriptorUpdate, RangeId


def _simulated(workload: Workload, seed: int, world: World) -> None:
    """A feed on everything, and one on the last table from the middle of its history on."""
    log = simulate(workload, eventful_store(PARTITIONS), seed=seed, transactions=120)
    world.add(_moved(log, world.first_range_id))
    times = sorted(version.timestamp for version in log.history)
    world.feed_on(log.tables)
    world.feed_on(log.tables[-1:], start=times[len(times) // 2] if times else ZERO, topics="late-")


def _moved(log: SimulatedLog, first_range_id: int) -> Iterator[Iterator[Record]]:
    """The log with its ranges renumbered; the shift is a multiple of the partitions."""
    for records in log.partitions:
        yield (_renamed(record, first_range_id) for record in records)


def _renamed(record: Record, shift: int) -> Record:
    entry = decode_entry(record.key, record.value)
    if isinstance(entry, DescriptorUpdate):
        return record
    moved = entry._replace(range_id=RangeId(entry.range_id + shift))
    return record._replace(key=encode_key(moved.range_id), value=encode_entry(moved))


def _bank(world: World) -> None:
    _simulated(Bank(BankOptions(accounts=30, ranges=5, outcomes=EVENTFUL_MIX), seed=7), 7, world)


def _random(world: World) -> None:
    _simulated(RandomTransactions(RandomOptions(tables=3), seed=1), 1, world)


CASES: Final = (
    Case("a bank", _bank),
    # The random workload's tables have fixed ids: a second history would need a log of its own.
    Case("random transactions", _random),
)
