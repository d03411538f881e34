"""Rounds of a query whose steps break: what comes out is true to the history, and the query goes on."""

from __future__ import annotations

from pathlib import Path
from random import SystemRandom
from typing import Final

import pytest

from tests.breaking_steps import SomeOffsets, broken_by_commands
from tests.simulation.feed_judge import BrokenPromise
from tests.unit.spark.driven_query import DrivenQuery

_BATCHES: Final = 12
_SHARE: Final = 0.004
_FRESH: Final = SystemRandom()


def _hold(seed: int, directory: Path, patch: pytest.MonkeyPatch) -> None:
    run = DrivenQuery(seed, directory, patch)
    with broken_by_commands(SomeOffsets(seed, _SHARE)):
        try:
            run.run(_BATCHES)
        except BrokenPromise as broken:
            pytest.fail(f"DrivenQuery({seed}): {broken}")
    assert not run.feeds.failed


@pytest.mark.long
def test_no_row_is_lost_and_no_marker_lies_for_a_fresh_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _hold(_FRESH.getrandbits(32), tmp_path, monkeypatch)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(50))
def test_it_is_so_for_many(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _hold(seed, tmp_path, monkeypatch)
