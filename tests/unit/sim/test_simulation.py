"""The simulation as a whole: same bytes for the same causes, a log that keeps the contract, a clean end."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.check import check_history, check_log
from sim.log.history import History
from sim.log.sink import ListSink, WrittenRecord
from sim.options import StoreOptions
from sim.simulation import Simulation
from sim.workloads.bank import Bank, BankOptions
from tests.driven_sim import Finite
from tests.examples import examples
from tests.strategies import BASE_NS, SimCase, sim_cases, simulate_case
from tidegate.errors import SettingsError
from tidegate.hlc import NANOS_PER_MS
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.entry import DescriptorUpdate, Heartbeat, Snapshot, SnapshotReason

_OPTIONS = StoreOptions(partitions=3, write_rate=500, closed_lag_ms=200, heartbeat_ms=300)
_BANK = BankOptions(accounts=20, ranges=4)


def _simulation(transactions: int = 100, seed: int = 1) -> tuple[Simulation, ListSink]:
    sink = ListSink()
    workload = Finite(Bank(_BANK, seed), transactions)
    return Simulation(workload, sink, History(), _OPTIONS, seed=seed, base_ns=BASE_NS), sink


@examples(20)
@given(sim_cases())
def test_the_log_keeps_the_contract_and_tells_the_true_history(case: SimCase) -> None:
    outcome = simulate_case(case)
    assert check_log(outcome.records, case.options.partitions, outcome.pushed) == []
    assert check_history(outcome.records, outcome.history) == []


@examples(10)
@given(sim_cases(splits=True))
def test_ranges_that_change_by_themselves_keep_the_contract(case: SimCase) -> None:
    outcome = simulate_case(case)
    assert check_log(outcome.records, case.options.partitions, outcome.pushed) == []
    assert check_history(outcome.records, outcome.history) == []


@examples(10)
@given(sim_cases(splits=True, troubles=True))
def test_what_troubles_take_from_the_log_is_known(case: SimCase) -> None:
    outcome = simulate_case(case)
    assert check_log(outcome.records, case.options.partitions, outcome.pushed) == []
    assert check_history(outcome.records, outcome.history, outcome.skipped) == []


@examples(5)
@given(sim_cases(max_transactions=20) | sim_cases(max_transactions=20, splits=True, troubles=True))
def test_the_same_seed_time_and_pushes_give_the_same_bytes(case: SimCase) -> None:
    assert simulate_case(case).records == simulate_case(case).records


def digest_of_a_run() -> str:
    """Return what a run wrote, in short."""
    simulation, sink = _simulation()
    simulation.run(100)
    simulation.finish()
    return hashlib.sha256(repr(sink.records).encode()).hexdigest()


def test_a_process_with_another_hash_seed_writes_the_same_bytes() -> None:
    script = f"import {__name__} as module; print(module.digest_of_a_run())"
    environment = {"PYTHONHASHSEED": "1", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == digest_of_a_run()


def test_another_seed_gives_another_log() -> None:
    logs = []
    for seed in (1, 2):
        simulation, sink = _simulation(seed=seed)
        simulation.run(20)
        logs.append(sink.records)
    assert logs[0] != logs[1]


@examples(15)
@given(st.lists(st.integers(0, 400), min_size=1, max_size=20))
def test_the_steps_in_which_time_passes_do_not_matter(steps: list[int]) -> None:
    stepwise, stepwise_sink = _simulation(40)
    for step in steps:
        stepwise.advance_to(stepwise.present.ns + step * NANOS_PER_MS)
    at_once, at_once_sink = _simulation(40)
    at_once.advance_to(stepwise.present.ns)
    assert stepwise_sink.records == at_once_sink.records


def test_nothing_is_written_ahead_of_the_present() -> None:
    simulation, sink = _simulation()
    for _ in range(50):
        before = len(sink.records)
        simulation.advance_to(simulation.present.ns + 7 * NANOS_PER_MS)
        present_ms = simulation.present.ns // NANOS_PER_MS
        assert all(record.record_time_ms <= present_ms for record in sink.records[before:])


def test_the_log_opens_with_descriptors_then_snapshots() -> None:
    _, sink = _simulation(0)
    entries = [decode_entry(record.key, record.value) for record in sink.records]
    assert [type(entry) for entry in entries] == [DescriptorUpdate] * 3 + [Snapshot] * 4
    for entry in entries[3:]:
        assert isinstance(entry, Snapshot)
        assert entry.reason is SnapshotReason.INITIAL
        assert entry.descriptors == (entries[0],)


def test_idle_ranges_have_heartbeats_and_descriptors_are_repeated() -> None:
    simulation, sink = _simulation(0)
    simulation.advance_to(BASE_NS + 30_000 * NANOS_PER_MS)
    entries = [decode_entry(record.key, record.value) for record in sink.records]
    beats = [entry for entry in entries if isinstance(entry, Heartbeat)]
    assert {beat.range_id for beat in beats} == {range_.id for range_ in simulation.store.ranges}
    assert len(beats) == pytest.approx(4 * 30_000 / 300, abs=4)
    descriptors = [entry for entry in entries if isinstance(entry, DescriptorUpdate)]
    assert len(descriptors) == 4 * 3
    assert len(set(descriptors)) == 1


def test_a_drained_simulation_has_closed_past_its_last_write() -> None:
    simulation, _ = _simulation()
    simulation.run(60)
    simulation.finish()
    assert simulation.store.ranges.closed.floor() >= simulation.store.ranges.high
    assert not simulation.store.txns
    assert all(not range_.intents for range_ in simulation.store.ranges)


def test_postponed_transactions_start_later_and_none_is_lost() -> None:
    simulation, _ = _simulation(100)
    simulation.run(10)
    resume_ns = simulation.present.ns + 5_000 * NANOS_PER_MS
    assert simulation.postpone(resume_ns) > 0
    simulation.advance_to(resume_ns - 1)
    assert simulation.started == 10
    simulation.run(1_000)
    assert simulation.started == 100


def test_nothing_is_written_while_the_store_sleeps_and_all_of_it_goes_on_after_that() -> None:
    simulation, sink = _simulation(100)
    simulation.run(10)
    begun_ns, written = simulation.present.ns, len(sink.records)
    simulation.sleep(1_000_000 * NANOS_PER_MS)
    woken_ms = simulation.present.ns // NANOS_PER_MS
    assert simulation.present.ns == begun_ns + 1_000_000 * NANOS_PER_MS
    assert len(sink.records) == written
    simulation.run(1_000)
    assert simulation.started == 100
    assert min(record.record_time_ms for record in sink.records[written:]) >= woken_ms - 1_000


def test_a_base_time_near_zero_is_refused() -> None:
    with pytest.raises(SettingsError, match="base_ns"):
        Simulation(Bank(_BANK, 1), ListSink(), History(), _OPTIONS, seed=1, base_ns=1_000)


@pytest.mark.parametrize(
    ("name", "value"), [("partitions", 0), ("heartbeat_ms", 0), ("rejected_fraction", 1.0), ("write_rate", 0)]
)
def test_options_that_cannot_work_are_refused(name: str, value: Any) -> None:
    with pytest.raises(SettingsError, match=name):
        replace(_OPTIONS, **{name: value})


def test_records_stand_in_the_partition_of_their_range() -> None:
    simulation, sink = _simulation()
    simulation.run(20)
    ranged: list[WrittenRecord] = [record for record in sink.records if record.key != bytes(8)]
    assert all(int.from_bytes(record.key, "big") % 3 == record.partition for record in ranged)
