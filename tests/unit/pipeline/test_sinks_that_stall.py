"""Sinks stall, drivers die, tasks run twice: no row is lost, and no marker lies (docs/spark.md, S1 to S4)."""

from __future__ import annotations

from pathlib import Path
from random import SystemRandom
from typing import Final

import pytest

from tests.simulation.feed_judge import BrokenPromise
from tests.unit.pipeline.driven_query import DrivenQuery

_FRESH: Final = SystemRandom()
_BATCHES: Final = 30


def _hold(seed: int, directory: Path, patch: pytest.MonkeyPatch) -> DrivenQuery:
    run = DrivenQuery(seed, directory, patch)
    try:
        run.run(_BATCHES)
    except BrokenPromise as broken:
        pytest.fail(f"DrivenQuery({seed}).run({_BATCHES}): {broken}")
    return run


@pytest.mark.parametrize("seed", range(3))
def test_a_feed_whose_sink_stalls_is_given_everything_in_order(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = _hold(seed, tmp_path, monkeypatch)
    assert min(run.stalls, run.deaths, run.hand_offs) > 0, "nothing happened"


def test_it_is_for_a_fresh_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _hold(_FRESH.getrandbits(32), tmp_path, monkeypatch)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1_000, 1_100))
def test_it_is_for_many(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _hold(seed, tmp_path, monkeypatch)
