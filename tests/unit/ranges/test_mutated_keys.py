"""The record of changes outside the op log never says less than what happened."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.hlc import MAX, Timestamp
from tidegate.ranges.mutated_keys import KEPT_MAX, MutatedKeys, dated, just_above, remember
from tidegate.spans import Span

_KEYS = st.binary(max_size=2)
_SPANS = st.tuples(_KEYS, _KEYS).filter(lambda keys: keys[0] < keys[1]).map(lambda keys: Span(*keys))
_TIMES = st.builds(Timestamp, st.integers(0, 9))
_CHANGES = st.builds(
    MutatedKeys, _SPANS, st.one_of(_TIMES, st.just(MAX)), st.one_of(_TIMES, st.just(MAX)), _TIMES
)


@given(st.lists(_CHANGES, max_size=3 * KEPT_MAX))
def test_each_change_stays_known_however_many_there_are(changes: list[MutatedKeys]) -> None:
    kept: tuple[MutatedKeys, ...] = ()
    for change in changes:
        kept = remember(kept, change)
        assert len(kept) <= KEPT_MAX
    for change in changes:
        found = [each for each in kept if each.covers(change)]
        assert found, change


@given(st.lists(_CHANGES, max_size=KEPT_MAX), _TIMES)
def test_a_time_that_is_known_takes_the_place_of_none(changes: list[MutatedKeys], time: Timestamp) -> None:
    for before, after in zip(changes, dated(changes, lambda _: time), strict=True):
        assert after == (before._replace(time=time) if before.time == MAX else before)


def test_nothing_is_above_the_highest_timestamp() -> None:
    assert just_above(Timestamp(3)) == Timestamp(3, 1)
    assert just_above(MAX) == MAX
    assert just_above(Timestamp(MAX.wall + 5)) == MAX


def _change(start: int, end: int, time: int, last: int = 5, first: int = 3) -> MutatedKeys:
    return MutatedKeys(
        Span(b"%03d" % start, b"%03d" % end), Timestamp(time), Timestamp(last), Timestamp(first)
    )


@pytest.mark.parametrize(
    ("other", "covered"),
    [
        (_change(2, 8, 7), True),
        (_change(3, 7, 6, last=4, first=4), True),
        (_change(1, 8, 7), False),
        (_change(2, 9, 7), False),
        (_change(8, 9, 7), False),
        (_change(2, 8, 8), False),
        (_change(2, 8, 7, last=6), False),
        (_change(2, 8, 7, first=2), False),
    ],
    ids=[
        "itself",
        "a part",
        "keys before",
        "keys behind",
        "other keys",
        "later",
        "a later one",
        "an earlier one",
    ],
)
def test_a_change_covers_what_has_no_other_key_time_or_version(other: MutatedKeys, covered: bool) -> None:
    assert _change(2, 8, 7).covers(other) == covered


def test_as_many_changes_as_are_kept_stay_as_they_are() -> None:
    changes = [_change(10 * number, 10 * number + 5, 50 - number) for number in range(KEPT_MAX)]
    kept: tuple[MutatedKeys, ...] = ()
    for change in reversed(changes):
        kept = remember(kept, change)
    assert kept == tuple(changes)
    assert remember(kept, changes[3]) == kept
    assert remember(kept, _change(30, 36, 90)) == (*changes[:3], _change(30, 36, 90), *changes[4:])


@pytest.mark.parametrize("place", [0, 4, KEPT_MAX - 1])
@pytest.mark.parametrize(
    ("left", "right", "both"),
    [
        ((1, 2, 7, 3), (4, 6, 8, 4), (1, 6, 4, 8, 3)),
        ((1, 6, 8, 4), (2, 4, 7, 3), (1, 6, 4, 8, 3)),
    ],
    ids=["one behind the other", "one within the other"],
)
def test_of_too_many_changes_those_two_become_one_that_feeds_have_passed_first(
    place: int,
    left: tuple[int, int, int, int],
    right: tuple[int, int, int, int],
    both: tuple[int, int, int, int, int],
) -> None:
    """The two of keys 1 to 6 in their ten have times 2 and 4. Each of their neighbours has a higher time."""

    def change(start: int, end: int, time: int, last: int, first: int) -> MutatedKeys:
        return _change(10 * place + start, 10 * place + end, time, last, first)

    others = [_change(10 * n, 10 * n + 5, 50 + n) for n in range(KEPT_MAX) if n != place]
    told = sorted([*others, change(*left[:2], 2, *left[2:]), change(*right[:2], 4, *right[2:])])
    kept: tuple[MutatedKeys, ...] = ()
    for each in told:
        kept = remember(kept, each)
    assert kept == tuple(sorted([*others, change(*both)]))
