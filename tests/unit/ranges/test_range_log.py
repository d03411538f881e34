"""A command that is refused has not been applied: nothing of it counts, whichever of its ops was at fault."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pytest

from tests.hand_log import at, closed, intent
from tidegate.errors import ForbiddenOp, MalformedEntry, RangeError
from tidegate.hlc import ClosedTimestamp, ResolvedTimestamp, Timestamp
from tidegate.raftlog.entry import (
    Command,
    Generation,
    Heartbeat,
    Offset,
    RaftIndex,
    RangeEnd,
    RangeId,
    Snapshot,
    Trigger,
    WriteValue,
)
from tidegate.ranges.floors import Floor
from tidegate.ranges.range_log import apply_entry
from tidegate.ranges.range_state import RangeState, RangeStatus
from tidegate.ranges.scan import RangeScan
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


@pytest.mark.parametrize(("seconds", "closes"), [(5.5, 5), (6, 5), (7, 20), (20, 20)])
def test_a_copy_of_an_intent_that_may_have_ended_since_does_nothing(seconds: float, closes: float) -> None:
    """Second 6 is the newest version: an intent up to there, or up to what is closed, needs not be open."""
    state = _applied()
    apply_entry(state, Command(state.range_id, Generation(1), RaftIndex(13), (), closed(closes)))
    copy = Command(state.range_id, Generation(1), RaftIndex(11), (intent(1, seconds),), None)
    assert apply_entry(state, copy) == []


def test_an_intent_above_all_that_came_is_no_copy_unless_its_transaction_is_open() -> None:
    state = _applied()
    copy = Command(state.range_id, Generation(1), RaftIndex(11), (intent(1, 6.5),), None)
    with pytest.raises(ForbiddenOp, match=r"with an intent at .*neither open nor committed"):
        apply_entry(state, copy)
    apply_entry(state, Command(state.range_id, Generation(1), RaftIndex(13), (intent(1, 6.5),), None))
    assert apply_entry(state, copy) == []


@pytest.mark.parametrize(("key", "seconds"), [(b"k", 5), (b"oo", 5), (b"p", 1), (b"a", 1)])
def test_a_version_at_or_below_its_floor_or_what_is_resolved_is_refused(key: bytes, seconds: float) -> None:
    """The keys of the floor are those from k on and before p."""
    state = _live()
    state.add_floor(Floor(Span(b"k", b"p"), ResolvedTimestamp(at(5))))

    def command(wrote: Timestamp) -> Command:
        return Command(RangeId(7), Generation(1), RaftIndex(11), (WriteValue(key, wrote, b"value"),), None)

    with pytest.raises(ForbiddenOp, match="at or below"):
        apply_entry(state, command(at(seconds)))
    assert [version.key for version in apply_entry(state, command(at(seconds + 0.2)))] == [key]


def test_a_floor_is_forgotten_when_the_range_has_resolved_as_much() -> None:
    """What is at or below it is refused now in any case, and a floor that stays has to be stored."""
    state = _live()
    state.add_floor(Floor(_SPAN, ResolvedTimestamp(at(5))))
    for index, closes in ((11, 4), (12, 5)):
        apply_entry(state, Command(state.range_id, Generation(1), RaftIndex(index), (), closed(closes)))
        assert state.floors == [Floor(_SPAN, ResolvedTimestamp(at(5)))]
    apply_entry(state, Command(state.range_id, Generation(1), RaftIndex(13), (), None))
    assert state.floors == []


def test_a_heartbeat_that_waited_for_its_index_counts_once() -> None:
    """If it counted with each command after it, it would look like a closed timestamp that falls."""
    state = _applied()
    apply_entry(state, Heartbeat(state.range_id, Generation(1), closed(20), RaftIndex(14)))
    waiting = state.pending_heartbeat
    for index, closes, waits in ((13, 6, waiting), (14, 7, None), (15, 30, None), (16, 31, None)):
        apply_entry(state, Command(state.range_id, Generation(1), RaftIndex(index), (), closed(closes)))
        assert state.pending_heartbeat is waits
        assert state.resolved == at(closes if index != 14 else 20)
    assert waiting is not None
    assert state.closed_regressions == 0


def test_of_the_heartbeats_that_wait_the_last_counts_unless_it_is_a_copy_from_before() -> None:
    state = _applied()
    for covers, closes in ((14, 20), (14, 21), (13, 7)):
        apply_entry(state, Heartbeat(state.range_id, Generation(1), closed(closes), RaftIndex(covers)))
    for index in (13, 14):
        apply_entry(state, Command(state.range_id, Generation(1), RaftIndex(index), (), None))
    assert state.resolved == at(21)


@pytest.mark.parametrize("covers", [10, 11, 12])
def test_a_heartbeat_that_comes_again_does_nothing(covers: int) -> None:
    state = _applied()
    apply_entry(state, Heartbeat(state.range_id, Generation(1), closed(5), RaftIndex(covers)))
    assert (state.resolver.closed, state.pending_heartbeat) == (at(5), None)


@pytest.mark.parametrize("covers", [10, 11])
def test_a_heartbeat_of_a_store_that_began_anew_is_no_copy(covers: int) -> None:
    state = _applied()
    with pytest.raises(ForbiddenOp, match=r"a heartbeat covers index .*the store began anew"):
        apply_entry(state, Heartbeat(state.range_id, Generation(1), closed(5.5), RaftIndex(covers)))
    assert state.resolver.closed == at(5)


@pytest.mark.parametrize(
    ("closes", "counted"),
    [((5, 6, 6, 7), 0), ((6, 5.9, 6, 5.9), 2), ((4, 4.5, 5), 2)],
    ids=["it rises or stays", "it falls now and then", "it begins below what was closed"],
)
def test_it_is_counted_how_often_a_closed_timestamp_is_below_an_earlier_one(
    closes: Sequence[float], counted: int
) -> None:
    state = _applied()
    for index, seconds in enumerate(closes, 13):
        apply_entry(state, Command(state.range_id, Generation(1), RaftIndex(index), (), closed(seconds)))
    assert state.closed_regressions == counted
    assert state.resolver.closed == at(max(5, *closes))


@pytest.mark.parametrize(
    ("before", "generation", "last_index", "why"),
    [
        ((), 0, 12, "the generation fell from 1 to 0"),
        ((), 2, 12, "generation 2 began without its snapshot"),
        ((), 1, 11, "but index 12 is the last"),
        ((), 1, 13, "but index 12 is the last"),
        ((Trigger.MERGE,), 1, 13, "where a snapshot must follow a split or merge"),
        ((Trigger.MERGE, 1), 1, 13, "between the chunks of a snapshot"),
    ],
)
def test_an_end_that_does_not_follow_what_was_applied_is_refused(
    before: Sequence[Trigger | int], generation: int, last_index: int, why: str
) -> None:
    """Entries may be missing before it, and a child that claims must not be told that all is complete."""
    state = _applied()
    for each in before:
        if isinstance(each, Trigger):
            apply_entry(state, _command(state, trigger=each))
        else:
            apply_entry(state, _chunk(0)._replace(generation=Generation(2), raft_index=state.applied))
    with pytest.raises(RangeError, match=why):
        apply_entry(state, RangeEnd(state.range_id, Generation(generation), RaftIndex(last_index)))
    assert state.status is RangeStatus.LIVE


def test_the_end_of_a_range_before_its_first_snapshot_is_refused() -> None:
    with pytest.raises(RangeError, match="before the range's first snapshot"):
        apply_entry(RangeState(RangeId(7)), RangeEnd(RangeId(7), Generation(0), RaftIndex(0)))


def test_a_heartbeat_of_the_applied_index_closes_at_once() -> None:
    state = _applied()
    apply_entry(state, Heartbeat(state.range_id, Generation(1), closed(5.5), RaftIndex(12)))
    assert (state.resolved, state.pending_heartbeat) == (at(5.5), None)


def test_a_broken_range_knows_what_later_commands_close_and_resolves_nothing_by_it() -> None:
    """A change outside the op log, behind them, is later than all that they have closed."""
    state = _applied()
    state.quarantine_at(Offset(3), "a hole", state.resolved)
    state.scan = RangeScan(state.range_id, Offset(4), _SPAN, [], at(9), with_prev=False)
    for index, closes, known in ((20, 36, 36), (21, None, 36), (22, 35, 36)):
        told = None if closes is None else closed(closes)
        apply_entry(state, Command(state.range_id, Generation(1), RaftIndex(index), (_write(at(40)),), told))
        assert (state.resolver.closed, state.resolved) == (at(known), at(5))
    apply_entry(state, RangeEnd(state.range_id, Generation(1), RaftIndex(22)))
    assert (state.status, state.applied, state.resolved) == (RangeStatus.ENDED, 12, at(5))
    assert not state.scan


def _chunk(number: int) -> Snapshot:
    """A chunk of the snapshot, in two chunks, that heals the range."""
    begin = Snapshot(RangeId(7), Generation(1), RaftIndex(20), _SPAN, closed(30), at(9), at(0))
    return begin._replace(chunk=number, chunks=2)


@pytest.mark.parametrize(
    "between",
    [
        Heartbeat(RangeId(7), Generation(1), closed(40), RaftIndex(20)),
        Command(RangeId(7), Generation(1), RaftIndex(21), (_write(at(35)),), closed(36)),
    ],
    ids=["a heartbeat", "a command"],
)
def test_a_broken_range_is_not_healed_by_a_snapshot_with_another_entry_between_its_chunks(
    between: Command | Heartbeat,
) -> None:
    """What that entry wrote or closed is not in the range: it was passed over."""
    state = _applied()
    state.quarantine_at(Offset(3), "a hole", state.resolved)
    for entry in (_chunk(0), between):
        apply_entry(state, entry)
    with pytest.raises(MalformedEntry, match="chunk 1 of 2 of a snapshot where chunk 0 was expected"):
        apply_entry(state, _chunk(1))
    assert (state.status, state.resolved) == (RangeStatus.QUARANTINED, at(5))
    for number in (0, 1):
        apply_entry(state, _chunk(number))
    assert (state.status, state.resolved) == (RangeStatus.LIVE, at(30))


def _applied() -> RangeState:
    """A range that has applied two commands: second 6 is its newest version, second 5 is closed."""
    state = _live()
    apply_entry(state, _command(state, *_APPLIED))
    apply_entry(state, Command(state.range_id, Generation(1), RaftIndex(12), (), closed(5)))
    return state
