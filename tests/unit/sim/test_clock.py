"""Clocks of simulated nodes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sim.clock import HybridClock, Present
from tidegate.hlc import Timestamp

_NOW = 1_000_000


@given(st.lists(st.integers(0, 50) | st.builds(Timestamp, st.integers(0, _NOW), st.integers(0, 5))))
def test_readings_rise_and_stay_above_what_was_observed(steps: list[int | Timestamp]) -> None:
    present = Present(_NOW)
    clock = HybridClock(present, behind_ns=20)
    last = Timestamp(0)
    for step in steps:
        if isinstance(step, Timestamp):
            clock.observe(step)
            last = max(last, step)
        else:
            present.move_to(present.ns + step)
        reading = clock.now()
        assert reading > last
        last = reading


@given(st.integers(0, 100), st.lists(st.integers(0, 50)))
def test_no_reading_is_ahead_of_the_present(behind_ns: int, steps: list[int]) -> None:
    present = Present(_NOW)
    clock = HybridClock(present, behind_ns)
    for step in steps:
        present.move_to(present.ns + step)
        assert clock.now().wall <= present.ns


def test_a_skewed_clock_is_behind_by_its_skew() -> None:
    assert HybridClock(Present(_NOW), behind_ns=30).now() == Timestamp(_NOW - 30)


def test_the_present_never_moves_back() -> None:
    present = Present(_NOW)
    present.move_to(_NOW - 1)
    assert present.ns == _NOW
