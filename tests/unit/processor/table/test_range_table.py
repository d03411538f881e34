"""The ranges of a partition: a freeze stores each range that has changed, with all rows that belong to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from tests.logs import Record
from tests.unit.ranges.spill_memory import MemorySpill
from tidegate.hlc import ZERO, ClosedTimestamp, ResolvedTimestamp, Timestamp
from tidegate.processor.batch import StateChange, StateTable
from tidegate.processor.bounds import BOUNDS, RecordBounds
from tidegate.processor.feeds.journal import Journal
from tidegate.processor.state.state_codec import range_row
from tidegate.processor.table.partition_backlogs import Backlogs
from tidegate.processor.table.range_table import RangeTable
from tidegate.raftlog.encode import encode_key
from tidegate.raftlog.entry import Generation, Offset, RaftIndex, RangeId, Snapshot, TxnId
from tidegate.ranges.gap import Gap
from tidegate.ranges.handoff import Promise
from tidegate.ranges.intent_budget import TXN_BYTES, IntentBudget
from tidegate.ranges.range_state import PROMISE_KEPT_NS, RangeState, RangeStatus
from tidegate.ranges.resolver import Resolver
from tidegate.spans import Span

_ID, _OTHER = RangeId(7), RangeId(8)
_SPAN: Final = Span(b"b", b"f")
_AT: Final = Timestamp(70)
_OFFSET: Final = Offset(44)


def _table(journal: Journal | None = None) -> RangeTable:
    return RangeTable(0, 1, None, journal)


def _open(table: RangeTable, range_id: RangeId = _ID) -> RangeState:
    """A range at rest that has changed."""
    state = table.touch(range_id)
    state.status, state.span = RangeStatus.LIVE, _SPAN
    state.generation, state.applied = Generation(3), RaftIndex(12)
    closed, resolved = ClosedTimestamp(Timestamp(9, 2)), ResolvedTimestamp(Timestamp(8))
    state.resolver = Resolver.restored(closed, resolved)
    return state


def _begin_txn(state: RangeState, number: int, anchor: bytes = b"anchor") -> None:
    txn_id = TxnId(bytes(15) + bytes((number,)))
    state.resolver.queue.increment(txn_id, anchor, ZERO, _AT)


def _chunk() -> Snapshot:
    return Snapshot(
        _ID, Generation(4), RaftIndex(13), _SPAN, ClosedTimestamp(_AT), _AT, ZERO, chunk=0, chunks=2
    )


def _unexpected(state: RangeState, cause: str) -> None:
    raise AssertionError((state.range_id, cause))


def _freeze(
    table: RangeTable, backlogs: Backlogs | None = None, offset: Offset = _OFFSET, read: Offset = _OFFSET
) -> list[StateChange]:
    return table.freeze(offset, read, backlogs or Backlogs(None), BOUNDS, _unexpected)


def _keys(changes: list[StateChange]) -> list[bytes]:
    return [key for _, key, _ in changes]


# ---- which ranges have changed ----


def test_a_partition_has_the_ranges_that_its_number_says() -> None:
    tables = [RangeTable(partition, 3, None, None) for partition in range(3)]
    for range_id in map(RangeId, range(1, 10)):
        assert [table.is_here(range_id) for table in tables].count(True) == 1


def test_a_range_is_new_once_and_the_same_from_then_on() -> None:
    table = _table()
    table.serves = lambda _: ("feed",)
    state = table.touch(_ID)
    assert (state.range_id, state.status) == (_ID, RangeStatus.UNINITIALISED)
    assert table.touch(_ID) is state
    assert [*table] == [state]
    assert state.serves is table.serves
    assert table.exposed.take_out() == [state]


def test_each_range_that_was_touched_is_stored_once() -> None:
    table = _table()
    first, second = _open(table), _open(table, _OTHER)
    table.touch(_ID)
    assert _freeze(table) == [range_row(first, _OFFSET), range_row(second, _OFFSET)]
    assert not _freeze(table)
    table.touch(_OTHER)
    assert _freeze(table) == [range_row(second, _OFFSET)]


def test_a_range_that_only_closes_more_is_stored_with_what_it_closed() -> None:
    table = _table()
    state = _open(table)
    _freeze(table)
    table.serves = lambda _: ("feed",)
    for wall in (20, 30):
        table.close(state)
        state.resolver.closed = ClosedTimestamp(Timestamp(wall))
        table.close(state)
        state.resolver.resolved = ResolvedTimestamp(Timestamp(wall))
        assert _freeze(table, offset=Offset(wall)) == [range_row(state, Offset(wall))]
        assert not _freeze(table)
    assert state.serves is table.serves


def test_a_range_that_closes_and_changes_is_stored_with_all_of_its_changes() -> None:
    table = _table()
    state = _open(table)
    _freeze(table)
    table.close(state)
    table.touch(_ID)
    state.applied = RaftIndex(13)
    table.close(state)
    assert _freeze(table) == [range_row(state, _OFFSET)]


def test_a_range_that_was_not_at_rest_is_stored_whole_when_it_closes_more() -> None:
    table = _table()
    state = _open(table)
    state.gaps = {"feed": (Gap(_SPAN, None),)}
    _freeze(table)
    table.close(state)
    state.resolver.closed = ClosedTimestamp(Timestamp(20))
    assert _freeze(table) == [range_row(state, _OFFSET)]


def test_a_range_rests_from_its_first_row_at_rest_until_it_changes() -> None:
    table = _table()
    state = _open(table)
    assert not table.rests(state)
    _freeze(table)
    assert table.rests(state)
    table.close(state)
    assert table.rests(state)
    table.touch(_ID)
    assert not table.rests(state)
    state.awaits_snapshot = True
    _freeze(table)
    assert not table.rests(state)


def test_the_journal_has_a_range_as_it_was_before_its_first_change_in_a_step() -> None:
    journal = Journal()
    table = _table(journal)
    state = _open(table)
    assert journal.earlier([state])[_ID].span is None
    changes: list[Callable[[RangeState], object]] = [table.close, lambda state: table.touch(state.range_id)]
    for serial, change in enumerate(changes, 1):
        _freeze(table)
        journal.end_step(serial)
        journal.committed(serial)
        before = state.resolved
        for _ in range(2):
            change(state)
            state.resolver.resolved = ResolvedTimestamp(Timestamp(state.resolved.wall + 1))
        assert journal.earlier([state])[_ID].resolved == before


def test_a_restored_range_is_known_and_exposed_and_has_nothing_to_store() -> None:
    table = _table()
    state = RangeState(_ID)
    table.restore(state)
    assert [*table] == [state]
    assert table.exposed.take_out() == [state]
    assert not _freeze(table)


# ---- rows that belong to a range ----


def test_what_a_range_tells_and_its_chunks_and_transactions_are_stored_with_it() -> None:
    table = _table()
    state = _open(table)
    _begin_txn(state, 1)
    own = encode_key(_ID)
    assert _keys(_freeze(table)) == [own, own + bytes(15) + b"\x01"]
    table.touch(_ID)
    state.promises = [Promise(RaftIndex(5), ResolvedTimestamp(Timestamp(4)), _SPAN, None, 5)]
    assert _keys(_freeze(table)) == [own + b"/t", own]
    table.touch(_ID)
    state.chunks = [_chunk()]
    assert _keys(_freeze(table)) == [own, own + bytes(4)]
    table.touch(_ID)
    state.promises, state.chunks = [], []
    state.resolver.queue.remove(TxnId(bytes(15) + b"\x01"))
    changes = _freeze(table)
    assert _keys(changes) == [own + b"/t", own, own + bytes(4), own + bytes(15) + b"\x01"]
    assert [value is None for _, _, value in changes] == [True, False, True, True]


def test_a_range_keeps_old_promises_for_a_day() -> None:
    table = _table()
    state = _open(table)
    old, young = (Promise(RaftIndex(at), state.resolved, _SPAN, None, at) for at in (5, 6))
    state.promises = [old, young]
    state.resolver.closed = ClosedTimestamp(Timestamp(PROMISE_KEPT_NS + 6))
    _freeze(table)
    assert state.promises == [young]


def test_the_hash_of_transactions_is_the_sum_over_all_ranges() -> None:
    table = _table()
    states = [_open(table), _open(table, _OTHER)]
    assert table.intents_hash == 0
    for number, state in ((1, states[0]), (2, states[1]), (3, states[0])):
        table.touch(state.range_id)
        _begin_txn(state, number)
        _freeze(table)
        assert table.intents_hash == sum(each.resolver.queue.rows_hash for each in states) != 0
    restored = _table()
    for state in states:
        restored.restore(state)
    assert restored.intents_hash == table.intents_hash
    for number, state in ((1, states[0]), (3, states[0]), (2, states[1])):
        table.touch(state.range_id)
        state.resolver.queue.remove(TxnId(bytes(15) + bytes((number,))))
        _freeze(table)
        assert table.intents_hash == sum(each.resolver.queue.rows_hash for each in states)
    assert table.intents_hash == 0


@pytest.mark.parametrize("stored", [0, 1])
def test_a_range_with_a_key_too_long_is_refused_and_its_row_says_so(stored: int) -> None:
    table = _table()
    state = _open(table)
    bounds = RecordBounds(160)  # keys have ten bytes at most
    for number in range(stored):
        _begin_txn(state, number, b"short")
    table.freeze(_OFFSET, _OFFSET, Backlogs(None), bounds, _unexpected)
    table.touch(_ID)
    _begin_txn(state, 9, b"longer than ten")
    causes: list[str] = []

    def refuse(refused: RangeState, cause: str) -> None:
        causes.append(cause)
        refused.quarantine_at(_OFFSET, cause, refused.resolved)

    changes = table.freeze(_OFFSET, _OFFSET, Backlogs(None), bounds, refuse)
    assert len(causes) == 1
    assert "has 15 bytes, and 10 can be stored" in causes[0]
    gone = [StateChange(StateTable.INTENTS, encode_key(_ID) + bytes(16), None)] * stored
    assert changes == [range_row(state, _OFFSET), *gone]
    assert table.intents_hash == 0
    assert not table.rests(state)


def test_transactions_that_are_too_many_leave_memory_after_their_rows_were_made() -> None:
    spill = IntentBudget(4 * TXN_BYTES, MemorySpill()).partition()
    table = RangeTable(0, 1, spill, None)
    state = _open(table)
    for number in range(9):
        _begin_txn(state, number)
    assert len(_freeze(table)) == 1 + 9
    assert state.resolver.queue.in_memory <= 4
    assert (len(state.resolver.queue), spill.counts.transactions) == (9, 9 - state.resolver.queue.in_memory)


# ---- what a range waits for ----


def _held(table: RangeTable, backlogs: Backlogs, *, parked: bool) -> RangeState:
    state = _open(table)
    backlog = backlogs.hold(_ID, Record(30, encode_key(_ID), b"", 0))
    backlog.since_ms, backlog.heard_ms = 1_000, 2_000
    backlog.waits_at = Offset(30) if parked else None
    return state


@pytest.mark.parametrize(("parked", "since_ms"), [(True, 1_000), (False, None)])
def test_a_range_with_a_backlog_notes_where_it_begins_and_since_when_it_waits(
    parked: bool, since_ms: int | None
) -> None:
    table, backlogs = _table(), Backlogs(None)
    state = _held(table, backlogs, parked=parked)
    state.waits_since_ms = 7
    assert _freeze(table, backlogs) == [range_row(state, _OFFSET)]
    assert (state.behind, state.waits_since_ms, state.heard_ms) == (30, since_ms, 2_000)
    assert not table.rests(state)


def test_a_range_that_waits_no_more_forgets_its_wait_and_is_at_rest_with_the_next_row() -> None:
    table, backlogs = _table(), Backlogs(None)
    state = _held(table, backlogs, parked=True)
    _freeze(table, backlogs)
    backlogs.drop(_ID)
    table.touch(_ID)
    assert _freeze(table, backlogs) == [range_row(state, _OFFSET)]
    assert (state.behind, state.waits_since_ms, state.heard_ms) == (None, None, None)
    table.touch(_ID)
    _freeze(table, backlogs)
    assert table.rests(state)


def test_a_range_in_which_feeds_have_gaps_keeps_the_time_when_it_was_heard() -> None:
    table, backlogs = _table(), Backlogs(None)
    state = _held(table, backlogs, parked=True)
    state.gaps = {"feed": (Gap(_SPAN, None),)}
    _freeze(table, backlogs)
    backlogs.drop(_ID)
    table.touch(_ID)
    _freeze(table, backlogs)
    assert (state.behind, state.waits_since_ms, state.heard_ms) == (None, None, 2_000)


@pytest.mark.parametrize(
    ("behind", "read", "then"), [(20, 10, 20), (20, 19, 20), (20, 20, 21), (20, 30, 31), (20, 44, None)]
)
def test_after_a_restart_a_range_is_behind_until_the_partition_has_read_up_to_its_position(
    behind: int, read: int, then: int | None
) -> None:
    """The range has applied what was read meanwhile, so it is behind from the next record on."""
    table = _table()
    state = _open(table)
    state.behind, state.waits_since_ms, state.heard_ms = Offset(behind), 1_000, 2_000
    assert _freeze(table, read=Offset(read)) == [range_row(state, _OFFSET)]
    waits = (1_000, 2_000) if then is not None else (None, None)
    assert (state.behind, state.waits_since_ms, state.heard_ms) == (then, *waits)
