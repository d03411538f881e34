"""The record of changes outside the op log never says less than what happened."""

from __future__ import annotations

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
