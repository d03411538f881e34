"""A record that breaks a worker's step in a simulation is in its directory afterwards, as the log has it."""

from __future__ import annotations

from itertools import count

import pytest

from tests.simulation.plan import PROFILES, draw
from tests.simulation.run import Run


@pytest.mark.slow
def test_a_record_that_broke_steps_of_workers_is_kept_aside() -> None:
    """The first seeds whose log has such records; which run meets one alone is a matter of its faults."""
    plans = (draw(seed, PROFILES["odd"]) for seed in count())
    breaking = (plan for plan in plans if plan.odd.breaking)
    for _ in range(10):
        outcome = Run(next(breaking)).run()
        assert outcome.faults == []
        if outcome.kept:
            return
    pytest.fail("ten runs have kept no record aside")
