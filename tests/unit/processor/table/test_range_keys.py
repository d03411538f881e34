"""The keys that a range has, will have, and knows gaps of feeds in."""

from __future__ import annotations

from typing import Final

import pytest

from tidegate.hlc import ZERO, ClosedTimestamp, ResolvedTimestamp
from tidegate.processor.table.range_keys import is_gone, keys_known, keys_of, keys_scanned, keys_to_come
from tidegate.raftlog.entry import Generation, Offset, RaftIndex, RangeId, Snapshot
from tidegate.ranges.range_state import Quarantine, RangeState, RangeStatus
from tidegate.ranges.scan import RangeScan
from tidegate.spans import Span

_ID: Final = RangeId(7)
_OWN, _SCANNED, _BEGUN = Span(b"c", b"f"), Span(b"a", b"d"), Span(b"b", b"h")


def _range(*, own: bool = False, scanned: bool = False, begun: bool = False) -> RangeState:
    state = RangeState(_ID)
    if own:
        state.span = _OWN
    if scanned:
        state.scan = RangeScan(_ID, Offset(1), _SCANNED, [], ZERO, with_prev=False)
    if begun:
        closed = ClosedTimestamp(ZERO)
        first = Snapshot(_ID, Generation(1), RaftIndex(9), _BEGUN, closed, ZERO, ZERO, chunk=0, chunks=3)
        state.chunks = [first, first._replace(chunk=1, span=Span(b"x", b"y"))]
    return state


def test_a_range_that_has_nothing_has_no_keys() -> None:
    state = _range()
    assert keys_of(state) == keys_known(state) == keys_to_come(state) == keys_scanned(state) == []


def test_a_range_has_its_own_keys_and_those_that_come_with_its_snapshot() -> None:
    state = _range(own=True, begun=True)
    assert keys_to_come(state) == [Span(b"b", b"c"), Span(b"f", b"h")]
    assert keys_of(state) == [_OWN, Span(b"b", b"c"), Span(b"f", b"h")]
    assert keys_known(state) == [_OWN]


def test_a_range_knows_gaps_in_keys_that_it_scans_as_well() -> None:
    state = _range(own=True, scanned=True, begun=True)
    assert keys_scanned(state) == [Span(b"a", b"c")]
    assert keys_known(state) == [_OWN, Span(b"a", b"c")]
    assert keys_to_come(state) == [Span(b"a", b"c"), Span(b"f", b"h")]
    assert keys_of(state) == [_OWN, Span(b"a", b"c"), Span(b"f", b"h")]


def test_a_range_without_keys_of_its_own_has_those_that_it_scans() -> None:
    state = _range(scanned=True)
    assert keys_of(state) == keys_known(state) == keys_to_come(state) == [_SCANNED]


@pytest.mark.parametrize("status", RangeStatus)
@pytest.mark.parametrize("in_hole", [False, True])
def test_a_range_is_gone_when_it_has_ended_outside_a_hole(status: RangeStatus, in_hole: bool) -> None:
    state = _range(own=True)
    state.status = status
    if in_hole:
        state.quarantine = Quarantine("broken", Offset(1), ResolvedTimestamp(ZERO))
    assert is_gone(state) is (status is RangeStatus.ENDED and not in_hole)
