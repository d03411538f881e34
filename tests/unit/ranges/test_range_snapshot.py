"""Tests what a range takes of its Snapshots."""

from __future__ import annotations

import pytest

from tests.hand_log import at, closed, txn
from tidegate.errors import GenerationError, RangeError
from tidegate.hlc import ZERO, ZERO_CLOSED
from tidegate.raftlog.entry import (
    Command,
    Generation,
    OpenIntent,
    Parent,
    RaftIndex,
    RangeId,
    Snapshot,
    SnapshotReason,
    Trigger,
)
from tidegate.ranges.range_log import apply_entry
from tidegate.ranges.range_snapshot import take_snapshot_chunk
from tidegate.ranges.range_state import RangeState
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
