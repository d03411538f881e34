"""Tests what a range takes of its Snapshots."""

from __future__ import annotations

import pytest

from tests.hand_log import at, closed, txn
from tidegate.errors import GenerationError, RangeError
from tidegate.hlc import ZERO, ZERO_CLOSED, ZERO_RESOLVED, ResolvedTimestamp
from tidegate.raftlog.entry import (
    NEVER_MUTATED,
    Command,
    Generation,
    HistoryMutation,
    Offset,
    OpenIntent,
    Parent,
    RaftIndex,
    RangeId,
    Snapshot,
    SnapshotReason,
    Trigger,
)
from tidegate.ranges.accounted import Accounted
from tidegate.ranges.floors import Floor
from tidegate.ranges.handoff import Claim, HandOff
from tidegate.ranges.range_log import apply_entry
from tidegate.ranges.range_snapshot import take_snapshot_chunk
from tidegate.ranges.range_state import RangeState
from tidegate.ranges.scan import RangeScan
from tidegate.spans import Span

_PARENT = RangeId(3)


def _seen_by(index: int, *parents: RangeId) -> RangeState:
    """A range that is first seen by a Snapshot at this index."""
    state = RangeState(RangeId(7))
    take_snapshot_chunk(
        state,
        Snapshot(
            RangeId(7),
            Generation(2),
            RaftIndex(index),
            Span(b"a", b"b"),
            ZERO_CLOSED,
            high=ZERO,
            gc_threshold=ZERO,
            parents=tuple(Parent(each, Generation(1), RaftIndex(9)) for each in parents),
            reason=SnapshotReason.SPLIT,
        ),
    )
    return state


@pytest.mark.parametrize(("index", "unseen"), [(0, 0), (1, 0), (2, 1), (10, 9)])
def test_a_range_that_is_born_at_an_index_has_not_split_there(index: int, unseen: int) -> None:
    assert _seen_by(index, _PARENT).unseen == unseen


@pytest.mark.parametrize("index", [0, 1, 10])
@pytest.mark.parametrize("parents", [(), (RangeId(7),), (RangeId(7), _PARENT)])
def test_a_range_that_was_there_before_may_have(index: int, parents: tuple[RangeId, ...]) -> None:
    assert _seen_by(index, *parents).unseen == index


_LEFT, _WHOLE = Span(b"a", b"b"), Span(b"a", b"c")


def _merging() -> RangeState:
    """A range of the keys ``_LEFT`` that has just taken over its right neighbour."""
    state = RangeState(RangeId(7))
    begin = Snapshot(RangeId(7), Generation(1), RaftIndex(10), _LEFT, closed(1), ZERO, ZERO)
    take_snapshot_chunk(state, begin)
    apply_entry(state, Command(RangeId(7), Generation(1), RaftIndex(11), (), closed(2), Trigger.MERGE))
    return state


@pytest.mark.parametrize("chunks", [1, 2])
def test_a_snapshot_that_breaks_in_its_intents_changes_nothing(chunks: int) -> None:
    """Otherwise the range would have its new keys without all that is missing of them."""
    state = _merging()
    kept = [name for name in RangeState.__slots__ if name != "chunks"]
    before = {name: getattr(state, name) for name in kept}
    undated = (OpenIntent(txn(1), b"anchor", b"b", ZERO),)
    parents = (Parent(RangeId(7), Generation(1), RaftIndex(11)), Parent(_PARENT, Generation(1), RaftIndex(9)))
    whole = Snapshot(
        RangeId(7),
        Generation(2),
        RaftIndex(11),
        _WHOLE,
        closed(2),
        at(3),
        at(1),
        parents=parents,
        chunks=chunks,
    )
    heads = [whole._replace(chunk=number) for number in range(chunks)]
    for chunk in heads[:-1]:
        take_snapshot_chunk(state, chunk)
    with pytest.raises(RangeError, match="an intent at"):
        take_snapshot_chunk(state, heads[-1]._replace(intents=undated))
    assert {name: getattr(state, name) for name in kept} == before
    assert state.chunks == []


def test_a_snapshot_of_a_store_that_began_anew_is_not_an_old_one() -> None:
    """An old one closes no more than the range has closed since."""
    state = RangeState(RangeId(7))
    first = Snapshot(RangeId(7), Generation(1), RaftIndex(10), _LEFT, closed(1), at(1), at(0))
    take_snapshot_chunk(state, first)
    apply_entry(state, Command(RangeId(7), Generation(1), RaftIndex(11), (), closed(20)))
    for old in (
        first,
        first._replace(closed=closed(20)),
        first._replace(generation=Generation(0), closed=closed(90)),
    ):
        take_snapshot_chunk(state, old)
    assert (state.applied, state.resolver.closed) == (11, closed(20))
    with pytest.raises(GenerationError, match="the store began anew"):
        take_snapshot_chunk(state, first._replace(closed=closed(21)))


