"""What a backlog counts for, what it knows of its entries, and which of them it leaves out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pytest

from tests.hand_log import at, closed
from tidegate.hlc import ZERO
from tidegate.raftlog.entry import Command, Entry, Generation, Offset, RaftIndex, RangeEnd, RangeId, Snapshot
from tidegate.ranges.backlog import Backlog, MemoryQueue, RawEntry
from tidegate.ranges.handoff import Claim
from tidegate.ranges.scan import RangeScan, ScanPart
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


# ---- what a backlog knows of its entries ----

_A_TO_Z: Final = Span(b"a", b"z")


def _of(offset: int) -> Snapshot:
    """The first chunk of generation ``offset + 1``, whose span is told by its generation."""
    return _snapshot(1 + offset)._replace(
        span=_span_of(offset), closed=closed(offset), gc_threshold=at(offset)
    )


def _span_of(offset: int) -> Span:
    return Span(b"a", b"b%03d" % offset)


def _waiting(*offsets: int) -> Backlog:
    """A backlog whose range waits at offset 0, with Snapshots of the next generations at these offsets."""
    backlog = Backlog(MemoryQueue(), _raw(0))
    backlog.wait_for(_of(0), Offset(0), 7, frozenset())
    for offset in offsets:
        backlog.append(_raw(offset), _of(offset))
    return backlog


def _scan(after: float) -> RangeScan:
    return RangeScan(RangeId(7), Offset(0), _A_TO_Z, [ScanPart(_A_TO_Z, at(after))], at(90), with_prev=False)


def test_an_entry_counts_for_its_key_and_its_value_and_some_more() -> None:
    nothing = RawEntry(1, None, None, 0).held_bytes
    assert nothing > 0
    assert RawEntry(1, b"", b"", 0).held_bytes == nothing
    assert RawEntry(1, b"key", None, 0).held_bytes == nothing + 3
    assert RawEntry(1, b"key", b"a value", 0).held_bytes == nothing + 10


def test_a_queue_gives_its_entries_in_their_order() -> None:
    queue = MemoryQueue()
    for offset in (3, 4, 5):
        queue.append(_raw(offset))
    assert (queue.first(), queue.popleft(), queue.first(), len(queue)) == (_raw(3), _raw(3), _raw(4), 2)
    queue.close()
    assert len(queue) == 0


def test_a_new_backlog_has_its_first_entry_and_waits_for_nothing() -> None:
    backlog = Backlog(MemoryQueue(), _raw(5))
    assert (backlog.held_bytes, backlog.start, backlog.parked) == (_raw(5).held_bytes, 5, False)
    assert (backlog.generation, backlog.closed, backlog.span) == (0, ZERO, None)
    assert (backlog.since_ms, backlog.asked_ms, backlog.heard_ms) == (0, 0, 0)
    assert backlog.skip_to_move() == []


def test_a_parked_range_waits_for_its_claims_until_the_wait_ends() -> None:
    backlog = _parked()
    backlog.scan = _scan(1)
    (claim,) = backlog.missing
    assert (backlog.parked, backlog.waits_at, backlog.head, claim.parent) == (True, 0, _snapshot(1), 3)
    assert (backlog.generation, backlog.closed, backlog.span) == (1, at(1), _A_TO_Z)
    backlog.clear()
    assert (backlog.parked, backlog.waits_at, len(backlog.missing)) == (False, None, 0)
    assert not backlog.scan


@pytest.mark.parametrize(
    ("entry", "moves", "closes", "span"),
    [
        (None, False, 3, 2),
        (Command(RangeId(7), Generation(3), RaftIndex(11), (), None), False, 3, 2),
        (Command(RangeId(7), Generation(3), RaftIndex(11), (), closed(9)), False, 9, 2),
        (Command(RangeId(7), Generation(3), RaftIndex(11), (), closed(2)), False, 3, 2),
        (RangeEnd(RangeId(7), Generation(3), RaftIndex(11)), True, 3, 2),
        (_of(4), True, 4, 4),
        (_of(4)._replace(generation=Generation(3)), False, 4, 4),
        (_of(4)._replace(generation=Generation(2), closed=closed(1)), False, 3, 4),
        (_of(4)._replace(chunk=1, chunks=2), False, 4, 2),
    ],
    ids=[
        "unreadable",
        "a command",
        "one that closes more",
        "one that closes less",
        "the end",
        "a next generation",
        "the same generation",
        "an old one",
        "a further chunk",
    ],
)
def test_a_backlog_knows_what_its_range_will_be_after_its_entries(
    entry: Entry | None, moves: bool, closes: float, span: int
) -> None:
    """So far: generation 3 with the span of offset 2, and second 3 is closed."""
    backlog = _waiting(2)
    backlog.append(_raw(3), Command(RangeId(7), Generation(3), RaftIndex(11), (), closed(3)))
    before = backlog.held_bytes
    backlog.append(_raw(4), entry)
    assert backlog.held_bytes == before + _raw(4).held_bytes
    assert (backlog.moved_at, backlog.closed, backlog.span) == (4 if moves else 2, at(closes), _span_of(span))
    begins = moves and isinstance(entry, Snapshot)
    assert backlog.generation == (5 if begins else 3)
    assert backlog.spans() == [_span_of(offset) for offset in ((0, 2, 4) if begins else (0, 2))]


def test_a_range_that_waits_again_has_what_its_backlog_has_behind_that_place() -> None:
    """It took the Snapshots before, and waits before the one at offset 2."""
    backlog = _waiting(1, 2, 3)
    backlog.clear()
    backlog.wait_for(_of(2), Offset(2), 9, frozenset())
    assert backlog.spans() == [_span_of(2), _span_of(3)]
    assert backlog.spans(before=Offset(3)) == [_span_of(2)]
    assert backlog.spans(before=Offset(4)) == [_span_of(2), _span_of(3)]
    assert (backlog.generation, backlog.closed, backlog.span) == (4, at(3), _span_of(3))
    assert (backlog.since_ms, backlog.waits_at) == (9, 2)


# ---- entries that are left out ----


@pytest.mark.parametrize(
    ("offsets", "kept_from", "left_out"),
    [((), 0, ()), ((3,), 3, (0,)), ((3, 5), 5, (0, 3))],
)
def test_what_is_before_the_last_change_of_the_span_is_left_out(
    offsets: Sequence[int], kept_from: int, left_out: Sequence[int]
) -> None:
    backlog = _waiting()
    for offset in range(1, 7):
        backlog.append(_raw(offset), _of(offset) if offset in offsets else None)
    assert backlog.skip_to_move() == [_span_of(offset) for offset in left_out]
    assert (backlog.start, len(backlog.queue)) == (kept_from, 7 - kept_from)
    assert backlog.held_bytes == sum(_raw(offset).held_bytes for offset in range(kept_from, 7))
    assert backlog.parked == (not left_out)


def test_of_a_range_that_waits_where_its_span_changed_last_nothing_is_left_out() -> None:
    backlog = _waiting(1, 2)
    backlog.wait_for(_of(2), Offset(2), 9, frozenset())
    assert backlog.skip_to_move() == []
    backlog.wait_for(_of(1), Offset(1), 9, frozenset())
    backlog.clear()
    assert backlog.skip_to_move() == [], "it waits for nothing"
    assert len(backlog.queue) == 3


@pytest.mark.parametrize(
    ("after", "kept_from"), [(3.9, 4), (4, 0), (None, 0)], ids=["asked for", "complete to there", "no scan"]
)
def test_a_scan_is_useless_from_where_the_store_removed_versions_that_it_asks_for(
    after: float | None, kept_from: int
) -> None:
    """Snapshots of the same generation tell of it: those at offsets 4 and 5 say the same, so 4 counts."""
    backlog = _waiting()
    backlog.scan = None if after is None else _scan(after)
    for offset, removed in ((1, 1), (4, 4), (5, 4), (6, 2)):
        told = _of(0)._replace(gc_threshold=at(removed), chunk=0)
        backlog.append(_raw(offset), told)
    assert backlog.skip_to_move() == ([_span_of(0)] if kept_from else [])
    assert backlog.start == kept_from


@pytest.mark.parametrize(("moved", "removed"), [(3, 5), (5, 3)])
def test_the_later_of_two_places_counts(moved: int, removed: int) -> None:
    backlog = _waiting()
    backlog.scan = _scan(1)
    for offset in sorted((moved, removed)):
        end = RangeEnd(RangeId(7), Generation(1), RaftIndex(11))
        backlog.append(_raw(offset), end if offset == moved else _of(0)._replace(gc_threshold=at(8)))
    assert backlog.skip_to_move() == [_span_of(0)]
    assert backlog.start == 5


def test_claims_are_still_to_be_sent_if_their_snapshot_is_left_out_and_was_not_waited_for() -> None:
    backlog = _waiting(1, 2, 3)
    for offset in range(4):
        claim = Claim(RangeId(7), RangeId(offset), RaftIndex(9), _span_of(offset))
        backlog.note_claims(Offset(offset), [claim])
    assert {claim.parent for claim in backlog.told} == {0, 1, 2, 3}
    assert backlog.skip_to_move()
    assert [claim.parent for claim in backlog.skipped] == [1, 2]
    assert {claim.parent for claim in backlog.told} == {3}
