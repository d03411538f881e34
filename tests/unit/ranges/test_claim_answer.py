"""Answers to claims: the grounds say when asking again is of no use."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from tidegate.hlc import ZERO_RESOLVED, Timestamp
from tidegate.raftlog.entry import Offset, RaftIndex, RangeId
from tidegate.ranges.claim_answer import answer_claim, grounds
from tidegate.ranges.handoff import Claim, Hole, Promise
from tidegate.ranges.range_state import Quarantine, RangeState, RangeStatus
from tidegate.ranges.scan import RangeScan
from tidegate.spans import Span

_ID = RangeId(7)
_ONE, _TWO = RaftIndex(1), RaftIndex(2)
_LEFT, _ALL = Span(b"a", b"b"), Span(b"a", b"c")


def _states() -> Iterator[RangeState]:
    """Every state of a range that applied index 1, as far as answers to claims can depend on it."""
    for applied, unseen, hole, awaits, stands, status, span, scanned, promised in product(
        (_ONE, _TWO),
        (RaftIndex(0), _ONE),
        (None, Hole(_ONE, _TWO, _ALL, ZERO_RESOLVED)),
        (False, True),
        (None, "one cause", "another"),
        RangeStatus,
        (None, _LEFT, _ALL),
        (None, _LEFT, _ALL),
        (False, True),
    ):
        state = RangeState(_ID)
        state.applied, state.unseen, state.status, state.span = applied, unseen, status, span
        state.holes = [] if hole is None else [hole]
        state.awaits_snapshot = awaits
        state.quarantine = None if stands is None else Quarantine(stands, Offset(1), ZERO_RESOLVED)
        if scanned is not None:
            state.scan = RangeScan(_ID, Offset(1), scanned, [], Timestamp(1), with_prev=False)
        state.promises = [Promise(_ONE, ZERO_RESOLVED, None)] if promised else []
        yield state


def test_a_claim_that_waited_has_an_answer_only_on_other_grounds() -> None:
    claims = [Claim(RangeId(8), _ID, index, span) for index in (_ONE, _TWO) for span in (_LEFT, _ALL)]
    waits: dict[tuple[object, ...], set[bool]] = {}
    for state in _states():
        for claim in claims:
            waits.setdefault((grounds(state), claim), set()).add(answer_claim(state, claim) is None)
    assert [each for each, answers in waits.items() if len(answers) > 1] == []
    assert {True} in waits.values()
    assert {False} in waits.values()
