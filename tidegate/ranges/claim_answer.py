"""The answers of a range to claims on it (docs/protocols/hand-off.md, Y4).

If the range has applied the claim's index, it answers from its promises. If the index is in a hole, it
answers from that hole.
"""

from __future__ import annotations

from typing import Final

from tidegate.hlc import ZERO_RESOLVED
from tidegate.raftlog.entry import RaftIndex
from tidegate.ranges.handoff import Claim, HandOff, Hole, Promise
from tidegate.ranges.range_state import RangeState, RangeStatus
from tidegate.ranges.resolver import Resolver
from tidegate.spans import Span

_NO_PROMISE: Final = Promise(RaftIndex(0), ZERO_RESOLVED, None)
#: The most claims that are remembered: those at the highest indexes. At one index there are at most two: one
#: of the right side of a split, and one of a range that merges the left side away before its next command.
HEIRS_MAX: Final = 4


def answer_claim(state: RangeState, claim: Claim) -> HandOff | None:
    """Return the hand-off for a claim; ``None`` while the claim has to wait."""
    index = claim.last_index
    for hole in state.holes:
        if hole.before < index <= hole.last_index:
            return _hand_off_of(hole, claim)
    if index <= state.unseen:
        return HandOff(claim, ZERO_RESOLVED, complete=False)
    if state.awaits_snapshot and index == state.applied:
        # The command may be a merge, and its other side may not have handed off yet.
        return None if state.quarantine is None else _hand_off_of(state.hole_at(index), claim)
    if index <= state.applied:
        promised = _promised(state, claim)
        return HandOff(
            claim, promised.resolved, complete=True, span=promised.span, told_gaps=promised.told_gaps
        )
    if state.quarantine is not None:
        return _hand_off_of(state.hole_at(index), claim)
    if state.status is RangeStatus.ENDED or _is_taken_over_by(state, claim.span):
        return HandOff(claim, ZERO_RESOLVED, complete=False)
    return None


def grounds(state: RangeState) -> tuple[object, ...]:
    """Return all that decides whether `answer_claim` has an answer. While it is unchanged, claims wait."""
    scanned = None if state.scan is None else state.scan.span
    at = state.applied, state.unseen, state.awaits_snapshot, tuple(state.holes)
    return (*at, state.quarantine is None, state.status, state.span, scanned)


def answer_as_lost(state: RangeState, claim: Claim) -> HandOff:
    """Return the hand-off for a claim when the rest of the range's log, up to the claim's index, is lost."""
    if state.span is None:
        return HandOff(claim, ZERO_RESOLVED, complete=False)
    lost = Hole(state.applied, claim.last_index, state.span, state.resolved, state.told_gaps())
    return _hand_off_of(lost, claim)


def _hand_off_of(hole: Hole, claim: Claim) -> HandOff:
    """Return the hand-off for a claim whose index is in a hole.

    The keys that the range had before the hole are complete up to the hole's ``resolved``. Nothing is known
    about keys that came to the range in the hole.
    """
    has_keys = hole.span is not None and hole.span.overlaps(claim.span)
    complete = hole.resolved if has_keys else ZERO_RESOLVED
    return HandOff(claim, complete, complete=False, span=hole.span, told_gaps=hole.told_gaps)


def _promised(state: RangeState, claim: Claim) -> Promise:
    """Return the range's promise for a claim at an index that it has applied.

    There may be several promises at one index, for example if a range merges and is merged away before its
    next command. Then the last promise that has keys of the claim counts. A promise that has none of them is
    about keys that are not claimed here.

    At the last index that was applied, the present state of the range counts if it has keys of the claim that
    the promise is not about. For example, a range that merges notes a promise with the keys that it had
    before the merge. If it is merged away next and its RangeEnd is lost, it notes no promise with the keys
    that it had after its merge.
    """
    promises = (promise for promise in reversed(state.promises) if promise.at == claim.last_index)
    with_keys = (each for each in promises if each.span is None or each.span.overlaps(claim.span))
    noted = next(with_keys, None)
    # A hole that begins after the index does not change what the range took over at the index.
    follows = state.status is RangeStatus.LIVE or (noted is not None and state.quarantine is not None)
    if claim.last_index == state.applied and follows and state.span is not None:
        shared = state.span.intersect(claim.span)
        if shared is not None and (noted is None or not _is_about(noted, shared)):
            return state.promise_of_now()._replace(resolved=state.resolved)
    return noted or _NO_PROMISE


def _is_about(promise: Promise, span: Span) -> bool:
    """Whether a promise is about all keys of ``span``, or may be, since its own span is not known."""
    return promise.span is None or promise.span.intersect(span) == span


def give_up(state: RangeState, claim: Claim) -> None:
    """End the range if all of its keys belong to the child that claims.

    The log may not tell that: the range may be in a hole, or its RangeEnd may be lost.
    """
    if _is_taken_over_by(state, claim.span):
        state.status = RangeStatus.ENDED
        state.replace_resolver(Resolver())  # a range that waits for a scan still has transactions
    elif state.checkpointable and claim.last_index == state.applied and is_within(state, claim.span):
        state.end()


def remember(state: RangeState, claim: Claim) -> None:
    """Keep a claim that the range has answered before its log reached the claim's index.

    In a hole the range cannot tell whether the claim is for all of its keys, since it may have split there.
    Only the claims with the highest indexes are kept. A claim for all keys is among them: it comes when the
    range is merged away, and the log of the range ends at the index of that claim.
    """
    if state.status is RangeStatus.ENDED or claim.last_index < state.applied:
        return
    claim = claim.told_first(state.heirs)
    heirs = sorted({claim, *state.heirs}, key=lambda each: (each.last_index, each))
    state.heirs = tuple(heirs[-HEIRS_MAX:])


def look_at_heirs(state: RangeState) -> None:
    """End the range if a claim that it remembers is for all of its present keys.

    A claim at an index that the range has passed was for a part of its keys, and is forgotten.
    """
    for claim in state.heirs:
        give_up(state, claim)
    if state.status is RangeStatus.ENDED:
        state.heirs = ()
    elif state.checkpointable:
        state.heirs = tuple(claim for claim in state.heirs if claim.last_index > state.applied)


def is_within(state: RangeState, span: Span) -> bool:
    """Whether a range has keys, and all of them are in ``span``."""
    return state.span is not None and state.span.intersect(span) == state.span


def _is_taken_over_by(state: RangeState, heir: Span) -> bool:
    """Whether the range is in a hole or waits for a scan, and all of its keys are in ``heir``."""
    if state.scan is None and state.status is not RangeStatus.QUARANTINED:
        return False
    span = state.span if state.scan is None else state.scan.span
    return span is not None and heir.intersect(span) == span
