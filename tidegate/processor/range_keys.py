"""Which keys a range has, will have, or had not before."""

from __future__ import annotations

from tidegate.rangefeed.gap import remainder
from tidegate.rangefeed.range_state import RangeState, RangeStatus
from tidegate.spans import Span


def is_gone(state: RangeState) -> bool:
    """Whether a range has ended, and has said all that it has to say to those that go on from it.

    One that ended in a hole says later what feeds lack there.
    """
    return state.status is RangeStatus.ENDED and state.quarantine is None


def keys_of(state: RangeState) -> list[Span]:
    """The keys that a range has, and those that it will have."""
    own = [] if state.span is None else [state.span]
    return own + keys_to_come(state)


def keys_to_come(state: RangeState) -> list[Span]:
    """The keys that a range has not yet, of the snapshot that it scans for or has begun to take."""
    known = [] if state.span is None else [state.span]
    found: list[Span] = []
    if state.scan is not None:
        found += remainder(state.scan.span, known)
    if state.chunks:
        found += remainder(state.chunks[0].span, [*known, *found])
    return found


def keys_beyond(before: Span | None, span: Span) -> list[Span]:
    """The keys of ``span`` that a range had not ``before``."""
    return [span] if before is None else remainder(span, (before,))
