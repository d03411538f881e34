"""Tests what the store does to its ranges by itself, and what it does not do unless it is told to."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from sim.check import check_history, check_log
from sim.options import StoreOptions
from sim.workload_tables import secondary_index
from sim.workloads.bank import Bank, BankOptions
from tests.driven_sim import DrivenSim
from tidegate.errors import SettingsError
from tidegate.hlc import NANOS_PER_MS
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.entry import (
    Command,
    Entry,
    Heartbeat,
    RangeEnd,
    RangeId,
    Snapshot,
    SnapshotReason,
    Trigger,
)

_OPTIONS = StoreOptions(partitions=3, write_rate=200, closed_lag_ms=200, heartbeat_ms=200)


def _driven(options: StoreOptions, seconds: int = 5, ranges: int = 2) -> DrivenSim:
    driven = DrivenSim(Bank(BankOptions(accounts=50, ranges=ranges), 1), options, seed=1)
    driven.advance(seconds * 1_000)
    return driven


def _entries(driven: DrivenSim) -> list[Entry]:
    return [decode_entry(record.key, record.value) for record in driven.log]


def _triggers(driven: DrivenSim, trigger: Trigger) -> int:
    return sum(isinstance(entry, Command) and entry.trigger is trigger for entry in _entries(driven))


def _snapshots(driven: DrivenSim, reason: SnapshotReason) -> list[Snapshot]:
    return [entry for entry in _entries(driven) if isinstance(entry, Snapshot) and entry.reason is reason]


@cache
def _quiet() -> DrivenSim:
    return _driven(_OPTIONS)


def test_nothing_happens_by_itself_unless_it_is_switched_on() -> None:
    assert len(_quiet().ranges) == 2
    assert _triggers(_quiet(), Trigger.SPLIT) == _triggers(_quiet(), Trigger.MERGE) == 0


def test_ranges_are_split_and_merged_as_often_as_asked() -> None:
    driven = _driven(replace(_OPTIONS, split_every_ms=100, merge_every_ms=200))
    assert _triggers(driven, Trigger.SPLIT) == pytest.approx(50, rel=0.3)
    assert _triggers(driven, Trigger.MERGE) == pytest.approx(25, rel=0.3)


def test_a_range_that_has_grown_is_split_in_the_middle() -> None:
    driven = _driven(replace(_OPTIONS, split_bytes=5_000), ranges=1)
    assert len(driven.ranges) > 2
    first = next(entry for entry in _entries(driven) if isinstance(entry, Command) and entry.trigger.value)
    assert first.range_id == 1
    assert all(range_.rows.bytes < 10_000 for range_ in driven.ranges)


def test_a_range_that_is_written_much_is_split_amid_its_writes() -> None:
    driven = _driven(replace(_OPTIONS, split_rate=50.0), ranges=1)
    assert len(driven.ranges) >= 4
    assert all(range_.written for range_ in driven.ranges)


def test_small_neighbours_are_merged_until_they_are_large_enough() -> None:
    driven = _driven(replace(_OPTIONS, merge_bytes=10**9), ranges=6)
    assert len(driven.ranges) == 1
    assert sum(isinstance(entry, RangeEnd) for entry in _entries(driven)) == 5


def test_busy_neighbours_are_not_merged() -> None:
    driven = _driven(replace(_OPTIONS, merge_bytes=10**9, split_rate=50.0), ranges=6)
    assert len(driven.ranges) >= 4


def test_merging_what_was_split_is_refused() -> None:
    with pytest.raises(SettingsError, match="merge_bytes"):
        replace(_OPTIONS, split_bytes=1_000, merge_bytes=1_000)


def test_new_ranges_have_heartbeats_and_ended_ones_have_none() -> None:
    driven = _driven(_OPTIONS, seconds=1)
    new = driven.split(RangeId(1), driven.ranges[0].split_keys()[0])
    driven.merge(new)
    before = len(driven.log)
    driven.advance(1_000)
    written = {entry.range_id for entry in _entries(driven)[before:] if isinstance(entry, Heartbeat)}
    assert written == {range_.id for range_ in driven.ranges} == {1, new}


def test_leases_move_between_clocks_without_a_closed_timestamp_that_falls() -> None:
    options = replace(_OPTIONS, move_lease_every_ms=50, nodes=3, max_offset_ms=150)
    driven = _driven(options)
    assert driven.simulation.store.counts["lease moves"] == pytest.approx(100, rel=0.3)
    driven.finish()
    assert check_log(driven.log, 3) == []


def test_index_builds_tell_their_keys_and_moments_and_no_row() -> None:
    driven = _driven(replace(_OPTIONS, build_index_every_ms=200))
    driven.finish()
    built = [entry for entry in _entries(driven) if isinstance(entry, Command) and entry.mutated]
    assert {entry.trigger for entry in built} == {Trigger.ADD_SSTABLE}
    (table,) = driven.tables
    (keys,) = {span for entry in built for span in entry.mutated}
    assert keys == secondary_index(table.id)
    assert not any(entry.ops for entry in built)
    for entry in built:
        assert entry.at_write_timestamp
        assert entry.write_timestamp is not None
        assert entry.closed is not None
        assert entry.write_timestamp > entry.closed
    assert any(range_.span.start == keys.start for range_ in driven.ranges)
    assert check_log(driven.log, 3) == []
    assert check_history(driven.log, driven.history) == []


def test_a_store_that_was_told_to_stop_comes_to_rest() -> None:
    moving = replace(_OPTIONS, split_every_ms=100, merge_every_ms=200, move_lease_every_ms=50, nodes=3)
    driven = _driven(moving)
    driven.stop()
    counts, ranges = dict(driven.simulation.store.counts), driven.ranges
    driven.advance(5_000)
    assert driven.ranges == ranges
    assert driven.simulation.store.counts["lease moves"] == counts["lease moves"] > 0


def test_garbage_is_collected_and_snapshots_tell_the_threshold() -> None:
    driven = _driven(replace(_OPTIONS, gc_ttl_ms=500, snapshot_interval_ms=1_000))
    thresholds = [entry.gc_threshold for entry in _snapshots(driven, SnapshotReason.PERIODIC)]
    assert thresholds[-1] > thresholds[0]
    assert driven.now_ns - thresholds[-1].wall < 2_000 * NANOS_PER_MS
    kept = sum(range_.rows.bytes for range_ in driven.ranges)
    assert kept < sum(range_.rows.bytes for range_ in _quiet().ranges) / 2


def test_what_is_collected_was_replaced() -> None:
    driven = _driven(replace(_OPTIONS, gc_ttl_ms=100))
    driven.finish()
    driven.advance(1_000)
    alive = {
        key: range_.read(key)
        for range_ in driven.ranges
        for key in range_.rows.in_order()
        if range_.read(key)
    }
    newest = driven.history.as_of(driven.ranges[0].closed)
    assert alive == {key: version.value for key, version in newest.items()}


def test_skipped_entries_end_in_a_raft_snapshot_behind_them() -> None:
    driven = _driven(replace(_OPTIONS, skip_every_ms=200))
    driven.finish()
    assert len(list(driven.skipped)) > 10
    assert len(_snapshots(driven, SnapshotReason.RAFT_SNAPSHOT)) > 10
    assert check_log(driven.log, 3) == []
    assert check_history(driven.log, driven.history, driven.skipped) == []


def test_commands_without_ops_are_followed_by_a_periodic_snapshot() -> None:
    driven = _driven(replace(_OPTIONS, opless_every_ms=200))
    driven.finish()
    opless = {
        (entry.range_id, entry.raft_index)
        for entry in _entries(driven)
        if isinstance(entry, Command) and entry.ops is None and entry.write_batch
    }
    assert len(opless) > 10
    healed = {entry.range_id: entry.raft_index for entry in _snapshots(driven, SnapshotReason.PERIODIC)}
    assert all(healed[range_id] >= index for range_id, index in opless)
    assert check_history(driven.log, driven.history, driven.skipped) == []


def test_a_hole_can_hide_a_split_whose_child_is_in_the_log() -> None:
    driven = _driven(_OPTIONS, seconds=1)
    left = driven.ranges[0]
    left.log.silent = True
    child = driven.split(left.id, left.split_keys()[0])
    driven.simulation.store.end_silence(left)
    driven.finish()
    assert _triggers(driven, Trigger.SPLIT) == 0
    [raft] = _snapshots(driven, SnapshotReason.RAFT_SNAPSHOT)
    [first] = [entry for entry in _snapshots(driven, SnapshotReason.SPLIT) if entry.range_id == child]
    assert raft.generation == first.generation == 2
    assert first.parents[0].last_index <= raft.raft_index
    assert raft.parents == ()
    assert check_log(driven.log, 3) == []


def test_a_silent_range_that_is_merged_away_says_first_how_far_it_came() -> None:
    driven = _driven(_OPTIONS, seconds=1)
    right = driven.ranges[1]
    right.log.silent = True
    driven.advance(200)
    driven.merge(driven.ranges[0].id)
    driven.finish()
    last = [entry for entry in _entries(driven) if getattr(entry, "range_id", 0) == right.id][-2:]
    assert isinstance(last[0], Snapshot)
    assert last[0].reason is SnapshotReason.RAFT_SNAPSHOT
    assert isinstance(last[1], RangeEnd)
    assert check_log(driven.log, 3) == []