def _first_of(state: RangeState) -> Snapshot:
    """The Snapshot, of the keys ``_LEFT``, with which a range begins or goes on in the next generation."""
    generation = Generation(state.generation + 1)
    index = RaftIndex(state.applied or 10)
    return Snapshot(state.range_id, generation, index, _LEFT, closed(5), at(4), at(3))


def _split() -> RangeState:
    """A range that has just split: its next generation has not begun."""
    state = RangeState(RangeId(7))
    take_snapshot_chunk(state, _first_of(state))
    apply_entry(state, Command(RangeId(7), Generation(1), RaftIndex(11), (), closed(6), Trigger.SPLIT))
    return state


def test_after_a_split_a_snapshot_of_the_same_generation_is_refused() -> None:
    """It does not say what is left of the range."""
    state = _split()
    old = _first_of(state)._replace(generation=state.generation)
    with pytest.raises(GenerationError, match="no new generation after a split or merge"):
        take_snapshot_chunk(state, old)
    assert (state.awaits_snapshot, state.snapshots_taken) == (True, 1)


@pytest.mark.parametrize(("high", "gc_threshold"), [(2, 1), (4, 3), (9, 8)])
def test_what_is_the_highest_and_what_is_removed_never_falls(high: float, gc_threshold: float) -> None:
    state = _split()
    assert (state.high, state.gc_threshold) == (at(4), at(3))
    chunk = _first_of(state)._replace(high=at(high), gc_threshold=at(gc_threshold))
    take_snapshot_chunk(state, chunk)
    assert (state.high, state.gc_threshold) == (max(at(4), at(high)), max(at(3), at(gc_threshold)))
    for later in (2, 7, 10):  # periodic ones, which tell only that more was removed
        before = state.gc_threshold
        take_snapshot_chunk(state, chunk._replace(high=at(90), gc_threshold=at(later)))
        assert state.gc_threshold == max(before, at(later))
    assert state.high == max(at(4), at(high))


@pytest.mark.parametrize("told", [HistoryMutation(RaftIndex(9), at(4)), NEVER_MUTATED, None])
def test_a_snapshot_says_which_history_mutations_are_accounted_for(told: HistoryMutation | None) -> None:
    """What was known of the keys that the range had before says nothing about those that it has now."""
    state = _split()
    state.accounted = Accounted(
        RaftIndex(2), RaftIndex(3), Span(b"a", b"aa"), at(90), Offset(8), RaftIndex(1)
    )
    take_snapshot_chunk(state, _first_of(state)._replace(last_mutation=told))
    time = ZERO if told is None else told.time
    assert state.accounted == Accounted(RaftIndex(2), RaftIndex(3), None, time, Offset(8), RaftIndex(1))


_RIGHT = Span(b"b", b"c")


@pytest.mark.parametrize(
    ("handed_off", "resolved", "floors"),
    [
        (_WHOLE, 4, [Floor(_LEFT, ResolvedTimestamp(at(4)))]),
        (_RIGHT, 4, []),
        (None, 4, []),
        (_WHOLE, None, []),
    ],
    ids=["its keys", "keys that it does not have", "keys that are not known", "nothing resolved"],
)
def test_a_range_keeps_as_a_floor_what_its_parent_had_resolved_of_its_keys(
    handed_off: Span | None, resolved: float | None, floors: list[Floor]
) -> None:
    state = _told_by_parent(
        handed_off, ZERO_RESOLVED if resolved is None else ResolvedTimestamp(at(resolved))
    )
    take_snapshot_chunk(state, _first_of(state))
    assert (state.floors, state.hand_offs, state.scan) == (floors, {}, None)


def _told_by_parent(span: Span | None, resolved: ResolvedTimestamp) -> RangeState:
    """A range that has a hand-off, and whose scan is done."""
    state = RangeState(RangeId(7))
    claim = Claim(RangeId(7), _PARENT, RaftIndex(9), _LEFT)
    state.hand_offs = {claim: HandOff(claim, resolved, complete=True, span=span)}
    state.scan = RangeScan(RangeId(7), Offset(1), _LEFT, [], at(4), with_prev=False)
    return state


def test_every_snapshot_that_is_taken_counts_once() -> None:
    """What began before one is over: it asks whether any was taken since."""
    state = _split()
    chunks = [_first_of(state)._replace(chunk=number, chunks=2) for number in range(2)]
    seen = []
    for chunk in (*chunks, chunks[0]._replace(chunks=1)):
        take_snapshot_chunk(state, chunk)
        seen.append(state.snapshots_taken)
    assert seen == [1, 2, 2]


@pytest.mark.parametrize("seconds", [(5, 5), (5, 7), (7, 5)])
def test_a_range_is_closed_as_far_as_any_chunk_says(seconds: tuple[float, float]) -> None:
    """They say the same. What one of them has promised holds in any case."""
    state = RangeState(RangeId(7))
    for number, closes in enumerate(seconds):
        take_snapshot_chunk(state, _first_of(state)._replace(closed=closed(closes), chunk=number, chunks=2))
    assert state.resolved == at(max(seconds))
