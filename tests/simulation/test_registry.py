"""Tests what is drawn of schema registries, and that runs have them; `test_worker.py` has them among all
faults."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation.plan import PROFILES, draw
from tests.simulation.registry import NO_REGISTRY
from tests.simulation.run import Run
from tidegate.changefeed.definition.options import Format

_FAST = PROFILES["fast"]


@pytest.mark.parametrize("seed", range(20))
def test_a_registry_changes_nothing_else_that_a_seed_draws(seed: int) -> None:
    drawn, without = draw(seed, _FAST), draw(seed, replace(_FAST, schemas=0.0))
    formats = tuple(
        feed._replace(options=replace(feed.options, format=Format.JSON, confluent_schema_registry=""))
        for feed in drawn.feeds
    )
    assert replace(drawn, feeds=formats, registry=NO_REGISTRY) == without


def test_about_a_third_of_the_seeds_have_feeds_with_schemas() -> None:
    schemed = [seed for seed in range(300) if any(draw(seed, _FAST).registry.feeds)]
    assert 80 < len(schemed) < 130


def test_profiles_draw_registries_but_those_where_little_goes_wrong() -> None:
    assert {name for name, profile in PROFILES.items() if not profile.schemas} == {
        "still",
        "calm",
        "odd",
        "sinks",
        "refusals",
        "strangers",
        "fail-overs",
        "takeovers",
        "changed-fail-overs",
    }


def test_feeds_with_schemas_are_written_and_ask_the_registry() -> None:
    seed = next(seed for seed in range(99) if draw(seed, PROFILES["schemas"]).registry.alterations)
    run = Run(draw(seed, PROFILES["schemas"]))
    outcome = run.run()
    assert not outcome.faults, f"seed {seed}: {outcome.faults}"
    assert outcome.rows
    versions = len(run.source.simulation.store.descriptors)
    assert run.registry.answered > 3 * versions, f"seed {seed}: key, value and markers, of each version"
