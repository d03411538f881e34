"""Whole workers whose sinks stand still; `test_worker.py` has them among all other faults."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tidegate.worker.output.barrier
from tests.simulation.forked import Simulations
from tests.simulation.plan import PROFILES, RunPlan, draw
from tests.simulation.run import Run
from tests.simulation.sinks import Trouble, TroubleKind
from tidegate.worker.output.outlet import Outlet


def test_markers_of_other_feeds_go_on_while_a_sink_stands_still(simulations: Simulations) -> None:
    done = simulations.run("--profile", "sinks", "--seed", "0", "--runs", "2")
    assert done.status == 0, done.output


@pytest.mark.slow
def test_a_worker_that_detaches_no_feed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Outlet, "_is_slow", property(lambda _: False))
    assert "while another sink stands" in str(Run(draw(0, PROFILES["sinks"])).run().faults)


def _with_errors_that_pass(seed: int) -> RunPlan:
    """A calm run whose brokers answer a request of each sink with an error, again and again."""
    plan = draw(seed, PROFILES["calm"])
    errors = tuple(Trouble(plan.seconds * part / 10, 0.0, TroubleKind.FAILS) for part in range(2, 10))
    sinks = tuple(replace(sink, troubles=errors) for sink in plan.sinks.sinks)
    return replace(plan, sinks=replace(plan.sinks, sinks=sinks))


def test_no_feed_fails_where_brokers_answer_with_errors_that_pass() -> None:
    assert Run(_with_errors_that_pass(0)).run().faults == []


@pytest.mark.slow
def test_a_worker_that_takes_such_an_error_for_a_refusal_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tidegate.worker.output.barrier, "PRODUCERS", 1)
    monkeypatch.setattr(tidegate.worker.output.barrier, "DOUBTED_FOR_S", 0.0)
    assert "had an answer like that" in str(Run(_with_errors_that_pass(0)).run().faults)


@pytest.mark.parametrize("seed", range(20))
def test_sinks_change_nothing_else_that_a_seed_draws(seed: int) -> None:
    fast = PROFILES["fast"]
    drawn, calm = draw(seed, fast), draw(seed, replace(fast, sinks=False))
    assert replace(drawn, sinks=calm.sinks) == calm


def test_profiles_draw_sinks_but_the_still_ones() -> None:
    assert {name for name, profile in PROFILES.items() if not profile.sinks} == {
        "still",
        "calm",
        "odd",
        "takeovers",
    }
