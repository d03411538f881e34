"""Hypothesis strategies that generate whole histories: simulated stores, and one range's raw entries.

``tests/entries.py`` has single entries without a history.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from hypothesis import strategies as st

from sim.log.history import History
from sim.log.sink import ListSink, WrittenRecord
from sim.options import StoreOptions
from sim.plan import OutcomeMix
from sim.simulation import Simulation
from sim.workloads.random import RandomOptions, RandomTransactions
from tests.driven_sim import DrivenSim, Finite
from tidegate.hlc import Timestamp
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.entry import Command, RangeId, TxnId, WriteIntent
from tidegate.raftlog.request import Push, PushedTxn

BASE_NS: Final = 1_700_000_000 * 10**9


@dataclass(frozen=True, slots=True)
class SimCase:
    """The inputs of a simulated history. After every ``push_every`` transactions all old transactions are
    pushed."""

    seed: int
    options: StoreOptions
    workload: RandomOptions
    transactions: int
    push_every: int


@dataclass(frozen=True, slots=True)
class SimOutcome:
    """A finished simulation: the log in the order in which it was written, and what truly happened."""

    records: list[WrittenRecord]
    history: History
    pushed: frozenset[TxnId]
    simulation: Simulation
    skipped: History


_shares = st.sampled_from((0.0, 0.1, 0.3))
_intervals = st.sampled_from((0, 20, 200))


def store_options() -> st.SearchStrategy[StoreOptions]:
    """Stores from calm to hectic: long and short pauses, clocks apart, commands rejected."""
    return st.builds(
        StoreOptions,
        partitions=st.integers(1, 4),
        write_rate=st.sampled_from((20.0, 200.0, 2_000.0)),
        nodes=st.integers(1, 4),
        closed_lag_ms=st.sampled_from((0, 50, 200, 3_000)),
        heartbeat_ms=st.sampled_from((50, 200, 3_000)),
        max_offset_ms=st.sampled_from((0, 50, 500)),
        descriptor_interval_ms=st.sampled_from((500, 10_000)),
        snapshot_interval_ms=st.sampled_from((0, 100, 1_000)),
        snapshot_chunk_intents=st.sampled_from((1, 1_000)),
        txn_expiry_ms=st.sampled_from((100, 1_000)),
        request_gap_ms=st.sampled_from((0, 5, 100, 1_000)),
        resolve_delay_ms=st.sampled_from((0, 50, 1_000)),
        request_writes=st.integers(1, 4),
        rejected_fraction=_shares,
        zombie_fraction=_shares,
        prev_values=st.booleans(),
    )


def random_workloads() -> st.SearchStrategy[RandomOptions]:
    """Tables of few keys, and transactions of every outcome."""
    return st.builds(
        RandomOptions,
        tables=st.integers(1, 3),
        ranges=st.integers(1, 4),
        keys=st.integers(1, 20),
        writes=st.integers(1, 6),
        deletes=_shares,
        one_phase=_shares,
        outcomes=st.builds(OutcomeMix, restart=_shares, abort=_shares, abandon=_shares),
    )


def restless(options: st.SearchStrategy[StoreOptions]) -> st.SearchStrategy[StoreOptions]:
    """The same stores, with ranges that split, merge and move by themselves, and records that are late."""
    return st.builds(
        replace,
        options,
        split_every_ms=_intervals,
        merge_every_ms=_intervals,
        move_lease_every_ms=_intervals,
        build_index_every_ms=_intervals,
        split_bytes=st.sampled_from((0, 300)),
        split_rate=st.sampled_from((0.0, 10.0)),
        merge_bytes=st.sampled_from((0, 200)),
        gc_ttl_ms=st.sampled_from((0, 100, 1_000)),
        ship_delay_ms=st.sampled_from((0, 50, 1_000)),
        scan_chunk_rows=st.sampled_from((1, 5, 1_000)),
        scan_gap_ms=st.sampled_from((0, 50)),
        batch_values_fraction=_shares,
    )


def troubled(options: st.SearchStrategy[StoreOptions]) -> st.SearchStrategy[StoreOptions]:
    """The same stores, with entries that are skipped, and commands without their logical ops."""
    return st.builds(
        replace,
        options,
        skip_every_ms=_intervals,
        opless_every_ms=_intervals,
        trouble_ms=st.sampled_from((1, 50, 500)),
    )


def sim_cases(
    max_transactions: int = 60, *, splits: bool = False, troubles: bool = False
) -> st.SearchStrategy[SimCase]:
    """Simulated histories, to be run by ``simulate_case``.

    ``splits`` lets ranges change by themselves, ``troubles`` makes holes that can be healed.
    """
    options = store_options()
    if splits:
        options = restless(options)
    if troubles:
        options = troubled(options)
    return st.builds(
        SimCase,
        seed=st.integers(0, 2**32),
        options=options,
        workload=random_workloads(),
        transactions=st.integers(0, max_transactions),
        push_every=st.sampled_from((1, 5, 20)),
    )


def simulate_case(case: SimCase) -> SimOutcome:
    """Run a case to its end. Pushes are made from what the log shows, as tidegate makes them."""
    sink, history, skipped = ListSink(), History(), History()
    workload = RandomTransactions(case.workload, case.seed)
    simulation = Simulation(
        workload, sink, history, case.options, seed=case.seed, base_ns=BASE_NS, skipped=skipped
    )
    pushed: set[TxnId] = set()
    seen = 0
    while simulation.started < case.transactions:
        simulation.run(min(case.push_every, case.transactions - simulation.started))
        for push in _pushes(sink.records[seen:], Timestamp(simulation.present.ns)):
            simulation.push(push)
            pushed.update(txn.txn_id for txn in push.txns)
        seen = len(sink.records)
    simulation.finish()
    return SimOutcome(sink.records, history, frozenset(pushed), simulation, skipped)


def drive_case(case: SimCase) -> DrivenSim:
    """Return the simulation of a case, to be driven by the test: nothing has happened yet. No more
    transactions start than the case names."""
    workload = Finite(RandomTransactions(case.workload, case.seed), case.transactions)
    return DrivenSim(workload, case.options, seed=case.seed)


def _pushes(records: Sequence[WrittenRecord], push_to: Timestamp) -> list[Push]:
    """Return a push for every transaction that wrote an intent in these records, whether it has ended or
    not."""
    by_range: dict[RangeId, dict[PushedTxn, None]] = {}
    for record in records:
        entry = decode_entry(record.key, record.value)
        if isinstance(entry, Command):
            for op in entry.ops or ():
                if isinstance(op, WriteIntent):
                    by_range.setdefault(entry.range_id, {})[PushedTxn(op.txn_id, op.anchor_key)] = None
    return [Push(range_id, tuple(txns), push_to) for range_id, txns in by_range.items()]
