"""A command that is refused has not been applied: nothing of it counts, whichever of its ops was at fault."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pytest

from tests.hand_log import at, closed
from tidegate.errors import ForbiddenOp, MalformedEntry, RangeError
from tidegate.hlc import ClosedTimestamp, Timestamp
from tidegate.raftlog.entry import Command, Generation, RaftIndex, RangeId, Snapshot, Trigger, WriteValue
from tidegate.ranges.range_log import apply_entry
from tidegate.ranges.range_state import RangeState
from tidegate.ranges.version import Version
from tidegate.spans import Span

_SPAN: Final = Span(b"a", b"z")
_FAR: Final = at(200_000)
#: What a command that was applied would have changed.
_COUNTED: Final = ("applied", "awaits_snapshot", "promises", "high", "status", "floors", "pending_heartbeat")


class _Horizon:
    """Believes what is at or below second 100."""

    def __init__(self) -> None:
        self.believed = at(100).wall

    def require_versions(self, versions: Sequence[Version], record_ms: int) -> None:
        assert record_ms == 7
        if any(version.timestamp.wall > self.believed for version in versions):
            raise MalformedEntry("too far ahead")


def _live() -> RangeState:
    state = RangeState(RangeId(7))
    apply_entry(state, Snapshot(RangeId(7), Generation(1), RaftIndex(10), _SPAN, closed(1), at(2), at(0)))
    return state


def _write(timestamp: Timestamp, value: bytes | None = b"value") -> WriteValue:
    return WriteValue(b"k", timestamp, value)


def _command(state: RangeState, *ops: WriteValue, trigger: Trigger = Trigger.NONE) -> Command:
    return Command(state.range_id, Generation(1), RaftIndex(state.applied + 1), ops, closed(3), trigger)


@pytest.mark.parametrize("trigger", [Trigger.NONE, Trigger.SPLIT, Trigger.MERGE])
@pytest.mark.parametrize(
    "ops",
    [
        (_write(at(4)), _write(_FAR)),
        (_write(_FAR), _write(at(4))),
        (_write(_FAR), _write(at(5), None)),
        (_write(at(50)), _write(at(0.5))),
    ],
    ids=["behind good ones", "before good ones", "before one without a value", "below what is resolved"],
)
def test_a_refused_command_does_not_count_as_applied(ops: Sequence[WriteValue], trigger: Trigger) -> None:
    """A child that claims at its index is told of the hole, and later commands are measured by themselves."""
    state = _live()
    before = {name: getattr(state, name) for name in _COUNTED}
    with pytest.raises(RangeError):
        apply_entry(state, _command(state, *ops, trigger=trigger), _Horizon(), 7)
    assert {name: getattr(state, name) for name in _COUNTED} == before
    assert state.resolver.closed == at(1)


def test_a_command_is_measured_by_its_own_versions() -> None:
    """A version far ahead that was believed once, by a Snapshot or another record, is not its fault."""
    state = _live()
    state.high = _FAR
    (version,) = apply_entry(state, _command(state, _write(at(4))), _Horizon(), 7)
    assert (version.timestamp, state.applied, state.high) == (at(4), 11, _FAR)


_APPLIED: Final = (_write(at(4)), _write(at(6)))


@pytest.mark.parametrize(
    ("generation", "ops", "closes"),
    [
        (1, _APPLIED, closed(3)),
        (1, (), None),
        (1, (_write(at(2)),), closed(5)),
        (0, (_write(at(90)),), closed(90)),
    ],
    ids=["the same", "nothing", "an older one, behind others that closed more", "a generation that is over"],
)
def test_a_command_that_comes_again_does_nothing(
    generation: int, ops: Sequence[WriteValue], closes: ClosedTimestamp | None
) -> None:
    state = _applied()
    before = {name: getattr(state, name) for name in _COUNTED}
    entry = Command(state.range_id, Generation(generation), RaftIndex(11), tuple(ops), closes)
    assert apply_entry(state, entry) == []
    assert {name: getattr(state, name) for name in _COUNTED} == before


@pytest.mark.parametrize(
    ("ops", "closes", "why"),
    [
        ((), closed(5.5), "with the closed timestamp"),
        ((_write(at(7)),), None, "with a version at"),
        ((_write(at(4)), _write(at(7))), closed(3), "with a version at"),
    ],
    ids=["closes more", "a newer version", "a newer version among others"],
)
def test_a_command_of_a_store_that_began_anew_is_no_copy(
    ops: Sequence[WriteValue], closes: ClosedTimestamp | None, why: str
) -> None:
    """The next heartbeat would be a marker over its versions, which nobody has taken."""
    state = _applied()
    with pytest.raises(ForbiddenOp, match=f"{why} .*the store began anew"):
        apply_entry(state, Command(state.range_id, Generation(1), RaftIndex(11), tuple(ops), closes))


def _applied() -> RangeState:
    """A range that has applied two commands: second 6 is its newest version, second 5 is closed."""
    state = _live()
    apply_entry(state, _command(state, *_APPLIED))
    apply_entry(state, Command(state.range_id, Generation(1), RaftIndex(12), (), closed(5)))
    return state
