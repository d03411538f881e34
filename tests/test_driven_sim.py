"""Stores that are driven step by step: whatever a test does to them, the log keeps the contract."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.check import check_history, check_log, check_scans
from sim.options import StoreOptions
from sim.workloads.random import RandomOptions
from tests.driven_sim import DrivenSim
from tests.examples import examples
from tests.strategies import SimCase, drive_case, sim_cases
from tidegate.hlc import Timestamp
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.encode import encode_entry
from tidegate.raftlog.entry import Command, Entry, ScanChunk, Snapshot, Trigger
from tidegate.raftlog.request import Scan

_CASE = SimCase(
    seed=4,
    options=StoreOptions(
        partitions=3,
        write_rate=200,
        closed_lag_ms=100,
        heartbeat_ms=100,
        request_gap_ms=100,
        resolve_delay_ms=500,
    ),
    workload=RandomOptions(tables=1, ranges=2),
    transactions=400,
    push_every=1,
)
_steps = st.lists(st.sampled_from(("advance", "split", "merge", "scan")), max_size=12)


def _entries(driven: DrivenSim) -> list[Entry]:
    return [decode_entry(record.key, record.value) for record in driven.log]


def _do(driven: DrivenSim, step: str, rng: Random) -> None:
    if step == "split":
        driven.split_somewhere(rng)
    elif step == "merge":
        driven.merge_somewhere(rng)
    elif step == "scan":
        driven.scan(_random_scan(driven, rng))
    driven.advance(rng.choice((0, 20, 200)))


def _random_scan(driven: DrivenSim, rng: Random) -> Scan:
    range_ = rng.choice(driven.ranges)
    upto = driven.now_ns - rng.choice((0, 10**8, 10**9))
    after = rng.choice((None, Timestamp(upto - 10**8)))
    modes = rng.random() < 0.5, rng.random() < 0.5
    return Scan(range_.id, rng.getrandbits(32), range_.span, after, Timestamp(upto), *modes)


@examples(10)
@given(sim_cases() | sim_cases(splits=True, troubles=True), _steps)
def test_a_driven_store_keeps_the_contract_and_tells_the_true_history(
    case: SimCase, steps: list[str]
) -> None:
    driven, rng = drive_case(case), Random(case.seed)
    for step in steps:
        _do(driven, step, rng)
    driven.finish()
    driven.advance(1_000)
    driven.deliver()
    assert check_log(driven.log, case.options.partitions) == []
    assert check_history(driven.log, driven.history, driven.skipped) == []
    assert check_scans(driven.log, driven.history) == []


def test_the_same_steps_give_the_same_records() -> None:
    logs = []
    for _ in range(2):
        driven, rng = drive_case(_CASE), Random(1)
        for step in ("advance", "split", "scan", "split", "advance", "merge", "advance"):
            _do(driven, step, rng)
        logs.append(driven.records())
    assert logs[0] == logs[1]


def test_records_come_once_and_with_their_offsets() -> None:
    driven = drive_case(_CASE)
    first = driven.records()
    driven.run(20)
    second = driven.records()
    assert sum(map(bool, second)) == 2  # as many as there are ranges
    for before, after, log in zip(first, second, driven.partitions, strict=True):
        assert [*before, *after] == log
        assert [record.offset for record in log] == list(range(len(log)))


def test_drained_stores_answer_scans_with_the_whole_history() -> None:
    driven = drive_case(_CASE)
    driven.run(60)
    driven.finish()
    upto = Timestamp(driven.now_ns)
    for number, range_ in enumerate(driven.ranges):
        assert driven.scan(Scan(range_.id, number, range_.span, None, upto, True, True))
    driven.advance(1_000)
    chunks = [entry for entry in _entries(driven) if isinstance(entry, ScanChunk)]
    rows = sorted((row.key, row.timestamp, row.value) for chunk in chunks for row in chunk.rows)
    assert rows == sorted((version.key, version.timestamp, version.value) for version in driven.history)


@pytest.mark.long
def test_snapshots_after_splits_and_merges_divide_and_join_open_intents() -> None:
    driven, rng = drive_case(_CASE), Random(5)
    for _ in range(30):
        driven.run(5)
        driven.split_somewhere(rng)
        driven.run(5)
        driven.merge_somewhere(rng)
    driven.finish()
    assert check_log(driven.log, 3) == []
    entries = _entries(driven)
    triggers = [entry.trigger for entry in entries if isinstance(entry, Command)]
    assert triggers.count(Trigger.SPLIT) >= 25
    assert triggers.count(Trigger.MERGE) >= 25
    begun = [entry for entry in entries if isinstance(entry, Snapshot) and entry.parents]
    assert sum(bool(entry.intents) for entry in begun) >= 20


@pytest.mark.long
def test_lost_intents_of_a_split_are_found() -> None:
    driven, rng = drive_case(_CASE), Random(5)
    for _ in range(30):
        driven.run(5)
        driven.split_somewhere(rng)
    driven.finish()
    log = list(driven.log)
    at, found = next(
        (at, entry)
        for at, entry in reversed(list(enumerate(_entries(driven))))
        if isinstance(entry, Snapshot) and entry.parents and entry.intents
    )
    log[at] = log[at]._replace(value=encode_entry(found._replace(intents=found.intents[1:])))
    assert check_log(log, 3)
