"""The state of a partition: which records count, what is read no more, and what a restart begins with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pytest

from tests.feeds import activation
from tests.hand_log import at
from tests.logs import Record
from tests.unit.processor.driving import active, fold
from tests.unit.processor.logs import OTHER, PLAIN
from tidegate.errors import StateMismatch
from tidegate.hlc import ZERO, ClosedTimestamp, ResolvedTimestamp, Timestamp
from tidegate.processor.batch import StateTable
from tidegate.processor.bounds import RecordBounds
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.log_clock import LogClock
from tidegate.processor.processor_state import ProcessorState
from tidegate.processor.state.position_hash import POSITION_KEY
from tidegate.processor.state.row_pieces import is_later_piece
from tidegate.processor.state.state_codec import position_row, range_row, read_position
from tidegate.raftlog.encode import encode_key
from tidegate.raftlog.entry import Generation, Offset, RaftIndex, RangeId, Snapshot, TxnId
from tidegate.ranges.gap import Gap
from tidegate.ranges.mutated_keys import MutatedKeys
from tidegate.ranges.range_state import Quarantine, RangeState, RangeStatus
from tidegate.ranges.resolver import Resolver
from tidegate.spans import Span

_ID, _OTHER, _THIRD = RangeId(7), RangeId(8), RangeId(9)
_SPAN: Final = Span(b"b", b"f")


def _state(config: ProcessorConfig | None = None) -> ProcessorState:
    return ProcessorState(0, 1, config or ProcessorConfig())


def _open(of: ProcessorState, range_id: RangeId = _ID, gc: int = 40, resolved: int = 50) -> RangeState:
    state = of.ranges.table.touch(range_id)
    state.status, state.span = RangeStatus.LIVE, _SPAN
    state.gc_threshold = Timestamp(gc)
    state.resolver = Resolver.restored(ClosedTimestamp(Timestamp(60)), ResolvedTimestamp(Timestamp(resolved)))
    return state


def _chunk() -> Snapshot:
    return Snapshot(
        _ID, Generation(4), RaftIndex(13), _SPAN, ClosedTimestamp(ZERO), ZERO, ZERO, chunk=0, chunks=2
    )


def _record(offset: int, range_id: RangeId = _ID) -> Record:
    return Record(offset, encode_key(range_id), b"", 0)


def _stored(state: ProcessorState) -> list[tuple[StateTable, bytes, bytes]]:
    return [(table, key, value) for (table, key), value in fold({}, state.freeze()).items()]


def _restored(state: ProcessorState, config: ProcessorConfig | None = None) -> ProcessorState:
    again = _state(config)
    again.restore(_stored(state), config or ProcessorConfig())
    return again


# ---- which records count ----


@pytest.mark.parametrize(
    ("offset", "counts"),
    [(9, False), (10, False), (11, False), (12, True), (15, True), (20, True), (21, True), (30, True)],
)
def test_a_record_counts_if_it_is_new_to_the_partition_or_to_its_range(offset: int, counts: bool) -> None:
    state = _state()
    state.position.offset, state.read = Offset(20), Offset(10)
    _open(state).behind = Offset(12)
    _open(state, _OTHER)
    assert state.counts(_record(offset)) is counts
    assert state.counts(_record(offset, _OTHER)) is (offset > 20)
    state.read = Offset(15)
    assert state.counts(_record(offset)) is (offset > 15)


def test_what_was_read_again_moves_the_position_only_beyond_it() -> None:
    state = _state()
    state.position.offset, state.read = Offset(20), Offset(10)
    behind = _open(state)
    for offset, position, read in ((15, 20, 15), (12, 20, 15), (20, 20, 20), (26, 26, 26), (24, 26, 26)):
        behind.behind = Offset(12)
        state.advance(Offset(offset))
        assert (state.position.offset, state.read) == (position, read)
        # When all was read again, no range without a backlog is behind. This is looked at once.
        assert behind.behind == (None if offset == 20 else 12)


def test_a_partition_that_reads_beyond_its_position_at_once_has_read_all_again() -> None:
    state = _state()
    state.position.offset, state.read = Offset(20), Offset(10)
    behind = _open(state)
    behind.behind = Offset(12)
    state.advance(Offset(30))
    assert [each.behind for each in state.ranges] == [None]


def test_the_highest_version_that_was_applied_never_falls() -> None:
    state = _state()
    for timestamp in (Timestamp(5), Timestamp(4), Timestamp(5, 1), Timestamp(5)):
        state.raise_high(timestamp)
    assert state.position.high == Timestamp(5, 1)


# ---- what is read no more ----


def _waits(state: RangeState) -> None:
    state.behind = Offset(3)


def _begins(state: RangeState) -> None:
    state.chunks = [_chunk()]


def _is_triggered(state: RangeState) -> None:
    state.awaits_snapshot = True


def _ends(state: RangeState) -> None:
    state.status = RangeStatus.ENDED


def _is_only_named(state: RangeState) -> None:
    state.status, state.span = RangeStatus.UNINITIALISED, None


def _is_quarantined(state: RangeState) -> None:
    state.status = RangeStatus.QUARANTINED
    state.quarantine = Quarantine("broken", Offset(1), ResolvedTimestamp(Timestamp(30)))


def test_the_lowest_row_of_a_partition_is_that_of_the_lowest_range() -> None:
    state = _state()
    lowest = state.rows.room.lowest_read
    assert lowest() == ZERO
    _open(state, _ID, gc=45, resolved=50)
    assert lowest() == Timestamp(45)
    _open(state, _OTHER, gc=45, resolved=44)
    assert lowest() == Timestamp(44)
    _open(state, _THIRD, gc=43, resolved=90)
    assert lowest() == Timestamp(43)


@pytest.mark.parametrize(
    ("changes", "then"),
    [
        ([_waits], 0),
        ([_begins], 0),
        ([_is_triggered], 0),
        ([_waits, _begins, _is_triggered], 0),
        ([_ends], 70),
        ([_ends, _waits], 70),
        ([_is_only_named], 70),
        ([_is_only_named, _waits], 0),
        ([_is_only_named, _begins], 0),
        ([_is_quarantined], 30),
    ],
)
def test_a_range_that_waits_may_have_any_row_and_one_that_is_gone_has_none(
    changes: list[Callable[[RangeState], None]], then: int
) -> None:
    state = _state()
    _open(state, _OTHER, gc=70, resolved=80)
    changed = _open(state)
    for change in changes:
        change(changed)
    assert state.rows.room.lowest_read() == Timestamp(then)


@pytest.mark.parametrize("named", [False, True])
def test_a_range_with_a_backlog_may_have_any_row(named: bool) -> None:
    state = _state()
    _open(state, _OTHER, gc=70, resolved=80)
    held = _open(state)
    if named:
        _is_only_named(held)
    state.ranges._backlogs.hold(_ID, _record(3))
    assert state.rows.room.lowest_read() == ZERO


def test_the_tables_of_feeds_are_wanted_and_no_others() -> None:
    state = active(activation([PLAIN.descriptor])).processor._state
    assert [state.rows.is_wanted(table_id) for table_id in (PLAIN.descriptor.id, OTHER.descriptor.id)] == [
        True,
        False,
    ]


def test_rows_are_read_down_to_the_start_of_a_feed_that_has_gaps() -> None:
    feed = activation([PLAIN.descriptor], start=at(5))
    state = active(feed).processor._state
    held = _open(state, gc=at(7).wall, resolved=at(8).wall)
    assert state.rows.room.lowest_read() == at(7)
    state.ranges.gaps.set(held, feed.feed_id, (Gap(_SPAN, None),))
    assert state.rows.room.lowest_read() == at(5)
    held.gc_threshold = at(4)
    assert state.rows.room.lowest_read() == at(4)


# ---- rows of state ----


def test_a_freeze_ends_with_the_position_which_counts_and_sums_all_rows() -> None:
    state = _state()
    for range_id in (_ID, _OTHER):
        _open(state, range_id).resolver.queue.increment(TxnId(bytes(16)), b"k", ZERO, Timestamp(70))
    state.position.offset, state.read = Offset(20), Offset(20)
    changes = state.freeze()
    assert [key == POSITION_KEY for _, key, _ in changes] == [False] * 4 + [True]
    value = changes[-1].value
    assert value is not None
    position = read_position(value)
    assert (position.sizes, position.offset) == ((2, 0, 0), 20)
    assert position.digests is not None
    assert 0 not in position.digests[:2]
    assert position.clock == LogClock().state()
    assert [key for _, key, _ in state.freeze()] == [POSITION_KEY]
    assert read_position(_stored(state)[-1][2]) == position


def test_rows_beyond_the_bound_are_stored_in_pieces_and_put_together_again() -> None:
    config = ProcessorConfig(bounds=RecordBounds(400))
    state = _state(config)
    wide = _open(state)
    wide.mutated = tuple(MutatedKeys(Span(bytes([at]), bytes(99)), ZERO, ZERO) for at in range(5))
    state.position.offset = state.read = Offset(20)
    rows = _stored(state)
    pieces = [(key, value) for _, key, value in rows if is_later_piece(key, value)]
    assert len(pieces) > 1
    again = _state(config)
    again.restore(iter(rows), config)
    assert [range_row(each, Offset(20)) for each in again.ranges] == [range_row(wide, Offset(20))]
    *others, (table, place, value) = rows
    assert place == POSITION_KEY
    old = position_row(replace(read_position(value), digests=None)).value
    assert old is not None
    torn = [row for row in others if row[1] != pieces[0][0]]
    with pytest.raises(StateMismatch, match="not all of it is there"):
        _state(config).restore([*torn, (table, place, old)], config)
    again.ranges.table.touch(_ID).mutated = ()
    changes = again.freeze()
    assert [key for _, key, value in changes if value is None] == [key for key, _ in pieces]


@pytest.mark.parametrize(("behind", "read"), [(None, 20), (12, 11), (20, 19)])
def test_a_restart_reads_again_from_the_first_range_that_is_behind(behind: int | None, read: int) -> None:
    state = _state()
    state.position.offset, state.read = Offset(20), Offset(5)
    if behind is not None:
        _open(state).behind = Offset(behind)
        _open(state, _OTHER).behind = Offset(20)
    again = _restored(state)
    assert (again.position.offset, again.read) == (20, read)


def test_the_log_clock_goes_on_after_a_restart() -> None:
    state = _state()
    _open(state)
    clock = state.ranges.table.clock
    for time_ms in (1_000, 2_000, 90_000):
        clock.hear(_ID, time_ms, time_ms)
        clock.hear(_OTHER, time_ms, time_ms)
    again = _restored(state).ranges.table.clock
    assert (again.state(), again.time_ms) == (clock.state(), clock.time_ms)
    assert again.time_ms > 1_000


def test_the_log_clock_of_an_earlier_version_is_guessed_by_what_ranges_have_closed() -> None:
    state = _state()
    _open(state).resolver.closed = ClosedTimestamp(at(60))
    _open(state, _OTHER).resolver.closed = ClosedTimestamp(at(50))
    *rows, (table, key, value) = _stored(state)
    time_ms = at(9_000).wall_ms
    old = position_row(replace(read_position(value), clock=None, log_time_ms=time_ms)).value
    assert old is not None
    again = _state()
    again.restore([*rows, (table, key, old)], ProcessorConfig())
    expected = LogClock()
    expected.guess(time_ms, [at(60).wall_ms])
    assert again.ranges.table.clock.state() == expected.state()
