"""What a range answers to the claims of those that go on from it (docs/ranges.md#hand-off, Y4).

It answers from its promises, where it has applied the index that counts, and from its holes, where that index
was never applied.
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
#: So many claims are remembered, those at the highest indexes. At one index there are two at most: of the
#: right side of a split, and of the range that merges the left side away with no command between.
HEIRS_MAX: Final = 4


def answer_claim(state: RangeState, claim: Claim) -> HandOff | None:
    """What there is to say to a range that came from this one; ``None`` as long as it must wait."""
    index = claim.last_index
    for hole in state.holes:
        if hole.before < index <= hole.last_index:
            return _hand_off_of(hole, claim)
    if index <= state.unseen:
        return HandOff(claim, ZERO_RESOLVED, complete=False)
    if state.awaits_snapshot and index == state.applied:
        # The trigger may be that of a merge, whose other side has not handed off yet.
        return None if state.quarantine is None else _hand_off_of(state.hole_at(index), claim)
    if index <= state.applied:
        promised = _promised(state, claim)
        return HandOff(claim, promised.resolved, complete=True, span=promised.span, lags=promised.lags)
    if state.quarantine is not None:
        return _hand_off_of(state.hole_at(index), claim)
    if state.status is RangeStatus.ENDED or _is_taken_over_by(state, claim.span):
        return HandOff(claim, ZERO_RESOLVED, complete=False)
    return None


def answer_as_lost(state: RangeState, claim: Claim) -> HandOff:
    """What to say when the rest of the range's log, up to the claim's index, does not come."""
    if state.span is None:
        return HandOff(claim, ZERO_RESOLVED, complete=False)
    lost = Hole(state.applied, claim.last_index, state.span, state.resolved, state.told_lags())
    return _hand_off_of(lost, claim)


def _hand_off_of(hole: Hole, claim: Claim) -> HandOff:
    """Of the keys that the range had before the hole; nobody knows what it came to have there."""
    has_keys = hole.span is not None and hole.span.overlaps(claim.span)
    complete = hole.resolved if has_keys else ZERO_RESOLVED
    return HandOff(claim, complete, complete=False, span=hole.span, lags=hole.lags)


def _promised(state: RangeState, claim: Claim) -> Promise:
    """What it had promised at an index that it has applied.

    Of several at one index, as of a range that merges and is merged away at once, the last one counts
    that has keys of the claim: what it has none of went elsewhere before. At the last index what the range is
    now counts, where it has keys of the claim that no promise is about: a range that merges has noted what it
    had before, and notes no more when its own end is lost.
    """
    promises = (promise for promise in reversed(state.promises) if promise.at == claim.last_index)
    with_keys = (each for each in promises if each.span is None or each.span.overlaps(claim.span))
    noted = next(with_keys, None)
    # A hole behind the index changes nothing of what the range has taken over at it.
    follows = state.status is RangeStatus.LIVE or (noted is not None and state.quarantine is not None)
    if claim.last_index == state.applied and follows and state.span is not None:
        shared = state.span.intersect(claim.span)
        if shared is not None and (noted is None or not _is_about(noted, shared)):
            return state.promise_of_now()._replace(resolved=state.resolved)
    return noted or _NO_PROMISE


def _is_about(promise: Promise, span: Span) -> bool:
    """Whether a promise is about all keys of ``span``, as far as it tells."""
    return promise.span is None or promise.span.intersect(span) == span


def give_up(state: RangeState, claim: Claim) -> None:
    """Its child goes on from it: it has ended when all of its keys are the child's.

    Its log may bring nothing that says so, to a range in a hole; or what says so may be lost.
    """
    if _is_taken_over_by(state, claim.span):
        state.status = RangeStatus.ENDED
        state.replace_resolver(Resolver())  # one that waits for a scan has transactions yet
    elif state.checkpointable and claim.last_index == state.applied and is_within(state, claim.span):
        state.end()


def remember(state: RangeState, claim: Claim) -> None:
    """Keep a claim that was answered before the range's log came to its index.

    Out of a hole the range cannot tell whether the claim is for all of its keys: it may have split in there.
    The last claims decide, for a range that is merged away has nothing behind that.
    """
    if state.status is RangeStatus.ENDED or claim.last_index < state.applied:
        return
    claim = claim.told_first(state.heirs)
    heirs = sorted({claim, *state.heirs}, key=lambda each: (each.last_index, each))
    state.heirs = tuple(heirs[-HEIRS_MAX:])


def look_at_heirs(state: RangeState) -> None:
    """Give the range up when one of the claims that it remembers is for all of the keys that it has by now.

    One that it has come past was for a part of them.
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
    """Whether it is in a hole, or waits for a scan, and all of its keys are those of ``heir``."""
    if state.scan is None and state.status is not RangeStatus.QUARANTINED:
        return False
    span = state.span if state.scan is None else state.scan.span
    return span is not None and heir.intersect(span) == span
