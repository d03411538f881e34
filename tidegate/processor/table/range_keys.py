"""The keys that a range has, those that it will have, and those in which it knows the gaps of feeds."""

from __future__ import annotations

from tidegate.ranges.gap import remainder
from tidegate.ranges.range_state import RangeState, RangeStatus
from tidegate.spans import Span


def is_gone(state: RangeState) -> bool:
    """Whether a range has ended outside a hole.

    A range that ended in a hole still has gaps of feeds to tell to ranges that go on from it.
    """
    return state.status is RangeStatus.ENDED and state.quarantine is None


def keys_of(state: RangeState) -> list[Span]:
    """Return the keys that a range has, and those that it will have with its snapshot."""
    return _own(state) + keys_to_come(state)


def keys_known(state: RangeState) -> list[Span]:
    """Return the keys in which a range knows feeds' gaps: its own, and those that it scans or has scanned."""
    return _own(state) + keys_scanned(state)


def keys_to_come(state: RangeState) -> list[Span]:
    """Return the keys that a range gets with the snapshot that it scans for or has begun to take."""
    begun = remainder(state.chunks[0].span, keys_known(state)) if state.chunks else []
    return keys_scanned(state) + begun


def keys_scanned(state: RangeState) -> list[Span]:
    """Return the keys that a range scans or has scanned, and does not have yet."""
    return [] if state.scan is None else remainder(state.scan.span, _own(state))


def _own(state: RangeState) -> list[Span]:
    return [] if state.span is None else [state.span]
