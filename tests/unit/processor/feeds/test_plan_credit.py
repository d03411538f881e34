"""New plans of kernels cost no more than the log has earned."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidegate.processor.feeds.plan_credit import PlanCredit


@given(st.lists(st.integers(0, 4_000) | st.integers(-1_000_000, -1), max_size=60))
def test_what_is_planned_is_free_or_earned(acts: list[int]) -> None:
    """Numbers below zero are bytes of the log, others are lanes that a plan would have."""
    credit, planned, earned = PlanCredit(), 0, 0
    for act in acts:
        if act < 0:
            credit.earn(-act)
            earned -= act
        elif credit.pays(act):
            planned += act
        assert planned <= 2_000 + earned / 2_048


def test_any_plan_is_earned_in_the_end() -> None:
    credit = PlanCredit()
    assert not credit.pays(50_000)
    for _ in range(100):
        credit.earn(1 << 20)
    assert credit.pays(50_000)
    assert not credit.pays(50_000)


def test_a_plan_that_the_log_did_not_ask_for_makes_the_next_one_free() -> None:
    credit = PlanCredit()
    credit.grant(3_000)
    assert credit.pays(3_000)
    assert not credit.pays(1)


def test_credit_for_two_of_the_largest_plans_can_be_saved_up() -> None:
    granted, asked = PlanCredit(), PlanCredit()
    granted.grant(5_000)
    assert not asked.pays(5_000)
    for credit in (granted, asked):
        credit.earn(1 << 40)
        assert not credit.pays(10_001)
        assert credit.pays(10_000)
    small = PlanCredit()
    small.grant(10)
    small.earn(1 << 40)
    assert not small.pays(2_001)
    assert small.pays(2_000)
