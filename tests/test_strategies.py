"""The generators of histories: what they give is valid, and has in it what tests need to find faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import Phase, find, given, settings

from sim.options import StoreOptions
from sim.plan import OutcomeMix
from sim.workloads.random import RandomOptions
from tests.examples import examples
from tests.range_histories import RANGE_ID, range_histories
from tests.strategies import SimCase, sim_cases, simulate_case
from tidegate.hlc import Timestamp
from tidegate.logcheck.breach import BreachPlace, Rule
from tidegate.logcheck.lineage import Lineage
from tidegate.logcheck.memory import CheckLimits, NewestVersions
from tidegate.logcheck.range_check import RangeCheck, Shared, Stood
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.entry import (
    AbortIntent,
    AbortTxn,
    Command,
    CommitIntent,
    Entry,
    Heartbeat,
    Op,
    RangeEnd,
    RangeId,
    Snapshot,
    SnapshotReason,
    Trigger,
    TxnId,
    UpdateIntent,
    WriteIntent,
    WriteValue,
)
from tidegate.ranges.range_log import apply_entry
from tidegate.ranges.range_state import RangeState

_KINDS: tuple[type[Op], ...] = (WriteValue, WriteIntent, UpdateIntent, CommitIntent, AbortIntent, AbortTxn)

_HECTIC = SimCase(
    seed=1,
    options=StoreOptions(
        partitions=3,
        write_rate=200,
        closed_lag_ms=50,
        heartbeat_ms=200,
        txn_expiry_ms=100,
        request_gap_ms=100,
        resolve_delay_ms=1_000,
        request_writes=2,
        rejected_fraction=0.1,
        zombie_fraction=0.3,
        snapshot_interval_ms=1_000,
    ),
    workload=RandomOptions(outcomes=OutcomeMix(restart=0.3, abort=0.1, abandon=0.1)),
    transactions=300,
    push_every=20,
)

#: One range, transactions that abort each other while they are pushed.
_CROWDED = replace(
    _HECTIC,
    options=replace(_HECTIC.options, zombie_fraction=0.9, request_writes=1),
    workload=replace(_HECTIC.workload, tables=1, ranges=1, keys=10),
    push_every=2,
)


#: Ranges that change by themselves, with records that are late and troubles in the log.
_RESTLESS = replace(
    _HECTIC,
    options=replace(
        _HECTIC.options,
        split_every_ms=100,
        merge_every_ms=150,
        move_lease_every_ms=300,
        ship_delay_ms=300,
        gc_ttl_ms=1_000,
        skip_every_ms=300,
        opless_every_ms=1_000,
        trouble_ms=1_000,
    ),
    workload=replace(_HECTIC.workload, outcomes=OutcomeMix(restart=0.1)),
)


@cache
def _entries(case: SimCase) -> list[Entry]:
    return [decode_entry(record.key, record.value) for record in simulate_case(case).records]


def _ops(entries: Iterable[Entry]) -> list[Op]:
    return [op for entry in entries if isinstance(entry, Command) for op in entry.ops or ()]


def _ids(ops: Iterable[Op], kind: type[CommitIntent | AbortIntent]) -> set[TxnId]:
    return {op.txn_id for op in ops if isinstance(op, kind)}


# ---- simulated histories ----


def test_a_hectic_store_writes_every_kind_of_op_often() -> None:
    counts = Counter(map(type, _ops(_entries(_HECTIC))))
    assert all(counts[kind] >= 10 for kind in _KINDS), counts


def test_committed_transactions_drop_intents_of_older_epochs() -> None:
    ops = _ops(_entries(_HECTIC))
    assert _ids(ops, CommitIntent) & _ids(ops, AbortIntent)


def test_transactions_commit_in_several_ranges() -> None:
    ranges: Counter[TxnId] = Counter()
    for entry in _entries(_HECTIC):
        if isinstance(entry, Command):
            ranges.update(_ids(entry.ops or (), CommitIntent))
    assert max(ranges.values()) > 1


def test_commits_come_below_what_was_closed_meanwhile() -> None:
    closed: dict[RangeId, Timestamp] = {}
    below = 0
    for entry in _entries(_HECTIC):
        if isinstance(entry, Command):
            floor = closed.get(entry.range_id)
            below += sum(
                floor is not None and op.timestamp <= floor
                for op in entry.ops or ()
                if isinstance(op, CommitIntent)
            )
        if isinstance(entry, Command | Heartbeat) and entry.closed is not None:
            closed[entry.range_id] = entry.closed
    assert below > 10


def test_ops_come_below_the_closed_timestamp_of_their_own_command() -> None:
    assert any(
        isinstance(entry, Command)
        and entry.closed is not None
        and any(isinstance(op, WriteIntent) and op.timestamp <= entry.closed for op in entry.ops or ())
        for entry in _entries(_HECTIC)
    )


@pytest.mark.long
def test_aborted_transactions_write_on_without_knowing() -> None:
    aborted: set[tuple[int, TxnId]] = set()
    zombies = 0
    for entry in _entries(_CROWDED):
        if isinstance(entry, Command):
            for op in entry.ops or ():
                if isinstance(op, AbortTxn):
                    aborted.add((entry.range_id, op.txn_id))
                zombies += isinstance(op, WriteIntent) and (entry.range_id, op.txn_id) in aborted
    assert zombies


def test_snapshots_find_open_intents() -> None:
    assert any(isinstance(entry, Snapshot) and entry.intents for entry in _entries(_HECTIC))


def _snapshots(reason: SnapshotReason) -> list[Snapshot]:
    return [entry for entry in _entries(_RESTLESS) if isinstance(entry, Snapshot) and entry.reason is reason]


def test_restless_ranges_split_and_merge_often_and_into_other_partitions() -> None:
    born = [
        entry for entry in _snapshots(SnapshotReason.SPLIT) if entry.parents[0].range_id != entry.range_id
    ]
    assert len(born) > 20
    assert len(_snapshots(SnapshotReason.MERGE)) > 20
    assert {(entry.range_id - entry.parents[0].range_id) % 3 for entry in born} == {0, 1, 2}


def test_split_ranges_split_again_and_are_merged_soon() -> None:
    born = {entry.range_id: entry for entry in _snapshots(SnapshotReason.SPLIT)}
    grandchildren = [entry for entry in born.values() if entry.generation > 3]
    ended = [entry.range_id for entry in _entries(_RESTLESS) if isinstance(entry, RangeEnd)]
    assert len(grandchildren) > 5
    assert len(set(ended) & born.keys()) > 5


def test_children_come_before_and_after_their_parents_triggers() -> None:
    seen: set[tuple[RangeId, int]] = set()
    late = early = 0
    for entry in _entries(_RESTLESS):
        if isinstance(entry, Command) and entry.trigger is Trigger.SPLIT:
            seen.add((entry.range_id, entry.raft_index))
        elif isinstance(entry, Snapshot) and entry.reason is SnapshotReason.SPLIT:
            parent = entry.parents[0]
            if parent.range_id != entry.range_id:
                known = (parent.range_id, parent.last_index) in seen
                late, early = late + known, early + (not known)
    assert min(late, early) > 5


def test_splits_and_merges_find_open_intents() -> None:
    assert sum(bool(entry.intents) for entry in _snapshots(SnapshotReason.SPLIT)) > 10
    assert sum(bool(entry.intents) for entry in _snapshots(SnapshotReason.MERGE)) > 10


def test_troubles_make_holes_of_both_kinds_and_some_hide_a_split_or_merge() -> None:
    assert sum(isinstance(entry, Command) and entry.ops is None for entry in _entries(_RESTLESS)) > 5
    applied: dict[RangeId, tuple[int, int]] = {}
    skips = hidden = 0
    for entry in _entries(_RESTLESS):
        if isinstance(entry, Snapshot | Command):
            index, generation = applied.get(entry.range_id, (entry.raft_index, entry.generation))
            if isinstance(entry, Snapshot) and entry.reason is SnapshotReason.RAFT_SNAPSHOT:
                skips += entry.raft_index > index
                hidden += entry.generation > generation
            applied[entry.range_id] = entry.raft_index, entry.generation
    assert skips > 5
    assert hidden


@given(sim_cases(max_transactions=5) | sim_cases(max_transactions=5, splits=True, troubles=True))
@examples(5)
def test_every_case_runs_to_an_end_with_nothing_open(case: SimCase) -> None:
    simulation = simulate_case(case).simulation
    assert simulation.drained
    assert not simulation.store.txns


# ---- raw histories of one range ----


@given(range_histories())
def test_raw_histories_keep_the_contract(entries: tuple[Entry, ...]) -> None:
    breaches: list[tuple[Rule, str]] = []
    limits = CheckLimits()
    shared = Shared(
        lambda rule, sentence, _: breaches.append((rule, sentence)),
        Lineage(lambda _: False, lambda _: False, limits),
        NewestVersions(limits.keys),
        limits,
    )
    check = RangeCheck(RANGE_ID, shared)
    for offset, entry in enumerate(entries):
        check.check_next(Stood(entry, BreachPlace(0, offset)))
    assert breaches == []


@given(range_histories())
def test_raw_histories_can_be_followed_to_their_end(entries: tuple[Entry, ...]) -> None:
    state = RangeState(RANGE_ID)
    for entry in entries:
        assert isinstance(entry, Command | Heartbeat | Snapshot)
        apply_entry(state, entry)
        applied = entry.covers if isinstance(entry, Heartbeat) else entry.raft_index
        assert state.applied == applied


@pytest.mark.parametrize("kind", _KINDS)
def test_raw_histories_have_every_kind_of_op(kind: type[Op]) -> None:
    generate_only = settings(max_examples=500, phases=[Phase.generate], database=None)
    found = find(
        range_histories(),
        lambda entries: any(isinstance(op, kind) for op in _ops(entries)),
        settings=generate_only,
    )
    assert found
