"""Data that the simulated store changes outside its op log: what its log tells, and what the check finds."""

from __future__ import annotations

from functools import cache
from random import Random

import pytest

from sim.check import check_log
from sim.options import StoreOptions
from sim.workloads.bank import Bank, BankOptions
from tests.driven_sim import DrivenSim
from tidegate.hlc import Timestamp
from tidegate.logcheck.breach import Rule
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.encode import encode_entry
from tidegate.raftlog.entry import NEVER_MUTATED, HistoryMutation, RaftIndex, Snapshot
from tidegate.raftlog.request import Scan

_SEEDS = range(10)


@cache
def _driven(seed: int) -> DrivenSim:
    rng = Random(seed)
    options = StoreOptions(
        partitions=2,
        closed_lag_ms=100,
        heartbeat_ms=100,
        snapshot_interval_ms=300,
        skip_every_ms=rng.choice([0, 400]),
        opless_every_ms=rng.choice([0, 500]),
    )
    driven = DrivenSim(Bank(BankOptions(accounts=30, ranges=3), seed), options, seed=seed)
    for _ in range(40):
        driven.advance(rng.randint(1, 60))
        for share, act in (
            (0.4, driven.mutate_somewhere),
            (0.2, driven.split_somewhere),
            (0.15, driven.merge_somewhere),
        ):
            if rng.random() < share:
                act(rng)
    driven.finish()
    return driven


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", _SEEDS)
def test_snapshots_tell_the_last_mutation_through_splits_merges_and_holes(seed: int) -> None:
    driven = _driven(seed)
    assert driven.mutations
    assert check_log(driven.log, 2) == []


@pytest.mark.parametrize(
    "told",
    [
        NEVER_MUTATED,
        HistoryMutation(RaftIndex(1), Timestamp(1)),
        HistoryMutation(RaftIndex(1 << 40), Timestamp(1 << 62)),
    ],
    ids=["never", "below what was closed", "behind the snapshot"],
)
def test_a_snapshot_that_tells_another_mutation_breaks_the_contract(told: HistoryMutation) -> None:
    log = list(_driven(0).log)
    entries = [decode_entry(record.key, record.value) for record in log]
    number, entry = next(
        (number, entry)
        for number, entry in reversed(list(enumerate(entries)))
        if isinstance(entry, Snapshot) and entry.last_mutation not in (None, NEVER_MUTATED)
    )
    log[number] = log[number]._replace(value=encode_entry(entry._replace(last_mutation=told)))
    assert Rule.MUTATION in {breach.rule for breach in check_log(log, 2)}


def test_a_source_that_tells_of_no_mutation_keeps_the_contract() -> None:
    log = [
        record._replace(value=encode_entry(entry._replace(last_mutation=None)))
        if isinstance(entry := decode_entry(record.key, record.value), Snapshot)
        else record
        for record in _driven(1).log
    ]
    assert check_log(log, 2) == []


@pytest.mark.parametrize("seed", _SEEDS)
def test_a_scan_shows_what_was_brought_into_the_past(seed: int) -> None:
    driven = _driven(seed)
    for mutated in driven.mutations:
        version = mutated.version
        (range_,) = (each for each in driven.ranges if each.span.contains(version.key))
        scan = Scan(range_.id, 1, range_.span, None, version.timestamp, all_versions=True, with_prev=False)
        found = [row for rows in range_.rows.scan(scan, range_.span) for row in rows]
        assert (version.key, version.timestamp, version.value) in [row[:3] for row in found]
