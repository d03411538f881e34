"""What a backlog counts for."""

from __future__ import annotations

from typing import Final

from tests.hand_log import at, closed
from tidegate.raftlog.entry import Generation, Offset, RaftIndex, RangeId, Snapshot
from tidegate.ranges.backlog import Backlog, MemoryQueue, RawEntry
from tidegate.ranges.handoff import Claim
from tidegate.spans import Span

_CLAIMS: Final = 64


def _raw(offset: int) -> RawEntry:
    return RawEntry(offset, b"", b"v" * 100, 0)


def _snapshot(generation: int) -> Snapshot:
    span = Span(b"a", b"z")
    return Snapshot(RangeId(7), Generation(generation), RaftIndex(10), span, closed(1), at(1), at(0))


def _parked() -> Backlog:
    """A backlog at offset 0, whose range waits for a hand-off."""
    backlog = Backlog(MemoryQueue(), _raw(0))
    claim = Claim(RangeId(7), RangeId(3), RaftIndex(9), Span(b"a", b"z"))
    backlog.wait_for(_snapshot(1), Offset(0), 0, frozenset({claim}))
    return backlog


def _tell(backlog: Backlog, offset: int) -> None:
    """A Snapshot of the next generation tells of many claims."""
    snapshot = _snapshot(1 + offset)
    backlog.append(_raw(offset), snapshot)
    parents = range(1_000 * offset, 1_000 * offset + _CLAIMS)
    claims = [Claim(RangeId(7), RangeId(parent), RaftIndex(9), snapshot.span) for parent in parents]
    backlog.note_claims(Offset(offset), claims)


def test_claims_that_stay_in_memory_count_for_more_than_entries_that_may_be_on_disk() -> None:
    backlog = _parked()
    before = backlog.held_bytes
    _tell(backlog, 1)
    assert backlog.held_bytes - before - _raw(1).held_bytes >= 1_000 * _CLAIMS


def test_claims_that_are_left_out_count_no_more() -> None:
    backlog = _parked()
    for offset in (1, 2, 3):
        _tell(backlog, offset)
    assert backlog.skip_to_move()
    assert len(backlog.skipped) == 2 * _CLAIMS
    last = _parked()
    _tell(last, 3)
    assert backlog.held_bytes == last.held_bytes - _raw(0).held_bytes


def test_claims_of_snapshots_that_are_applied_count_no_more() -> None:
    backlog = _parked()
    for offset in (1, 2):
        _tell(backlog, offset)
    backlog.clear()
    backlog.take_applied()
    assert len(backlog.told) == 2 * _CLAIMS
    backlog.take_applied()
    assert len(backlog.told) == _CLAIMS
    backlog.take_applied()
    assert (backlog.held_bytes, backlog.told) == (0, frozenset())
