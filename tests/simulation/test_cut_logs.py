"""No marker covers what retention removed before it was read, and every feed comes to the end."""

from __future__ import annotations

from random import SystemRandom
from typing import Final

import pytest

from tests.simulation.cut_logs import CutLogs
from tests.simulation.feed_judge import BrokenPromise

_FRESH: Final = SystemRandom()


def _hold(seed: int) -> None:
    try:
        CutLogs(seed).run()
    except BrokenPromise as broken:
        pytest.fail(f"CutLogs({seed}).run(): {broken}")


@pytest.mark.parametrize("seed", range(8))
def test_feeds_are_given_what_retention_removed(seed: int) -> None:
    _hold(seed)


@pytest.mark.parametrize("number", range(2))
def test_feeds_are_given_what_retention_removed_for_a_fresh_seed(number: int) -> None:
    _hold(_FRESH.getrandbits(32) + number)


@pytest.mark.soak
@pytest.mark.parametrize("number", range(300))
def test_feeds_are_given_what_retention_removed_for_very_many_fresh_seeds(number: int) -> None:
    _hold(_FRESH.getrandbits(32) + number)


def test_seeds_lose_records_that_were_to_be_read() -> None:
    runs = [CutLogs(seed) for seed in range(4)]
    for run in runs:
        run.run()
    assert sum(run.cuts for run in runs) >= 4
