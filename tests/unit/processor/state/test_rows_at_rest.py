"""Rows of ranges at rest are those that ``range_row`` makes, and a range with more to say is not at rest."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.hlc import ZERO, ClosedTimestamp, ResolvedTimestamp, Timestamp
from tidegate.processor.state.rows_at_rest import _EXTRAS, _MARKS, RowsAtRest, is_at_rest
from tidegate.processor.state.state_codec import range_row
from tidegate.raftlog.entry import Generation, Heartbeat, Offset, RaftIndex, RangeId, TxnId
from tidegate.ranges.accounted import AS_APPLIED, Accounted
from tidegate.ranges.floors import Floor
from tidegate.ranges.gap import Gap
from tidegate.ranges.range_state import Quarantine, RangeState, RangeStatus
from tidegate.ranges.resolver import Resolver
from tidegate.spans import Span

_SPAN: Final = Span(b"b", b"f")
_CLOSED: Final = Timestamp(9, 2)
_walls = st.integers(1, 2**62)
_timestamps = st.builds(Timestamp, _walls, st.integers(0, 2**31 - 1))
_small = st.integers(0, 2**40)


def _range(closed: Timestamp = _CLOSED, resolved: int = 8) -> RangeState:
    state = RangeState(RangeId(7))
    state.status, state.span = RangeStatus.LIVE, _SPAN
    state.generation, state.applied = Generation(3), RaftIndex(12)
    state.resolver = Resolver.restored(ClosedTimestamp(closed), ResolvedTimestamp(Timestamp(resolved, 0)))
    return state


@given(
    st.lists(st.tuples(_timestamps, _walls), min_size=1, max_size=3),
    _timestamps | st.just(ZERO),
    _timestamps | st.just(ZERO),
    _small,
    _small,
    _small,
    st.integers(0, 2),
    st.integers(-1, 2**62),
)
def test_a_row_is_the_one_that_the_message_makes(
    times: list[tuple[Timestamp, int]],
    high: Timestamp,
    gc_threshold: Timestamp,
    regressions: int,
    unseen: int,
    refused_chunks: int,
    open_transactions: int,
    offset: int,
) -> None:
    state = _range()
    state.high, state.gc_threshold, state.closed_regressions = high, gc_threshold, regressions
    state.unseen, state.refused_chunks = RaftIndex(unseen), refused_chunks
    for number in range(open_transactions):
        state.resolver.queue.increment(TxnId(bytes(15) + bytes([number])), b"k", ZERO, Timestamp(5))
    rows = RowsAtRest(Offset(offset))
    for closed, resolved in times:
        state.resolver.closed = ClosedTimestamp(closed)
        state.resolver.resolved = ResolvedTimestamp(Timestamp(resolved, 0))
        assert rows.row(state) == rows.row_again(state) == range_row(state, Offset(offset))


@pytest.mark.parametrize("shift", [0, 7, 14, 21, 56])
@pytest.mark.parametrize("number", [1, 0x7E, 0x7F, 0x80, 0x81, 0xFF, 0x100])
def test_a_number_of_any_length_is_written_as_the_message_writes_it(number: int, shift: int) -> None:
    for value in {(number << shift) - 1, number << shift, (number << shift) + 1} - {0}:
        if value < 2**63:
            state = _range()
            state.high = Timestamp(value, value & 0x7FFFFFFF)
            state.resolver.closed = ClosedTimestamp(Timestamp(value))
            assert RowsAtRest(Offset(4)).row(state) == range_row(state, Offset(4))


def test_a_change_of_what_seldom_changes_is_in_the_next_row() -> None:
    state, rows = _range(), RowsAtRest(Offset(4))
    rows.row(state)
    for name, value in {
        "generation": Generation(4),
        "applied": RaftIndex(13),
        "span": Span(b"b", b"e"),
        "gc_threshold": Timestamp(4, 1),
        "high": Timestamp(6, 1),
        "closed_regressions": 1,
        "refused_chunks": 2,
        "unseen": RaftIndex(3),
    }.items():
        setattr(state, name, value)
        assert rows.row(state) == range_row(state, Offset(4))
    state.resolver.queue.increment(TxnId(bytes(16)), b"k", ZERO, Timestamp(5))
    assert rows.row(state) == range_row(state, Offset(4))


_CLAIM: Final = "a claim"
_MORE: Final[dict[str, Any]] = {
    "status": RangeStatus.QUARANTINED,
    "span": None,
    "quarantine": Quarantine("", Offset(0), ResolvedTimestamp(ZERO)),
    "pending_heartbeat": Heartbeat(RangeId(7), Generation(3), ClosedTimestamp(ZERO), RaftIndex(13)),
    "floors": [Floor(_SPAN, ResolvedTimestamp(ZERO))],
    "hand_offs": {_CLAIM: None},
    "claims": {_CLAIM},
    "heirs": (_CLAIM,),
    "gaps": {"feed": (Gap(_SPAN, None),)},
    "mutated": (None,),
    "chunks": [None],
    "stored_chunks": (None,),
    "promises": [None],
    "holes": [None],
    "awaits_snapshot": True,
    "scan": object(),
    "behind": Offset(0),
    "waits_since_ms": 0,
    "heard_ms": 0,
    "claimed_since_ms": 0,
}


@pytest.mark.parametrize("name", _MORE)
def test_a_range_with_more_to_say_is_not_at_rest(name: str) -> None:
    state = _range()
    assert is_at_rest(state)
    setattr(state, name, _MORE[name])
    assert not is_at_rest(state)


def test_a_range_that_accounts_for_more_than_it_applied_has_no_such_row() -> None:
    state, rows = _range(), RowsAtRest(Offset(4))
    assert rows.row(state) is not None
    state.accounted = Accounted(raft_index=RaftIndex(20))
    assert rows.row(state) is None
    assert rows.row_again(state) is None
    state.accounted = AS_APPLIED
    assert rows.row(state) == range_row(state, Offset(4))


def test_a_range_that_has_closed_nothing_has_no_such_row() -> None:
    assert RowsAtRest(Offset(4)).row(_range(ZERO, 0)) is None


def test_each_part_of_a_range_is_thought_of() -> None:
    marks, extras = (set(each.__reduce__()[1]) for each in (_MARKS, _EXTRAS))
    elsewhere = {
        "range_id",  # the key
        "resolver",  # what changes, and the number of open transactions
        "published",  # not stored
        "serves",
        "snapshots_taken",
        "bytes_at_rest",
        "stored_told",  # says what is stored of the promises and holes
    }
    assert marks | extras | set(_MORE) | elsewhere == set(RangeState.__slots__)
