"""However many floors a range gets, it keeps a few, and for no key do they say less than all did."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise, product
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from tidegate.hlc import ZERO_RESOLVED, ResolvedTimestamp, Timestamp
from tidegate.ranges.floors import FLOORS_MAX, Floor, floor_at, with_floor
from tidegate.spans import Span

_POINTS: Final = 3 * FLOORS_MAX


def _floor(start: int, end: int, wall: int) -> Floor:
    return Floor(Span(start.to_bytes(2), end.to_bytes(2)), ResolvedTimestamp(Timestamp(wall)))


def _floors(points: int, walls: int, most: int) -> st.SearchStrategy[list[Floor]]:
    point = st.integers(0, points)
    floor = st.builds(_floor, point, point, st.integers(1, walls))
    return st.lists(floor.filter(lambda each: each.span.start < each.span.end), max_size=most)


def _kept(told: Iterable[Floor]) -> list[Floor]:
    floors: list[Floor] = []
    for floor in told:
        floors = with_floor(floors, floor)
        assert len(floors) <= FLOORS_MAX
    return floors


def _plain(told: Sequence[Floor], key: bytes) -> Timestamp:
    """Return what all floors together say of a key."""
    return max((floor.resolved for floor in told if floor.span.contains(key)), default=ZERO_RESOLVED)


def _said(floors: Sequence[Floor], key: bytes) -> Timestamp:
    floor = floor_at(floors, key)
    return ZERO_RESOLVED if floor is None else floor.resolved


@given(_floors(points=FLOORS_MAX - 1, walls=9, most=40))
def test_up_to_the_bound_floors_say_of_each_key_what_all_of_them_said(told: list[Floor]) -> None:
    floors = _kept(told)
    for number in range(FLOORS_MAX):
        key = number.to_bytes(2)
        assert _said(floors, key) == _plain(told, key)


@given(_floors(points=_POINTS, walls=1_000, most=4 * FLOORS_MAX))
def test_no_key_gets_a_lower_floor_than_it_had_and_none_a_higher_one_than_any_had(told: list[Floor]) -> None:
    floors = _kept(told)
    highest = max((floor.resolved for floor in told), default=ZERO_RESOLVED)
    for number in range(_POINTS):
        key = number.to_bytes(2)
        assert _plain(told, key) <= _said(floors, key) <= highest


@given(_floors(points=_POINTS, walls=1_000, most=2 * FLOORS_MAX))
def test_floors_are_disjoint_in_order_and_the_same_when_they_are_read_again(told: list[Floor]) -> None:
    floors = _kept(told)
    assert all(left.span.end <= right.span.start for left, right in pairwise(floors))
    assert _kept(floors) == floors


def test_any_three_floors_say_of_each_key_what_all_of_them_said_wherever_they_touch() -> None:
    spans = [(start, end) for end in range(1, 4) for start in range(end)]
    floors = [_floor(*span, wall) for span in spans for wall in (1, 2)]
    for told in product(floors, repeat=3):
        kept = _kept(told)
        keys = [number.to_bytes(2) for number in range(4)]
        assert [_said(kept, key) for key in keys] == [_plain(told, key) for key in keys], told
        assert all(left.span.end <= right.span.start for left, right in pairwise(kept)), told


def test_beyond_the_bound_those_two_become_one_that_change_least_by_it() -> None:
    told = [_floor(number, number + 1, 1_000 * number) for number in range(1, FLOORS_MAX + 1)]
    floors = with_floor(told, _floor(FLOORS_MAX + 1, FLOORS_MAX + 2, 1_000 * FLOORS_MAX + 1))
    assert floors == [*told[:-1], _floor(FLOORS_MAX, FLOORS_MAX + 2, 1_000 * FLOORS_MAX + 1)]


def test_keys_between_two_floors_stay_without_one_as_long_as_others_can_be_joined() -> None:
    told = [_floor(3 * number, 3 * number + 2, 10**18 + number) for number in range(FLOORS_MAX)]
    floors = with_floor(told, _floor(2, 3, 10**18 + 5_000_000_000))
    assert len(floors) == FLOORS_MAX
    assert [_said(floors, (3 * number + 2).to_bytes(2)).wall for number in range(1, 4)] == [0, 0, 0]


def test_keys_before_a_much_higher_floor_stay_without_one() -> None:
    """If the lone key were joined with the others, the keys between would rise by all that these have."""
    lone = _floor(0, 1, 1)
    told = [lone, *(_floor(2 + number, 3 + number, 1_000 + 500 * number) for number in range(FLOORS_MAX))]
    floors = _kept(told)
    assert [_said(floors, number.to_bytes(2)).wall for number in range(4)] == [1, 0, 1_500, 1_500]


def test_a_floor_of_no_keys_says_nothing() -> None:
    assert with_floor([], _floor(3, 3, 9)) == []
