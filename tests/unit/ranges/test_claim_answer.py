"""Answers to claims: the grounds say when asking again is of no use."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidegate.hlc import ZERO_RESOLVED, Timestamp
from tidegate.raftlog.entry import Offset, RaftIndex, RangeId
from tidegate.ranges.claim_answer import answer_claim, grounds
from tidegate.ranges.handoff import Claim, Hole, Promise
from tidegate.ranges.range_state import Quarantine, RangeState, RangeStatus
from tidegate.ranges.scan import RangeScan
from tidegate.spans import Span

_ID = RangeId(7)
_INDEXES = st.integers(0, 4).map(RaftIndex)
_SPANS = st.sampled_from([Span(b"a", b"b"), Span(b"a", b"c"), Span(b"b", b"d")])
_HOLES = st.builds(
    lambda at, more, span: Hole(at, RaftIndex(at + more), span, ZERO_RESOLVED),
    _INDEXES,
    st.integers(1, 2),
    _SPANS,
)
_QUARANTINES = st.none() | st.sampled_from("xy").map(lambda why: Quarantine(why, Offset(1), ZERO_RESOLVED))
_CLAIMS = st.builds(lambda index, span: Claim(RangeId(8), _ID, index, span), _INDEXES, _SPANS)


@st.composite
def _states(draw: st.DrawFn) -> RangeState:
    state = RangeState(_ID)
    state.applied, state.unseen = draw(_INDEXES), draw(_INDEXES)
    state.holes = draw(st.lists(_HOLES, max_size=1))
    state.awaits_snapshot = draw(st.booleans())
    state.quarantine = draw(_QUARANTINES)
    state.status = draw(st.sampled_from(list(RangeStatus)))
    state.span = draw(st.none() | _SPANS)
    if draw(st.booleans()):
        scanned = draw(_SPANS)
        state.scan = RangeScan(_ID, Offset(1), scanned, [], Timestamp(1), with_prev=False)
    state.promises = draw(
        st.lists(st.builds(lambda at: Promise(at, ZERO_RESOLVED, None), _INDEXES), max_size=2)
    )
    return state


@given(_states(), _states(), _CLAIMS)
def test_on_the_same_grounds_a_claim_that_waited_waits(
    one: RangeState, other: RangeState, claim: Claim
) -> None:
    for name in ("applied", "unseen", "holes", "awaits_snapshot", "status", "span", "scan"):
        setattr(other, name, getattr(one, name))  # whatever else there is may be another
    if grounds(one) == grounds(other):
        assert (answer_claim(one, claim) is None) == (answer_claim(other, claim) is None)


@given(_states(), _states(), _CLAIMS)
def test_where_an_answer_appears_the_grounds_are_others(
    one: RangeState, other: RangeState, claim: Claim
) -> None:
    if (answer_claim(one, claim) is None) != (answer_claim(other, claim) is None):
        assert grounds(one) != grounds(other)
