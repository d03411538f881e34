"""No row is lost, invented or out of order, and no checkpoint lies, while ranges move, break and lag."""

from __future__ import annotations

from random import SystemRandom
from typing import Final

import pytest

from tests.simulation.feed_judge import BrokenPromise
from tests.simulation.moving_ranges import MovingRanges, Troubles

_FRESH: Final = SystemRandom()
_QUIET: Final = Troubles(split=0.0, merge=0.0, corrupt=0.0, restart=0.0, lose_request=0.0)


def _hold(seed: int, troubles: Troubles, turns: int = 60) -> None:
    try:
        MovingRanges(seed, troubles).run(turns)
    except BrokenPromise as broken:
        pytest.fail(f"MovingRanges({seed}, {troubles}).run({turns}): {broken}")


@pytest.mark.parametrize("seed", range(2))
def test_ranges_that_split_and_merge_keep_the_promise(seed: int) -> None:
    _hold(seed, Troubles(split=0.2, merge=0.15, corrupt=0.0, restart=0.0, lose_request=0.0))


@pytest.mark.parametrize("seed", range(2))
def test_processors_that_die_keep_the_promise(seed: int) -> None:
    _hold(seed, Troubles(corrupt=0.0, restart=0.2, lose_request=0.0))


@pytest.mark.parametrize("seed", range(2))
def test_holes_heal_and_keep_the_promise(seed: int) -> None:
    _hold(seed, Troubles(corrupt=0.05))


@pytest.mark.parametrize("number", range(2))
def test_everything_at_once_keeps_the_promise_for_a_fresh_seed(number: int) -> None:
    _hold(_FRESH.getrandbits(32) + number, Troubles())
