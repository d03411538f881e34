"""What a range takes of its Snapshots."""

from __future__ import annotations

import pytest

from tidegate.hlc import ZERO, ZERO_CLOSED
from tidegate.raftlog.entry import Generation, Parent, RaftIndex, RangeId, Snapshot, SnapshotReason
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
