"""Records that take their time: in order within a range, in any order between ranges, and none is lost."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from sim.check import check_history, check_log
from sim.options import StoreOptions
from sim.workloads.bank import Bank, BankOptions
from tests.driven_sim import DrivenSim
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.entry import Command, DescriptorUpdate, Snapshot, SnapshotReason, Trigger

_OPTIONS = StoreOptions(
    partitions=2, write_rate=200, closed_lag_ms=200, heartbeat_ms=200, ship_delay_ms=2_000
)


def _driven(options: StoreOptions = _OPTIONS) -> DrivenSim:
    return DrivenSim(Bank(BankOptions(accounts=50, ranges=3), 1), options, seed=1)


def test_a_child_may_come_before_its_parents_trigger_and_after() -> None:
    driven, rng = _driven(), Random(2)
    for _ in range(40):
        driven.advance(100)
        driven.split_somewhere(rng)
        driven.advance(100)
        driven.merge_somewhere(rng)
    driven.finish()
    triggers, children = {}, {}
    for number, record in enumerate(driven.log):
        entry = decode_entry(record.key, record.value)
        if isinstance(entry, Command) and entry.trigger is Trigger.SPLIT:
            triggers[entry.range_id, entry.raft_index] = number
        elif isinstance(entry, Snapshot) and entry.reason is SnapshotReason.SPLIT:
            parent = entry.parents[0]
            if parent.range_id != entry.range_id:
                children[parent.range_id, parent.last_index] = number
    before = sum(children[place] < triggers[place] for place in triggers)
    assert children.keys() == triggers.keys()
    assert 5 < before < len(triggers) - 5
    assert check_log(driven.log, 2) == []
    assert check_history(driven.log, driven.history) == []


def test_descriptors_are_not_late() -> None:
    driven = _driven()
    entries = [decode_entry(record.key, record.value) for record in driven.log]
    assert [type(entry) for entry in entries] == [DescriptorUpdate] * 2


def test_records_that_are_not_delayed_are_the_same() -> None:
    """A delay moves records, and changes nothing in them."""
    logs = []
    for options in (_OPTIONS, replace(_OPTIONS, ship_delay_ms=0)):
        driven = _driven(options)
        driven.run(50)
        driven.finish()
        logs.append(sorted(driven.log))
    assert logs[0] == logs[1]
