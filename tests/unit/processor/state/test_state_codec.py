"""Rows of state: what a newer version wrote is told apart from what is damaged."""

from __future__ import annotations

import pytest

from tidegate.errors import StateError, StateMismatch
from tidegate.processor.state import state_pb2 as pb
from tidegate.processor.state.state_codec import range_row, read_chunk, read_range
from tidegate.processor.state.stored_frame import STATE_VERSION, WRITTEN_VERSION, pack
from tidegate.raftlog.encode import encode_key
from tidegate.raftlog.entry import Offset, RangeId
from tidegate.ranges.floors import FLOORS_MAX, floor_at

_KEY = (7).to_bytes(8, "big") + (1).to_bytes(4, "big")


def test_a_chunk_of_a_newer_version_asks_for_the_newer_worker() -> None:
    with pytest.raises(StateError, match="Run the newer worker") as refused:
        read_chunk(_KEY, bytes((STATE_VERSION + 1,)) + b"whatever that one writes")
    assert not isinstance(refused.value, StateMismatch)


def test_a_chunk_that_is_damaged_is_restored() -> None:
    with pytest.raises(StateMismatch, match="range 7 is damaged"):
        read_chunk(_KEY, bytes((WRITTEN_VERSION,)) + b"\xff")


def test_floors_of_an_earlier_version_are_read_whatever_their_number_and_however_they_lie() -> None:
    """Those shared keys, stood in the order in which they came, and had no bound."""
    row = pb.Range(start=b"a", end=b"z")
    for number in range(1_000):
        start, end = number.to_bytes(2), (number + 2).to_bytes(2)
        row.floors.add(start=start, end=end, resolved_wall=5_000 - number)
    state = read_range(encode_key(RangeId(7)), pack(row)).state
    assert len(state.floors) == FLOORS_MAX
    for floor in row.floors:
        found = floor_at(state.floors, floor.start)
        assert found is not None
        assert found.resolved.wall >= floor.resolved_wall
    _, key, value = range_row(state, Offset(3))
    assert value is not None
    assert read_range(key, value).state.floors == state.floors
