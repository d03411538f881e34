"""Answers to claims: what ranges say of indexes that do not come, and when asking again is of no use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import pytest

from tidegate.hlc import ZERO_RESOLVED, ClosedTimestamp, ResolvedTimestamp, Timestamp
from tidegate.raftlog.entry import Offset, RaftIndex, RangeId
from tidegate.ranges.claim_answer import answer_as_lost, answer_claim, grounds, look_at_heirs, remember
from tidegate.ranges.gap import Gap, ToldGaps
from tidegate.ranges.handoff import Claim, HandOff, Hole, Promise
from tidegate.ranges.range_state import Quarantine, RangeState, RangeStatus
from tidegate.ranges.resolver import Resolver
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


# ---- ranges that end without saying so ----


def _at_ten(**facts: object) -> RangeState:
    """A live range of the keys ``_ALL`` that has applied index 10, changed as ``facts`` say."""
    state = RangeState(_ID)
    state.applied, state.status, state.span = RaftIndex(10), RangeStatus.LIVE, _ALL
    for name, value in facts.items():
        setattr(state, name, value)
    return state


def _claimed(index: int, span: Span = _ALL, told_ms: int = 0) -> Claim:
    return Claim(RangeId(8), _ID, RaftIndex(index), span, told_ms)


_SCAN = RangeScan(_ID, Offset(1), _LEFT, [], Timestamp(1), with_prev=False)
_BROKEN = {"status": RangeStatus.QUARANTINED, "quarantine": Quarantine("a cause", Offset(1), ZERO_RESOLVED)}


@pytest.mark.parametrize(
    ("facts", "span", "is_answered"),
    [
        ({}, _ALL, False),
        ({"status": RangeStatus.ENDED}, _ALL, True),
        ({"status": RangeStatus.ENDED}, _LEFT, True),
        ({"scan": _SCAN}, _ALL, True),
        ({"scan": _SCAN}, _LEFT, True),
        ({"scan": _SCAN}, Span(b"b", b"c"), False),
    ],
    ids=[
        "it goes on",
        "it has ended",
        "a part of it",
        "its scan is for these keys",
        "for all of them",
        "for others",
    ],
)
def test_an_index_that_will_not_come_is_answered_as_if_everything_were_missing(
    facts: dict[str, object], span: Span, is_answered: bool
) -> None:
    """A child that is told otherwise does not scan, and one that is told nothing waits for ever."""
    claim = _claimed(11, span)
    expected = HandOff(claim, ZERO_RESOLVED, complete=False)
    assert answer_claim(_at_ten(**facts), claim) == (expected if is_answered else None)


def test_of_a_lost_log_what_the_range_had_is_complete_to_what_it_had_resolved() -> None:
    gaps = (Gap(_LEFT, Timestamp(3)),)
    resolver = Resolver.restored(ClosedTimestamp(Timestamp(9)), ResolvedTimestamp(Timestamp(7)))
    state = _at_ten(resolver=resolver, span=_LEFT, gaps={"late": gaps})
    for span, complete in ((_ALL, Timestamp(7)), (_LEFT, Timestamp(7)), (Span(b"b", b"c"), Timestamp(0))):
        claim = _claimed(20, span)
        told = (ToldGaps("late", gaps),)
        resolved = ResolvedTimestamp(complete)
        assert answer_as_lost(state, claim) == HandOff(
            claim, resolved, complete=False, span=_LEFT, told_gaps=told
        )
    claim = _claimed(20)
    assert answer_as_lost(RangeState(_ID), claim) == HandOff(claim, ZERO_RESOLVED, complete=False)


def test_the_claims_at_the_highest_indexes_are_remembered_each_once_with_its_earliest_time() -> None:
    state = _at_ten(**_BROKEN)
    for index in (13, 9, 12, 14, 10, 11, 15):
        remember(state, _claimed(index, told_ms=500))
    for told_ms in (400, 0, 600):
        remember(state, _claimed(14, told_ms=told_ms))
    assert [(claim.last_index, claim.told_ms) for claim in state.heirs] == [
        (12, 500),
        (13, 500),
        (14, 400),
        (15, 500),
    ]


@pytest.mark.parametrize(
    ("facts", "index", "is_kept"),
    [
        (_BROKEN, 9, False),
        (_BROKEN, 10, True),
        (_BROKEN, 11, True),
        ({}, 10, True),
        ({"status": RangeStatus.ENDED}, 11, False),
    ],
)
def test_a_claim_is_remembered_unless_its_range_has_passed_it_or_ended(
    facts: dict[str, object], index: int, is_kept: bool
) -> None:
    state = _at_ten(**facts)
    remember(state, _claimed(index))
    assert state.heirs == ((_claimed(index),) if is_kept else ())


@pytest.mark.parametrize(
    ("facts", "heirs", "status", "kept"),
    [
        (_BROKEN, ((10, _LEFT), (11, _LEFT)), RangeStatus.QUARANTINED, (10, 11)),
        (_BROKEN, ((10, _LEFT), (11, _ALL)), RangeStatus.ENDED, ()),
        ({}, ((9, _ALL), (10, _LEFT), (11, _ALL)), RangeStatus.LIVE, (11,)),
        ({}, ((9, _LEFT), (10, _ALL), (11, _LEFT)), RangeStatus.ENDED, ()),
        ({"awaits_snapshot": True}, ((9, _ALL), (10, _ALL), (11, _LEFT)), RangeStatus.LIVE, (9, 10, 11)),
    ],
    ids=["a part, in a hole", "all, in a hole", "all, later", "all, now", "amid a split"],
)
def test_a_range_ends_with_the_claim_for_all_of_its_keys(
    facts: dict[str, object],
    heirs: Sequence[tuple[int, Span]],
    status: RangeStatus,
    kept: Sequence[int],
) -> None:
    """A claim at an index that it has passed was for a part of the keys that it had then."""
    state = _at_ten(**facts)
    state.heirs = tuple(_claimed(index, span) for index, span in heirs)
    look_at_heirs(state)
    assert state.status is status
    assert [claim.last_index for claim in state.heirs] == list(kept)
