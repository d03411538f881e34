"""Tests what the store writes to its ranges' logs, request by request."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from sim.log.history import HistoryVersion
from sim.plan import Write
from tests.unit.sim.small_store import OPTIONS, TABLE_ID, SmallStore, key, put
from tidegate.hlc import Timestamp
from tidegate.raftlog.entry import (
    AbortIntent,
    Command,
    CommitIntent,
    Heartbeat,
    Snapshot,
    SnapshotReason,
    UpdateIntent,
    WriteIntent,
    WriteValue,
)


def test_a_one_phase_commit_writes_values_and_no_intent() -> None:
    small = SmallStore()
    at = small.commit_one_phase("a", b"1")
    assert small.ops(small.first) == [WriteValue(key("a"), at, b"1", b"")]
    assert list(small.history) == [HistoryVersion(TABLE_ID, key("a"), at, b"1")]


def test_an_intent_becomes_a_version_at_the_commit_timestamp() -> None:
    small = SmallStore()
    txn = small.begin_and_put("a")
    small.store.commit(txn)
    small.store.resolve(txn, small.first.id, [key("a")])
    at = txn.write_timestamp
    assert small.ops(small.first) == [
        WriteIntent(txn.id, key("a"), at, at),
        CommitIntent(txn.id, key("a"), at, b"v", b""),
    ]


def test_a_commit_is_history_before_its_intents_are_resolved() -> None:
    small = SmallStore()
    txn = small.begin_and_put("a", "z")
    assert not list(small.history)
    small.store.commit(txn)
    assert [version.key for version in small.history] == [key("a"), key("z")]


def test_a_write_moves_above_what_was_closed_and_takes_its_transaction_along() -> None:
    small = SmallStore()
    txn = small.begin_and_put("a")
    began = txn.write_timestamp
    small.pass_ms(2_000)
    small.second.heartbeat()
    closed = small.second.closed
    small.put(txn, "z")
    assert began < closed < txn.write_timestamp == closed.next()
    small.store.commit(txn)
    for range_, name in ((small.first, "a"), (small.second, "z")):
        small.store.resolve(txn, range_.id, [key(name)])
        assert small.ops(range_)[-1] == CommitIntent(txn.id, key(name), closed.next(), b"v", b"")


def test_an_op_may_stand_below_the_closed_timestamp_of_its_own_command() -> None:
    small = SmallStore()
    txn = small.store.begin()
    small.pass_ms(5_000)
    small.put(txn, "a")
    [command] = small.entries(small.first)
    assert isinstance(command, Command)
    assert command.closed is not None
    assert txn.write_timestamp < command.closed


def test_a_write_moves_above_the_version_that_it_replaces() -> None:
    small = SmallStore()
    old = small.store.begin()
    newer = small.commit_one_phase("a")
    assert small.put(old, "a")
    assert old.write_timestamp > newer


def test_ops_carry_the_version_that_they_replace_and_an_empty_one_where_there_was_none() -> None:
    small = SmallStore()
    for value in (b"1", b"", b"3"):
        small.commit_one_phase("a", value)
    assert [op.prev_value for op in small.ops(small.first) if isinstance(op, WriteValue)] == [b"", b"1", b""]


def test_previous_versions_can_be_left_out() -> None:
    small = SmallStore(replace(OPTIONS, prev_values=False))
    small.commit_one_phase("a", b"1")
    small.commit_one_phase("a", b"2")
    assert [op.prev_value for op in small.ops(small.first) if isinstance(op, WriteValue)] == [None, None]


def test_writing_again_on_its_own_intent_updates_it_only_where_the_timestamp_rose() -> None:
    small = SmallStore()
    txn = small.begin_and_put("a")
    small.put(txn, "a", b"again")
    assert len(small.ops(small.first)) == 1
    small.store.restart(txn)
    small.put(txn, "a", b"in the next epoch")
    assert small.ops(small.first)[1:] == [UpdateIntent(txn.id, txn.write_timestamp)]


def test_only_what_the_last_epoch_wrote_commits() -> None:
    small = SmallStore()
    txn = small.begin_and_put("a", "b")
    small.store.restart(txn)
    small.put(txn, "b", b"kept")
    small.store.commit(txn)
    small.store.resolve(txn, small.first.id, [key("a"), key("b")])
    assert small.ops(small.first)[-2:] == [
        AbortIntent(txn.id),
        CommitIntent(txn.id, key("b"), txn.write_timestamp, b"kept", b""),
    ]
    assert [version.key for version in small.history] == [key("b")]


def test_a_younger_transaction_waits_for_an_older_one() -> None:
    small = SmallStore()
    older = small.begin_and_put("a")
    younger = small.store.begin()
    assert not small.put(younger, "a")
    small.store.commit(older)
    assert small.put(younger, "a")
    assert younger.write_timestamp > older.write_timestamp


def test_an_older_transaction_aborts_a_younger_one_in_its_way() -> None:
    small = SmallStore()
    older = small.store.begin()
    younger = small.begin_and_put("a")
    assert small.put(older, "a")
    assert not younger.pending
    assert small.ops(small.first)[1] == AbortIntent(younger.id)


def test_an_abandoned_transaction_is_aborted_only_once_it_expired() -> None:
    small = SmallStore()
    abandoned = small.begin_and_put("a")
    small.store.abandon(abandoned)
    late = small.store.begin()
    assert not small.put(late, "a")
    small.pass_ms(5_000)
    assert small.put(late, "a")
    assert not list(small.history)


def test_a_change_sees_the_newest_version_and_its_own_epochs_writes() -> None:
    small = SmallStore()
    small.commit_one_phase("a", b"1")
    txn = small.store.begin()
    seen: list[bytes | None] = []

    def change(standing: bytes | None) -> bytes:
        seen.append(standing)
        return b"2"

    for _ in range(2):
        small.store.put(txn, small.first, [Write(key("a"), change)])
    small.store.restart(txn)
    small.store.put(txn, small.first, [Write(key("a"), change)])
    assert seen == [b"1", b"2", b"1"]


def test_a_deleted_row_reads_as_none() -> None:
    small = SmallStore()
    small.commit_one_phase("a", b"")
    assert small.first.read(key("a")) is None


def test_a_rejected_command_uses_up_an_index() -> None:
    small = SmallStore(replace(OPTIONS, rejected_fraction=0.9))
    for _ in range(20):
        small.commit_one_phase("a")
    commands = [entry for entry in small.entries(small.first) if isinstance(entry, Command)]
    indexes = [command.raft_index for command in commands]
    assert indexes == list(range(indexes[0], indexes[0] + len(indexes)))
    empty = [command for command in commands if not command.ops]
    assert len(commands) - len(empty) == 20
    assert empty
    assert all(command.closed is None for command in empty)


def test_a_heartbeat_covers_the_applied_index_and_closes_what_the_lag_allows() -> None:
    small = SmallStore()
    small.commit_one_phase("a")
    small.pass_ms(3_000)
    small.first.heartbeat()
    beat = small.entries(small.first)[-1]
    assert isinstance(beat, Heartbeat)
    assert beat.covers == small.first.applied
    assert beat.closed == Timestamp(small.present.ns - 1_000_000_000)


def test_closed_timestamps_rise_with_every_command_and_heartbeat() -> None:
    small = SmallStore()
    small.commit_one_phase("a")
    small.first.heartbeat()
    small.commit_one_phase("b")
    closed = [entry.closed for entry in small.entries(small.first) if isinstance(entry, Command | Heartbeat)]
    assert all(later > earlier for earlier, later in pairwise(closed) if earlier and later)
    assert len(closed) == 3


def test_a_snapshot_lists_open_intents_where_their_transactions_stand_now() -> None:
    small = SmallStore()
    txn = small.begin_and_put("b", "a")
    small.store.restart(txn)
    small.first.snapshot(SnapshotReason.PERIODIC, chunk_intents=1)
    chunks = [entry for entry in small.entries(small.first) if isinstance(entry, Snapshot)]
    assert [(chunk.chunk, chunk.chunks) for chunk in chunks] == [(0, 2), (1, 2)]
    intents = [intent for chunk in chunks for intent in chunk.intents]
    assert [intent.key for intent in intents] == [key("a"), key("b")]
    assert {intent.timestamp for intent in intents} == {txn.write_timestamp}
    assert {intent.anchor_key for intent in intents} == {key("b")}


def test_a_record_of_a_transaction_goes_with_its_last_intent() -> None:
    small = SmallStore()
    txn = small.begin_and_put("a", "z")
    small.store.commit(txn)
    small.store.release(txn)
    small.store.resolve(txn, small.first.id, [key("a")])
    assert txn.id in small.store.txns
    small.store.resolve(txn, small.second.id, [key("z")])
    assert txn.id not in small.store.txns


def test_a_key_outside_every_table_is_refused() -> None:
    small = SmallStore()
    for outside in (b"", b"\xff", key("")[:-1]):
        with pytest.raises(KeyError):
            small.store.ranges.holding(outside)
    assert small.store.ranges.holding(key("m")) is small.second
    assert small.store.ranges.holding(put("lzzz").key) is small.first
