"""Ranges that wait are found by what they wait for, and by nothing else."""

from __future__ import annotations

from tidegate.logcheck.lineage import Skipped
from tidegate.logcheck.waiting import WaitingRanges
from tidegate.raftlog.entry import Generation, Parent, RaftIndex, RangeId


def _parent(range_id: int, index: int, generation: int = 1) -> Parent:
    return Parent(RangeId(range_id), Generation(generation), RaftIndex(index))


def _waiting(**ranges: Parent) -> WaitingRanges:
    """Ranges by their names, such as ``r7``, in this order, a second apart."""
    waiting = WaitingRanges()
    for second, (name, parent) in enumerate(ranges.items()):
        waiting.add(RangeId(int(name[1:])), parent, 1_000 * second)
    return waiting


def test_a_parent_that_was_left_finds_its_own_children() -> None:
    waiting = _waiting(r7=_parent(1, 10), r8=_parent(1, 10), r9=_parent(1, 11), r10=_parent(2, 10))
    assert waiting.on(_parent(1, 10, generation=2)) == []
    assert waiting.on(_parent(1, 10)) == [7, 8]
    waiting.remove(RangeId(7))
    assert waiting.on(_parent(1, 10)) == [8]
    assert [*waiting.ids()] == [8, 9, 10]


def test_skipped_indexes_find_the_children_up_to_there_once() -> None:
    waiting = _waiting(r7=_parent(1, 20), r8=_parent(1, 10), r9=_parent(1, 30), r10=_parent(2, 10))
    skipped = Skipped(RangeId(1), RaftIndex(20))
    assert waiting.on(skipped) == [8, 7]
    assert waiting.on(skipped) == []
    assert waiting.on(_parent(1, 20)) == [7], "it still waits, and its parent may be left yet"
    assert waiting.on(Skipped(RangeId(1), RaftIndex(30))) == [9]


def test_a_range_that_goes_on_to_another_parent_has_waited_since_the_first() -> None:
    waiting = _waiting(r7=_parent(1, 10), r8=_parent(2, 10))
    waiting.add(RangeId(7), _parent(3, 5), 90_000)
    assert waiting.on(_parent(1, 10)) == []
    assert waiting.on(_parent(3, 5)) == [7]
    assert waiting.since(0) == [7]
    assert waiting.since(1_000) == [7, 8]
    assert len(waiting) == 2
