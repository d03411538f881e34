"""The messages between ranges: claims, hand-offs and holes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidegate.hlc import ZERO_RESOLVED, ResolvedTimestamp, Timestamp
from tidegate.raftlog.entry import RaftIndex, RangeId
from tidegate.ranges.handoff import Claim, HandOff, Hole, bounded, receiver_of
from tidegate.spans import Span

_CLAIM = Claim(RangeId(8), RangeId(7), RaftIndex(11), Span(b"a", b"c"))


@pytest.mark.parametrize(
    ("own", "before", "told"),
    [
        (300, (), 300),
        (0, (), 0),
        (300, (200, 400), 200),
        (300, (0, 400), 300),
        (0, (400, 200), 200),
        (0, (0,), 0),
    ],
)
def test_a_claim_was_made_at_the_earliest_time_that_any_of_its_messages_tells(
    own: int, before: tuple[int, ...], told: int
) -> None:
    """A time of 0 is not known. Other claims say nothing about this one."""
    other = replace(_CLAIM, last_index=RaftIndex(10), told_ms=100)
    claim = replace(_CLAIM, told_ms=own).told_first([other, *(replace(_CLAIM, told_ms=ms) for ms in before)])
    assert (claim, claim.told_ms) == (_CLAIM, told)


def test_a_claim_is_for_the_parent_and_its_answer_for_the_child() -> None:
    assert receiver_of(_CLAIM) == 7
    assert receiver_of(HandOff(_CLAIM, ZERO_RESOLVED, complete=True)) == 8


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65])
def test_of_too_many_holes_the_first_two_become_one_of_which_nothing_is_known(count: int) -> None:
    resolved = ResolvedTimestamp(Timestamp(9))
    holes = [
        Hole(RaftIndex(10 * number), RaftIndex(10 * number + 5), Span(b"a", b"c"), resolved, ())
        for number in range(count)
    ]
    expected = holes if count <= 64 else [Hole(RaftIndex(0), RaftIndex(15), None, ZERO_RESOLVED), *holes[2:]]
    assert bounded(holes) == expected
