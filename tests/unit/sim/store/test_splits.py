"""Splits, merges and lease moves: what the log says of them, and what stays true through them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sim.store.range import Range
from tests.unit.sim.small_store import OPTIONS, SmallStore, key
from tidegate.hlc import Timestamp
from tidegate.raftlog.entry import (
    Command,
    CommitIntent,
    Entry,
    Heartbeat,
    Parent,
    RangeEnd,
    RangeId,
    Snapshot,
    SnapshotReason,
    Trigger,
    WriteValue,
)


def _last(small: SmallStore, range_: Range, kind: type[Any]) -> Any:
    return [entry for entry in small.entries(range_) if isinstance(entry, kind)][-1]


def _kinds(entries: list[Entry]) -> list[type[Entry]]:
    return [type(entry) for entry in entries]


def test_a_split_is_a_trigger_and_a_snapshot_of_each_side() -> None:
    small = SmallStore()
    left, span = small.first, small.first.span
    right = small.store.split(left.id, key("f"))
    assert right.id == 3
    trigger, left_snapshot = small.entries(left)[-2:]
    assert isinstance(trigger, Command)
    assert isinstance(left_snapshot, Snapshot)
    assert (trigger.trigger, trigger.generation) == (Trigger.SPLIT, 1)
    assert left_snapshot.raft_index == trigger.raft_index
    [right_snapshot] = small.entries(right)
    assert isinstance(right_snapshot, Snapshot)
    for snapshot, start, end in (
        (left_snapshot, span.start, key("f")),
        (right_snapshot, key("f"), span.end),
    ):
        assert (snapshot.span.start, snapshot.span.end) == (start, end)
        assert snapshot.generation == 2
        assert snapshot.reason is SnapshotReason.SPLIT
        assert snapshot.parents == (Parent(left.id, trigger.generation, trigger.raft_index),)
        assert snapshot.closed == trigger.closed


def test_both_sides_of_a_split_inherit_high_and_gc_threshold() -> None:
    small = SmallStore()
    written = small.commit_one_phase("a")
    small.first.gc_threshold = Timestamp(5)
    right = small.store.split(small.first.id, key("f"))
    for side in (small.first, right):
        snapshot = _last(small, side, Snapshot)
        assert (snapshot.high, snapshot.gc_threshold) == (written, Timestamp(5))


def test_open_intents_are_divided_by_key_and_end_where_they_are() -> None:
    small = SmallStore()
    txn = small.begin_and_put("a", "g", "z")
    right = small.store.split(small.first.id, key("f"))
    assert [intent.key for intent in _last(small, small.first, Snapshot).intents] == [key("a")]
    assert [intent.key for intent in _last(small, right, Snapshot).intents] == [key("g")]
    small.store.commit(txn)
    small.store.resolve_anywhere(txn, [key("a"), key("g"), key("z")])
    for range_, name in ((small.first, "a"), (right, "g"), (small.second, "z")):
        at = txn.write_timestamp
        assert small.ops(range_)[-1] == CommitIntent(txn.id, key(name), at, b"v", b"")
    assert not txn.intents


@pytest.mark.parametrize("name", ["a", "g"])
def test_rows_from_before_a_split_or_merge_are_previous_values(name: str) -> None:
    small = SmallStore()
    small.commit_one_phase(name, b"old")
    small.store.split(small.first.id, key("f"))
    small.commit_one_phase(name, b"new")
    small.store.merge(small.first.id)
    small.commit_one_phase(name, b"newest")
    written = [
        (op.value, op.prev_value)
        for range_id in (small.first.id, RangeId(3))
        for entry in small.entries_of(range_id)
        if isinstance(entry, Command)
        for op in entry.ops or ()
        if isinstance(op, WriteValue)
    ]
    assert sorted(written) == [(b"new", b"old"), (b"newest", b"new"), (b"old", b"")]


def test_a_split_outside_the_range_is_refused() -> None:
    small = SmallStore()
    for bad in (small.first.span.start, small.first.span.end, key("z")):
        with pytest.raises(ValueError, match="cannot be split"):
            small.store.split(small.first.id, bad)
    with pytest.raises(KeyError):
        small.store.split(RangeId(99), key("f"))


def test_a_merge_ends_the_right_side_and_snapshots_the_left() -> None:
    small = SmallStore()
    small.store.split(small.first.id, key("f"))
    small.store.split(small.first.id, key("c"))
    left, right = small.first, small.second
    middle = small.store.ranges[RangeId(3)]
    assert small.store.merge(middle.id) is middle
    end = small.entries(right)[-1]
    assert end == RangeEnd(right.id, right.descriptor.generation, right.applied)
    trigger, snapshot = small.entries(middle)[-2:]
    assert isinstance(trigger, Command)
    assert isinstance(snapshot, Snapshot)
    assert trigger.trigger is Trigger.MERGE
    assert snapshot.reason is SnapshotReason.MERGE
    assert snapshot.generation == 3
    assert snapshot.parents == (
        Parent(middle.id, trigger.generation, trigger.raft_index),
        Parent(right.id, right.descriptor.generation, right.applied),
    )
    assert (snapshot.span.start, snapshot.span.end) == (key("f"), right.span.end)
    assert left.span.end == key("c")
    assert right.id not in [range_.id for range_ in small.store.ranges]


def test_the_generation_after_a_merge_is_above_both() -> None:
    small = SmallStore()
    for name in ("x", "w", "v"):
        small.store.split(small.second.id, key(name))
    assert small.second.descriptor.generation == 4
    small.store.merge(small.first.id)
    assert small.first.descriptor.generation == 5


def test_the_last_range_of_a_table_cannot_be_merged() -> None:
    small = SmallStore()
    with pytest.raises(ValueError, match="cannot be merged"):
        small.store.merge(small.second.id)


def test_range_ids_are_never_used_twice() -> None:
    small = SmallStore()
    ids = []
    for _ in range(3):
        ids.append(small.store.split(small.first.id, key("f")).id)
        small.store.merge(small.first.id)
    assert ids == [3, 4, 5]


def test_nothing_is_written_at_or_below_what_the_right_side_had_closed() -> None:
    small = SmallStore()
    small.second.clock.observe(Timestamp(small.present.ns + 10**12))
    small.second.heartbeat()
    closed = small.second.closed
    small.store.merge(small.first.id)
    assert _last(small, small.first, Snapshot).closed >= closed
    assert small.commit_one_phase("a") > closed
    small.first.heartbeat()
    assert _last(small, small.first, Heartbeat).closed >= closed


def test_merged_intents_stay_open_and_end_in_the_left_range() -> None:
    small = SmallStore()
    txn = small.begin_and_put("a", "z")
    small.store.merge(small.first.id)
    assert [intent.key for intent in _last(small, small.first, Snapshot).intents] == [key("a"), key("z")]
    small.store.commit(txn)
    small.store.resolve(txn, small.first.id, [key("z")])
    assert small.ops(small.first)[-1] == CommitIntent(txn.id, key("z"), txn.write_timestamp, b"v", b"")


def test_a_moved_lease_never_lowers_what_is_closed_or_the_record_time() -> None:
    small = SmallStore(replace(OPTIONS, nodes=2, max_offset_ms=10_000))
    for turn in range(10):
        closed, record_time = small.first.closed, small.sink.records[-1].record_time_ms if turn else 0
        small.store.move_lease(small.first.id, turn)
        small.first.heartbeat()
        assert small.first.closed >= closed
        assert small.sink.records[-1].record_time_ms >= record_time


def test_a_moved_lease_takes_a_raft_index() -> None:
    small = SmallStore()
    applied = small.first.applied
    small.store.move_lease(small.first.id, 0)
    assert small.first.applied == applied + 1
    assert _kinds(small.entries(small.first)) == [Command]
