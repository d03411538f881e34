"""Claims and hand-offs of one partition: which wait, which are answered when, and where the answers go."""

from __future__ import annotations

import pytest

from tests.hand_log import at
from tests.unit.processor.catchup.partition_parts import CHILD, ELSEWHERE, HERE, HIGH, LOW
from tests.unit.processor.logs import PLAIN
from tests.unit.processor.moving.waiting_parts import WaitingParts, claim_of
from tidegate.hlc import ZERO_RESOLVED
from tidegate.processor.log_clock import LEAD_MS
from tidegate.processor.moving import exchange
from tidegate.raftlog.entry import Offset, RaftIndex, RangeId
from tidegate.ranges.handoff import Claim, HandOff
from tidegate.ranges.range_state import RangeState, RangeStatus
from tidegate.ranges.scan import RangeScan, ScanPart
from tidegate.spans import Span

_HEIR = RangeId(3)  # of another partition


def _lives(parts: WaitingParts, range_id: RangeId = HERE) -> RangeState:
    state = parts.range(range_id, resolved=4)
    state.applied = RaftIndex(10)
    return state


def _on(index: int, *, child: RangeId = _HEIR, parent: RangeId = HERE, span: Span = LOW) -> Claim:
    return claim_of(child, parent, index=index, span=span)


def _answered(parts: WaitingParts) -> list[tuple[RaftIndex, bool]]:
    """The indexes of the claims that were answered since the last call; whether the hand-offs are whole."""
    sent = parts.sent()
    assert all(isinstance(each, HandOff) for each in sent)
    return [(each.claim.last_index, each.complete) for each in sent if isinstance(each, HandOff)]


# ---- claims that are sent


@pytest.mark.parametrize(
    ("now_ms", "told_ms", "sent_ms"),
    [
        (10_000, 9_000, 10_000),
        (10_000, 10_000 + LEAD_MS, 10_000 + LEAD_MS),
        (10_000, 10_001 + LEAD_MS, 10_000 + LEAD_MS),
        (0, 9_000, 9_000),
    ],
)
def test_a_claim_is_sent_with_log_time_or_with_a_later_one_that_is_near(
    now_ms: int, told_ms: int, sent_ms: int
) -> None:
    parts = WaitingParts()
    parts.clock.time_ms = now_ms
    parts.exchanges.claim([Claim(CHILD, ELSEWHERE, RaftIndex(7), PLAIN.span, told_ms)])
    (sent,) = parts.sent()
    assert isinstance(sent, Claim)
    assert sent.told_ms == sent_ms
    assert parts.sent() == []


def test_messages_for_ranges_of_other_partitions_are_passed_over() -> None:
    parts = WaitingParts()
    parts.exchanges.receive(_on(7, child=CHILD, parent=ELSEWHERE))
    parts.exchanges.receive(HandOff(_on(7, child=_HEIR), ZERO_RESOLVED, complete=False))
    assert (parts.sent(), [*parts.table]) == ([], [])


# ---- claims that are answered


def test_a_claim_is_answered_when_the_range_has_come_to_its_index() -> None:
    parts = WaitingParts()
    state = _lives(parts)
    for index in (20, 12, 7):
        parts.exchanges.receive(_on(index))
    assert parts.exchanges.settle()
    assert _answered(parts) == [(7, True)]
    assert not parts.exchanges.settle()
    parts.exchanges.receive(_on(8))
    assert parts.exchanges.settle(), "a new claim does not wait for the others"
    assert _answered(parts) == [(8, True)]
    assert not parts.exchanges.settle()
    parts.table.touch(HERE).applied = RaftIndex(12)
    assert parts.exchanges.settle()
    assert _answered(parts) == [(12, True)]
    assert [each.range_id for each in parts.exchanges.claimed] == [HERE]
    parts.table.touch(HERE).applied = RaftIndex(20)
    assert parts.exchanges.settle()
    assert (_answered(parts), state.claims, parts.exchanges.claimed) == ([(20, True)], set(), [])


def test_claims_are_answered_in_order_though_they_came_in_another() -> None:
    parts = WaitingParts()
    _lives(parts)
    for child in (7, 3, 5):
        parts.exchanges.receive(_on(7, child=RangeId(child)))
    assert parts.exchanges.settle()
    assert [each.claim.child for each in parts.sent() if isinstance(each, HandOff)] == [3, 5, 7]


@pytest.mark.parametrize(("span", "ends"), [(LOW, False), (PLAIN.span, True)])
def test_a_range_ends_with_the_answer_to_a_claim_for_all_of_its_keys(span: Span, ends: bool) -> None:
    parts = WaitingParts()
    state = _lives(parts)
    parts.exchanges.receive(_on(10, span=span))
    assert parts.exchanges.settle()
    assert (state.status is RangeStatus.ENDED) is ends
    assert parts.exchanges.claimed == []


