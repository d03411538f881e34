"""Tests what is drawn of workers that stop, and how they end; `test_worker.py` has them among all faults."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.simulation.plan import PROFILES, draw
from tests.simulation.run import Run
from tests.simulation.stops import Amid, PlannedStop

_FAST = PROFILES["fast"]


@pytest.mark.parametrize("seed", range(20))
def test_stops_change_nothing_else_that_a_seed_draws(seed: int) -> None:
    assert replace(draw(seed, _FAST), stops=()) == draw(seed, replace(_FAST, stops=0.0))


def test_about_a_quarter_of_the_seeds_have_workers_that_stop() -> None:
    assert 50 < sum(bool(draw(seed, _FAST).stops) for seed in range(300)) < 100


@pytest.mark.parametrize("amid", Amid)
def test_all_workers_that_are_told_to_stop_end_with_status_0_and_the_next_ones_go_on(amid: Amid) -> None:
    """Nothing else goes wrong: no drain takes too long, and nobody dies."""
    stops = tuple(PlannedStop(at, amid, 0.02, True, None) for at in (2.0, 6.0))
    plan = replace(draw(3, PROFILES["calm"]), stops=stops)
    lines: list[str] = []
    outcome = Run(plan, lines.append).run()
    assert not outcome.faults, f"seed {plan.seed}: {outcome.faults}"
    assert outcome.rows
    told = [line for line in lines if "is told to stop" in line]
    gone = [line for line in lines if re.search(r"is gone: \(None, 0\)", line)]
    assert len(told) == len(gone) == 2 * plan.workers, f"seed {plan.seed}: {told}, {gone}"
