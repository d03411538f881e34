"""A record that names no range concerns the ranges that were touched since they had such a hole."""

from __future__ import annotations

from random import Random

import pytest

from tidegate.processor.table.exposed_ranges import ExposedRanges
from tidegate.raftlog.entry import Offset, RangeId
from tidegate.ranges.range_state import RangeState


def _range(range_id: int, behind: int | None = None) -> RangeState:
    state = RangeState(RangeId(range_id))
    state.behind = None if behind is None else Offset(behind)
    return state


def _exposed(*states: RangeState) -> ExposedRanges:
    exposed = ExposedRanges()
    exposed.touched.update((state.range_id, state) for state in states)
    return exposed


def _ids(states: list[RangeState]) -> list[int]:
    return [state.range_id for state in states]


def test_a_range_is_exposed_until_it_is_taken_out_and_again_once_it_is_touched() -> None:
    first, second = _range(1), _range(2)
    exposed = _exposed(second, first)
    assert _ids(exposed.take_out()) == [1, 2]
    assert exposed.take_out() == []
    exposed.touched[second.range_id] = second
    assert _ids(exposed.take_out()) == [2]


def test_a_range_that_only_the_hole_has_touched_is_not_exposed() -> None:
    exposed = _exposed(_range(1))
    states = exposed.take_out()
    exposed.touched[states[0].range_id] = states[0]
    exposed.forget(states)
    assert exposed.take_out() == []


def test_a_record_that_is_read_again_concerns_the_ranges_that_begin_at_or_below_it() -> None:
    exposed = _exposed(_range(1, behind=5), _range(2, behind=7), _range(3), _range(4, behind=8))
    assert _ids(exposed.take_out_behind(Offset(4))) == []
    assert _ids(exposed.take_out_behind(Offset(5))) == [1]
    assert _ids(exposed.take_out_behind(Offset(7))) == [2]
    assert _ids(exposed.take_out()) == [3, 4]


def test_a_range_that_has_moved_on_meanwhile_is_looked_at_where_it_is() -> None:
    moved, caught_up = _range(1, behind=5), _range(2, behind=5)
    exposed = _exposed(moved, caught_up)
    assert _ids(exposed.take_out_behind(Offset(4))) == []
    moved.behind, caught_up.behind = Offset(9), None
    assert _ids(exposed.take_out_behind(Offset(8))) == []
    assert _ids(exposed.take_out_behind(Offset(9))) == [1]
    assert _ids(exposed.take_out()) == [2]


@pytest.mark.parametrize("seed", range(20))
def test_each_hole_takes_out_what_a_search_of_all_ranges_would(seed: int) -> None:
    print(f"seed {seed}")
    random = Random(seed)
    states = [_range(number, random.choice((None, random.randrange(60)))) for number in range(8)]
    exposed, expected = _exposed(*states), set(range(8))
    for offset in range(60):
        for state in states:
            if random.random() < 0.1:
                exposed.touched[state.range_id] = state
                expected.add(state.range_id)
            if state.behind is not None and random.random() < 0.1:
                state.behind = random.choice((None, Offset(max(state.behind, offset + 1))))
        if random.random() < 0.5:
            due = {s.range_id for s in states if s.behind is not None and s.behind <= offset} & expected
            assert _ids(exposed.take_out_behind(Offset(offset))) == sorted(due)
            expected -= due
    assert _ids(exposed.take_out()) == sorted(expected)