def test_a_range_that_ends_with_an_answer_answers_the_later_claims_at_once() -> None:
    parts = WaitingParts()
    _lives(parts)
    parts.exchanges.receive(_on(12, child=RangeId(5)))
    parts.exchanges.receive(_on(10, span=PLAIN.span))
    assert parts.exchanges.settle()
    assert _answered(parts) == [(10, True), (12, False)]


@pytest.mark.parametrize(("span", "ends"), [(LOW, False), (PLAIN.span, True)])
def test_a_range_in_a_hole_remembers_what_it_has_answered_until_it_knows_its_keys(
    span: Span, ends: bool
) -> None:
    parts = WaitingParts()
    state = _lives(parts)
    state.quarantine_at(Offset(9), "broken", state.resolved)
    state.span = None
    parts.exchanges.receive(_on(20, span=span))
    assert parts.exchanges.settle()
    assert [each.range_id for each in parts.exchanges.claimed] == [HERE], "it may be for all of its keys"
    parts.table.touched.clear()
    assert not parts.exchanges.settle()
    parts.table.touch(HERE).span = PLAIN.span
    assert parts.exchanges.settle() is ends
    assert (state.status is RangeStatus.ENDED) is ends
    assert (parts.exchanges.claimed == []) is ends


@pytest.mark.parametrize(
    ("claims", "heirs", "is_open"),
    [(True, False, True), (False, True, True), (True, True, True), (False, False, False)],
)
def test_claims_on_a_restored_range_are_looked_after(claims: bool, heirs: bool, is_open: bool) -> None:
    parts = WaitingParts()
    state = _lives(parts)
    state.claims = {_on(20)} if claims else set()
    state.heirs = (_on(30),) if heirs else ()
    parts.exchanges.restore(state)
    assert [each.range_id for each in parts.exchanges.claimed] == [HERE] * is_open
    parts.table.touch(HERE).applied = RaftIndex(20)
    assert parts.exchanges.settle() is claims


# ---- how many claims may wait


def _is_taken(parts: WaitingParts, claim: Claim) -> bool:
    """Whether a claim may wait. If it may not, it is answered at once: its child has to scan."""
    parts.exchanges.receive(claim)
    return _answered(parts) == []


def test_of_one_range_so_many_claims_wait_and_a_claim_that_comes_again_is_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exchange, "CLAIMS_MAX", 2)
    parts = WaitingParts()
    _lives(parts)
    taken = [_is_taken(parts, _on(20, child=RangeId(child))) for child in (3, 5, 7, 5)]
    assert taken == [True, True, False, True]


def test_claims_wait_for_so_many_ranges_of_which_nothing_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "UNSEEN_PARENTS_MAX", 2)
    parts = WaitingParts()
    _lives(parts, CHILD)

    def taken(*parents: int) -> list[bool]:
        return [_is_taken(parts, _on(20, parent=RangeId(parent))) for parent in parents]

    assert taken(4, 6, 8, 6, CHILD) == [True, True, False, True, True]
    assert not parts.exchanges.settle()
    assert taken(8) == [False]
    parts.table.touch(RangeId(4)).status = RangeStatus.LIVE
    assert not parts.exchanges.settle()
    assert taken(8, 10) == [True, False], "something of range 4 was read"


@pytest.mark.parametrize("scans", [True, False], ids=["taken over while it scans", "its last entries unseen"])
def test_a_range_of_which_nothing_was_read_makes_room_when_its_claims_are_answered(
    scans: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "UNSEEN_PARENTS_MAX", 1)
    parts = WaitingParts()
    assert _is_taken(parts, _on(20))
    state = parts.table.touch(HERE)
    if scans:
        part = ScanPart(LOW, at(1))
        state.scan = RangeScan(HERE, Offset(0), LOW, [part], at(5), with_prev=False)
    else:
        state.unseen = RaftIndex(20)
    assert parts.exchanges.settle()
    assert _answered(parts) == [(20, False)]
    assert state.status is (RangeStatus.ENDED if scans else RangeStatus.UNINITIALISED)
    parts.exchanges.settle()
    assert _is_taken(parts, _on(20, parent=RangeId(6)))


@pytest.mark.parametrize("status", [RangeStatus.UNINITIALISED, RangeStatus.LIVE])
def test_a_restored_range_counts_if_nothing_of_it_was_read(
    status: RangeStatus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "UNSEEN_PARENTS_MAX", 1)
    parts = WaitingParts()
    state = _lives(parts)
    state.status, state.claims = status, {_on(20)}
    parts.exchanges.restore(state)
    assert _is_taken(parts, _on(20, parent=RangeId(8))) is (status is RangeStatus.LIVE)


def test_of_a_claim_that_comes_again_the_first_time_counts() -> None:
    parts = WaitingParts()
    state = _lives(parts)
    for told in (8, 6, 7):
        parts.exchanges.receive(claim_of(_HEIR, HERE, index=20, told=told, span=HIGH))
    assert [each.told_ms for each in state.claims] == [at(6).wall_ms]
