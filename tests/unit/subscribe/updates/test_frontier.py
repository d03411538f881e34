"""Markers are inclusive, frontiers exclusive, and a resume goes back by exactly one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidegate.hlc import MAX, MAX_LOGICAL, ZERO, Timestamp
from tidegate.subscribe.updates.frontier import Frontier, frontier_after, lowest_progress, resume_as_of

timestamps = st.builds(Timestamp, st.integers(0, MAX.wall - 1), st.integers(0, MAX_LOGICAL))


@given(timestamps)
def test_a_resume_at_the_frontier_of_a_marker_is_as_of_that_marker(marker: Timestamp) -> None:
    assert resume_as_of(frontier_after(marker)) == marker


def test_the_ends_of_time_saturate() -> None:
    assert resume_as_of(Frontier(ZERO)) == ZERO
    assert resume_as_of(Frontier(Timestamp(0, 1))) == ZERO
    assert frontier_after(MAX) == MAX


def test_a_frontier_carries_over_into_the_next_nanosecond() -> None:
    assert frontier_after(Timestamp(5, MAX_LOGICAL)) == Timestamp(6)
    assert resume_as_of(Frontier(Timestamp(6))) == Timestamp(5, MAX_LOGICAL)


def test_the_empty_frontier_is_above_all_others() -> None:
    assert lowest_progress([None, Frontier(Timestamp(3)), Frontier(Timestamp(2))]) == Timestamp(2)
    assert lowest_progress([None, None]) is None
