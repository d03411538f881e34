"""No row is lost, invented or out of order, and no checkpoint lies, while ranges move, break and lag."""

from __future__ import annotations

from dataclasses import replace
from random import SystemRandom
from typing import Final

import pytest

from tests.simulation.feed_judge import BrokenPromise
from tests.simulation.moving_ranges import MovingRanges, Troubles

_FRESH: Final = SystemRandom()
_QUIET: Final = Troubles(split=0.0, merge=0.0, corrupt=0.0, restart=0.0, lose_request=0.0, repeat_request=0.0)


def _hold(seed: int, troubles: Troubles, turns: int = 60) -> MovingRanges:
    run = MovingRanges(seed, troubles)
    try:
        run.run(turns)
    except BrokenPromise as broken:
        pytest.fail(f"MovingRanges({seed}, {troubles}).run({turns}): {broken}")
    return run


@pytest.mark.parametrize("seed", range(2))
def test_ranges_that_split_and_merge_keep_the_promise(seed: int) -> None:
    _hold(seed, Troubles(split=0.2, merge=0.15, corrupt=0.0, restart=0.0, lose_request=0.0))


@pytest.mark.parametrize("seed", range(2))
def test_processors_that_die_keep_the_promise(seed: int) -> None:
    _hold(seed, Troubles(corrupt=0.0, restart=0.2, lose_request=0.0))


@pytest.mark.parametrize("seed", range(2))
def test_holes_heal_and_keep_the_promise(seed: int) -> None:
    _hold(seed, Troubles(corrupt=0.05))


@pytest.mark.parametrize("seed", range(2))
def test_index_builds_end_no_feed(seed: int) -> None:
    _hold(seed, Troubles(build_index=0.2, feeds=2), turns=40)


@pytest.mark.parametrize("number", range(2))
def test_everything_at_once_keeps_the_promise_for_a_fresh_seed(number: int) -> None:
    _hold(_FRESH.getrandbits(32) + number, Troubles())


@pytest.mark.parametrize("seed", range(2))
def test_feeds_that_begin_anywhere_are_given_everything_once_and_in_order(seed: int) -> None:
    _hold(seed, replace(_QUIET, feeds=4), turns=40)


@pytest.mark.parametrize("seed", range(2))
def test_feeds_lag_through_splits_merges_and_crashes(seed: int) -> None:
    _hold(seed, replace(_QUIET, split=0.2, merge=0.15, restart=0.1, feeds=3), turns=40)


@pytest.mark.parametrize("seed", range(2))
def test_answers_to_scans_that_are_lost_late_or_lack_parts_are_asked_for_again(seed: int) -> None:
    _hold(seed, replace(_QUIET, lose_request=0.3, repeat_request=0.3, lose_chunk=0.2, feeds=3), turns=40)


def test_a_feed_that_the_store_overtakes_fails_and_no_other() -> None:
    run = _hold(1, Troubles(corrupt=0.0, leap=0.02, feeds=4, collect_ms=2_000), turns=40)
    assert {bool(feed.failed) for feed in run.feeds.values()} == {False, True}


@pytest.mark.parametrize("number", range(2))
def test_feeds_lag_through_everything_for_a_fresh_seed(number: int) -> None:
    _hold(_FRESH.getrandbits(32) + number, Troubles(lose_chunk=0.05, feeds=4), turns=40)


@pytest.mark.parametrize("seed", range(3))
def test_sinks_stand_still_through_splits_merges_and_crashes(seed: int) -> None:
    _hold(seed, replace(_QUIET, split=0.2, merge=0.15, restart=0.1, stand_still=0.6, feeds=1), turns=40)


@pytest.mark.parametrize("number", range(2))
def test_sinks_stand_still_through_everything_for_a_fresh_seed(number: int) -> None:
    _hold(_FRESH.getrandbits(32) + number, Troubles(lose_chunk=0.05, stand_still=0.4, feeds=2), turns=30)
