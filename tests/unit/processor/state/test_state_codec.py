"""Rows of state say the same when they are read again, and what a newer version wrote is told apart from what
is damaged."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tidegate.errors import KeyTooLong, StateError, StateMismatch
from tidegate.hlc import MAX, ZERO, ClosedTimestamp, ResolvedTimestamp, Timestamp
from tidegate.processor.batch import StateChange, StateTable
from tidegate.processor.log_clock import ClockState, Voice
from tidegate.processor.state import state_pb2 as pb
from tidegate.processor.state.digest import TableDigests, row_hash
from tidegate.processor.state.state_codec import (
    NOWHERE,
    Position,
    TableSizes,
    chunk_rows,
    intent_rows,
    is_chunk_key,
    is_range_key,
    is_told_key,
    position_row,
    range_row,
    read_chunk,
    read_intent,
    read_position,
    read_range,
    told_rows,
)
from tidegate.processor.state.stored_frame import STATE_VERSION, WRITTEN_VERSION, pack
from tidegate.raftlog.encode import encode_entry, encode_key
from tidegate.raftlog.entry import (
    Generation,
    Heartbeat,
    Offset,
    OpenIntent,
    RaftIndex,
    RangeId,
    Snapshot,
    SnapshotReason,
    TxnId,
)
from tidegate.ranges.accounted import AS_APPLIED, Accounted
from tidegate.ranges.floors import FLOORS_MAX, Floor, floor_at
from tidegate.ranges.gap import Gap, ToldGaps
from tidegate.ranges.handoff import Claim, HandOff, Hole, Promise
from tidegate.ranges.mutated_keys import MutatedKeys
from tidegate.ranges.range_state import Quarantine, RangeState, RangeStatus
from tidegate.ranges.resolver import Resolver
from tidegate.ranges.scan import RangeScan, ScanPart
from tidegate.spans import Span

_ID: Final = RangeId(7)
_KEY: Final = encode_key(_ID) + (1).to_bytes(4, "big")
_OFFSET: Final = Offset(44)
_SPAN: Final = Span(b"b", b"x")
_AT: Final = Timestamp(70, 3)
_RESOLVED: Final = ResolvedTimestamp(Timestamp(60))
_ENDLESS: Final = 1 << 40


def _range() -> RangeState:
    state = RangeState(_ID)
    state.status, state.span = RangeStatus.LIVE, _SPAN
    state.resolver = Resolver.restored(ClosedTimestamp(Timestamp(65, 2)), _RESOLVED)
    return state


def _scan(parts: list[ScanPart]) -> RangeScan:
    scan = RangeScan(_ID, Offset(40), _SPAN, parts, _AT, with_prev=True)
    scan.request_id, scan.first_request_id, scan.asked_ms, scan.ask_now = 91, 81, 1_234, True
    return scan


_CLAIM: Final = Claim(RangeId(9), RangeId(8), RaftIndex(5), _SPAN, 77)
_OTHER: Final = Claim(RangeId(10), RangeId(8), RaftIndex(6), Span(b"c", b"d"))
_GAPS: Final = (Gap(Span(b"c", b"d"), None), Gap(Span(b"d", b"e"), _AT))
_FIRST, _LATER = Timestamp(20, 1), Timestamp(30, 2)
#: Values of each part of a range that its row has, among them those that differ from nothing by little.
_PARTS: Final[dict[str, tuple[Any, ...]]] = {
    "generation": (Generation(3),),
    "applied": (RaftIndex(12),),
    "span": (Span(b"", b"x"), None),
    "status": tuple(RangeStatus),
    "quarantine": (Quarantine("broken", Offset(0), _RESOLVED), Quarantine("", Offset(40), _RESOLVED)),
    "gc_threshold": (_AT,),
    "high": (_AT,),
    "awaits_snapshot": (True,),
    "pending_heartbeat": (Heartbeat(_ID, Generation(3), ClosedTimestamp(_AT), RaftIndex(13)),),
    "closed_regressions": (4,),
    "refused_chunks": (5,),
    "floors": ([Floor(Span(b"b", b"c"), _RESOLVED), Floor(Span(b"d", b"e"), _RESOLVED)],),
    "behind": (Offset(0), Offset(40)),
    "waits_since_ms": (0, 1_000),
    "heard_ms": (0, 1_000),
    "claimed_since_ms": (0, 1_000),
    "scan": (
        _scan([]),
        _scan([ScanPart(_SPAN, _FIRST)]),
        _scan([ScanPart(Span(b"c", b"x"), _FIRST)]),
        _scan([ScanPart(Span(b"b", b"d"), _FIRST), ScanPart(Span(b"m", b"x"), _LATER)]),
        _scan([ScanPart(Span(b"m", b"x"), _FIRST), ScanPart(Span(b"b", b"d"), _LATER)]),
        _scan([ScanPart(Span(b"d", b"e"), ZERO), *(ScanPart(Span(at, b"z"), _LATER) for at in (b"m", b"q"))]),
    ),
    "hand_offs": (
        {_CLAIM: HandOff(_CLAIM, _RESOLVED, complete=True)},
        {
            _OTHER: HandOff(_OTHER, _RESOLVED, complete=False, span=_SPAN, told_gaps=()),
            _CLAIM: HandOff(_CLAIM, _RESOLVED, True, Span(b"", b"x"), (ToldGaps("feed", _GAPS),)),
        },
    ),
    "claims": ({_CLAIM}, {_CLAIM, _OTHER}),
    "heirs": ((_OTHER, _CLAIM),),
    "unseen": (RaftIndex(3),),
    "accounted": (
        Accounted(raft_index=RaftIndex(20)),
        Accounted(noted=RaftIndex(20)),
        Accounted(passed=RaftIndex(20)),
        Accounted(span=Span(b"x", b"x")),
        Accounted(time=_AT),
        Accounted(noted_at=Offset(0)),
    ),
    "mutated": (
        (MutatedKeys(_SPAN, _AT, _LATER, _FIRST),),
        (MutatedKeys(_SPAN, _AT, _LATER), MutatedKeys(Span(b"c", b"d"), _LATER, _FIRST)),
    ),
    "gaps": ({"feed": _GAPS, "a": _GAPS[:1]},),
}


def _facts(state: RangeState) -> dict[str, object]:
    """All of a range that its row has."""
    facts = {name: getattr(state, name) for name in _PARTS}
    for name in ("hand_offs", "gaps"):
        facts[name] = [*sorted(facts[name].items())]
    facts["claims"] = {(claim, claim.told_ms) for claim in state.claims}
    if state.scan is not None:
        facts["scan"] = [getattr(state.scan, name) for name in RangeScan.__slots__]
    resolver = state.resolver
    facts["resolver"] = resolver.closed, resolver.initialised, resolver.queue.allow_negative
    if state.status is RangeStatus.LIVE:
        facts["resolved"] = resolver.resolved
    return facts


def _again(change: StateChange) -> RangeState:
    assert change.value is not None
    return read_range(change.key, change.value).state


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in _PARTS for value in _PARTS[name]])
def test_each_part_of_a_range_comes_back_as_it_was(name: str, value: Any) -> None:
    state = _range()
    if name == "status" and value is not RangeStatus.LIVE:
        state.resolver = Resolver()
        state.resolver.closed = ClosedTimestamp(_AT)
    setattr(state, name, value)
    found = _again(range_row(state, _OFFSET))
    assert _facts(found) == _facts(state)
    assert found.range_id == _ID


def test_a_row_of_a_range_says_which_other_rows_belong_to_it() -> None:
    state = _range()
    change = range_row(state, _OFFSET)
    assert change.value is not None
    assert read_range(change.key, change.value)[1:] == (_OFFSET, 0, 0, False)
    state.chunks = [_chunk(0), _chunk(1)]
    for number in range(3):
        state.resolver.queue.increment(_txn(number), b"k", ZERO, _AT)
    for promises, holes in (([_PROMISE], []), ([], [_HOLE])):
        state.promises, state.holes = promises, holes
        change = range_row(state, _OFFSET)
        assert change.value is not None
        assert read_range(change.key, change.value)[1:] == (_OFFSET, 2, 3, True)


def test_a_mutation_without_a_time_that_an_earlier_version_stored_was_applied() -> None:
    undated = MutatedKeys(_SPAN, MAX, _LATER)
    for mutated, accounted in (
        ((undated,), AS_APPLIED._replace(noted=RaftIndex(12))),
        ((undated._replace(time=_AT), undated), AS_APPLIED._replace(noted=RaftIndex(12))),
        ((undated._replace(time=_AT),), AS_APPLIED),
        ((), AS_APPLIED),
    ):
        state = _range()
        state.applied, state.mutated = RaftIndex(12), mutated
        assert _again(range_row(state, _OFFSET)).accounted == accounted
    state.mutated, state.accounted = (undated,), Accounted(noted=RaftIndex(13))
    assert _again(range_row(state, _OFFSET)).accounted == state.accounted


# ---- keys ----


@pytest.mark.parametrize(
    ("key", "kinds"),
    [
        (encode_key(_ID), (True, False, False)),
        (encode_key(RangeId(0x2F74)), (True, False, False)),  # it ends with /t
        (encode_key(_ID) + b"/t", (False, True, False)),
        (encode_key(_ID) + b"/u", (False, False, False)),
        (_KEY, (False, False, True)),
        (encode_key(_ID) + (0x2F74).to_bytes(4, "big"), (False, False, True)),
        (encode_key(_ID)[1:], (False, False, False)),
        (encode_key(_ID) + b"123", (False, False, False)),
        (b"/t", (False, False, False)),
    ],
)
def test_a_key_of_the_ranges_table_is_that_of_one_kind_of_row(
    key: bytes, kinds: tuple[bool, bool, bool]
) -> None:
    assert (is_range_key(key), is_told_key(key), is_chunk_key(key)) == kinds


# ---- the position ----

_DIGESTS: Final = TableDigests(1, 2, 3, 4)
_CLOCK: Final = ClockState(1, 2, 3, 4, None, (Voice(_ID, 5, 6, 7, 8), Voice(RangeId(9), 1, 2, 3, 4)), 9, 10)


@pytest.mark.parametrize(
    "position",
    [
        Position(),
        Position(Offset(0), Offset(0), clock=ClockState()),
        Position(
            Offset(9), Offset(8), _AT, 7, "log", "control", TableSizes(1, 2, 3), Offset(6), _DIGESTS, _CLOCK
        ),
        Position(digests=TableDigests(), clock=ClockState(fell_at=0)),
        Position(clock=ClockState(fell_at=11)),
    ],
)
def test_a_position_comes_back_as_it_was(position: Position) -> None:
    _, key, value = position_row(position)
    assert value is not None
    assert (key, read_position(value)) == (b"\x00position", position)


@pytest.mark.parametrize(
    "alone",
    [pb.Position(own_hash=5), pb.Position(ranges_digest=5), pb.Position(ranges_digest=5, own_hash=5)],
)
def test_a_position_with_a_hash_or_digests_out_of_their_place_is_damaged(alone: pb.Position) -> None:
    _, _, value = position_row(Position(Offset(9)))
    assert value is not None
    with pytest.raises(StateMismatch, match="its hash is not where it was written"):
        read_position(value + alone.SerializeToString())


def test_a_position_that_names_nothing_yet_is_before_the_first_record() -> None:
    assert (Position().offset, Position().control_offset, NOWHERE) == (-1, -1, -1)


# ---- chunks of a snapshot ----


def _chunk(number: int, index: int = 9) -> Snapshot:
    return Snapshot(
        _ID,
        Generation(3),
        RaftIndex(index),
        _SPAN,
        ClosedTimestamp(_AT),
        _AT,
        ZERO,
        reason=SnapshotReason.SPLIT,
        chunk=number,
        chunks=5,
    )


def _stored_chunks(state: RangeState) -> list[tuple[int, int | None]]:
    """The number of each row of chunks, and the index of its snapshot; ``None`` if it is removed."""
    found: list[tuple[int, int | None]] = []
    for _, key, value in chunk_rows(state):
        if value is None:
            found.append((int.from_bytes(key[8:], "big"), None))
        else:
            range_id, number, chunk = read_chunk(key, value)
            assert (range_id, chunk) == (_ID, _chunk(number, chunk.raft_index))
            found.append((number, chunk.raft_index))
    return found


def test_a_chunk_is_stored_when_it_comes_and_removed_when_it_goes() -> None:
    state = _range()
    assert not _stored_chunks(state)
    state.chunks = [_chunk(0), _chunk(1)]
    assert _stored_chunks(state) == [(0, 9), (1, 9)]
    assert not _stored_chunks(state)
    state.chunks.append(_chunk(2))
    assert _stored_chunks(state) == [(2, 9)]
    state.chunks = [_chunk(0, 14)]  # the snapshot begins again
    assert _stored_chunks(state) == [(0, 14), (1, None), (2, None)]
    state.chunks = [state.chunks[0], _chunk(1, 14)]
    assert _stored_chunks(state) == [(1, 14)]
    state.chunks = []
    assert _stored_chunks(state) == [(0, None), (1, None)]
    assert not _stored_chunks(state)


def test_a_chunk_of_a_newer_version_asks_for_the_newer_worker() -> None:
    with pytest.raises(StateError, match="Run the newer worker") as refused:
        read_chunk(_KEY, bytes((STATE_VERSION + 1,)) + b"whatever that one writes")
    assert not isinstance(refused.value, StateMismatch)


_BEAT: Final = Heartbeat(_ID, Generation(3), ClosedTimestamp(_AT), RaftIndex(9))


@pytest.mark.parametrize("stored", [b"\xff", encode_entry(_BEAT)], ids=["no entry", "another entry"])
def test_a_chunk_that_is_damaged_is_restored(stored: bytes) -> None:
    with pytest.raises(StateMismatch, match="range 7 is damaged"):
        read_chunk(_KEY, bytes((WRITTEN_VERSION,)) + stored)


def test_what_stands_for_a_heartbeat_and_is_none_is_passed_over() -> None:
    row = pb.Range(start=b"a", end=b"z", pending_heartbeat=encode_entry(_chunk(0)))
    assert read_range(encode_key(_ID), pack(row)).state.pending_heartbeat is None


def test_a_heartbeat_that_cannot_be_read_is_damaged() -> None:
    row = pb.Range(start=b"a", end=b"z", pending_heartbeat=b"\xff")
    with pytest.raises(StateMismatch, match="range 7 is damaged"):
        read_range(encode_key(_ID), pack(row))


# ---- what a range tells others ----

_PROMISE: Final = Promise(RaftIndex(5), _RESOLVED, _SPAN, None, 65)
_HOLE: Final = Hole(RaftIndex(2), RaftIndex(4), _SPAN, _RESOLVED)


def test_what_a_range_tells_is_stored_when_it_has_changed_and_removed_when_there_is_nothing() -> None:
    state = _range()
    assert not [*told_rows(state, _ENDLESS)]
    for promises, holes in (([_PROMISE], []), ([_PROMISE], [_HOLE]), ([], [_HOLE])):
        state.promises, state.holes = promises, holes
        (row,) = told_rows(state, _ENDLESS)
        assert row.key == encode_key(_ID) + b"/t"
        assert row.value is not None
        assert not [*told_rows(state, _ENDLESS)]
    state.holes = []
    assert [*told_rows(state, _ENDLESS)] == [StateChange(StateTable.RANGES, encode_key(_ID) + b"/t", None)]
    state.promises, state.holes = [], []
    assert not [*told_rows(state, _ENDLESS)]


# ---- transactions ----


def _txn(number: int) -> TxnId:
    return TxnId(bytes(15) + bytes((number,)))


def _intents(state: RangeState, key_bytes: int = 9) -> dict[int, bytes | None]:
    rows = [*intent_rows(state, _OFFSET, key_bytes)]
    assert {(table, key[:-1]) for table, key, _ in rows} <= {
        (StateTable.INTENTS, encode_key(_ID) + bytes(15))
    }
    return {key[-1]: value for _, key, value in rows}


def test_a_transaction_is_stored_when_it_changes_and_removed_when_it_ends() -> None:
    state = _range()
    queue = state.resolver.queue
    for number in (1, 2, 3):
        queue.increment(_txn(number), b"anchor", _FIRST, _AT)
    first = _intents(state)
    assert sorted(first) == [1, 2, 3]
    assert not _intents(state)
    queue.increment(_txn(2), b"anchor", _FIRST, Timestamp(90))
    queue.increment(_txn(4), b"anchor", _FIRST, _AT)
    queue.remove(_txn(4))  # it came and went
    queue.remove(_txn(1))
    queue.remove(_txn(3))
    queue.increment(_txn(3), b"other", _FIRST, _AT)  # it comes again, before its row was removed
    second = _intents(state)
    assert sorted(second) == [1, 2, 3]
    assert second[1] is None
    assert None not in (second[2], second[3])
    assert not _intents(state)
    stored = {key: value for key, value in (first | second).items() if value is not None}
    keys = {number: encode_key(_ID) + _txn(number) for number in stored}
    assert queue.rows_hash == sum(
        row_hash(StateTable.INTENTS, keys[number], value) for number, value in stored.items()
    )


def test_a_transaction_comes_back_as_it_was() -> None:
    state = _range()
    state.resolver.queue.increment(_txn(1), b"anchor", _FIRST, _AT)
    state.resolver.queue.increment(_txn(1), b"anchor", _FIRST, _AT)
    (change,) = intent_rows(state, _OFFSET, 9)
    assert change.value is not None
    range_id, txn = read_intent(change.key, change.value)
    assert (range_id, txn.txn_id, txn.anchor_key) == (_ID, _txn(1), b"anchor")
    assert (txn.min_timestamp, txn.timestamp, txn.refs) == (_FIRST, _AT, 2)
    assert txn.row_hash == row_hash(change.table, change.key, change.value)


@pytest.mark.parametrize(("key_bytes", "fits"), [(5, False), (6, True), (7, True)])
def test_an_anchor_key_of_more_bytes_than_can_be_stored_is_refused(key_bytes: int, fits: bool) -> None:
    state = _range()
    state.resolver.queue.increment(_txn(1), b"anchor", _FIRST, _AT)
    if fits:
        assert [*_intents(state, key_bytes)] == [1]
    else:
        with pytest.raises(KeyTooLong, match=r"of transaction 0+1, .*has 6 bytes, and 5 can be stored"):
            _intents(state, key_bytes)


# ---- earlier versions ----


def test_a_chunk_with_an_intent_without_a_timestamp_which_an_earlier_version_took_is_read() -> None:
    chunk = _chunk(1)._replace(intents=(OpenIntent(_txn(1), b"anchor", b"key", ZERO),))
    stored = bytes((WRITTEN_VERSION,)) + encode_entry(chunk)
    assert read_chunk(_KEY, stored) == (_ID, 1, chunk)


def test_floors_of_an_earlier_version_are_read_whatever_their_number_and_however_they_lie() -> None:
    """Those shared keys, stood in the order in which they came, and had no bound."""
    row = pb.Range(start=b"a", end=b"z")
    for number in range(1_000):
        start, end = number.to_bytes(2), (number + 2).to_bytes(2)
        row.floors.add(start=start, end=end, resolved_wall=5_000 - number)
    state = read_range(encode_key(RangeId(7)), pack(row)).state
    assert len(state.floors) == FLOORS_MAX
    for floor in row.floors:
        found = floor_at(state.floors, floor.start)
        assert found is not None
        assert found.resolved.wall >= floor.resolved_wall
    _, key, value = range_row(state, Offset(3))
    assert value is not None
    assert read_range(key, value).state.floors == state.floors
