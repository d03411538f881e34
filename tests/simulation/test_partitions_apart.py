"""No marker lies, and every feed comes to the end, however far apart the partitions of a log are read."""

from __future__ import annotations

from collections.abc import Callable
from random import SystemRandom
from typing import Final

import pytest

from tests.simulation.feed_judge import BrokenPromise
from tests.simulation.partitions_apart import PartitionsApart
from tidegate.hlc import NANOS_PER_SECOND
from tidegate.processor.catchup import gap_scans as catch_ups
from tidegate.processor.moving import exchange
from tidegate.processor.table.partition_backlogs import Backlogs
from tidegate.raftlog.entry import RangeId
from tidegate.ranges import claim_answer, range_snapshot, range_state
from tidegate.ranges.handoff import Claim, Promise
from tidegate.ranges.range_state import RangeState

_FRESH: Final = SystemRandom()
_KEPT_NS: Final = 60 * NANOS_PER_SECOND


def _run(seed: int, monkeypatch: pytest.MonkeyPatch, sides: int | None = None) -> None:
    """In every second run ranges forget what they promised a minute ago. Where ranges tell that they end,
    nobody may have to fall silent before a feed goes on."""
    if seed % 2:
        monkeypatch.setattr(range_state, "PROMISE_KEPT_NS", _KEPT_NS)
    run = PartitionsApart(seed, sides)
    if not run.loses_both:
        monkeypatch.setattr(catch_ups, "is_silent", lambda *_: False)
    run.run()


def _hold(seed: int, monkeypatch: pytest.MonkeyPatch, sides: int | None = None) -> None:
    try:
        _run(seed, monkeypatch, sides)
    except BrokenPromise as broken:
        pytest.fail(
            f"PartitionsApart({seed}, {sides}).run(), promises kept for a minute: {seed % 2 == 1}: {broken}"
        )


@pytest.mark.parametrize("seed", range(10))
def test_every_feed_is_given_everything_and_comes_to_the_end(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _hold(seed, monkeypatch)


@pytest.mark.parametrize("number", range(4))
def test_every_feed_is_given_everything_for_a_fresh_seed(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _hold(_FRESH.getrandbits(32) + number, monkeypatch)


@pytest.mark.soak
@pytest.mark.parametrize("number", range(500))
def test_every_feed_is_given_everything_for_very_many_fresh_seeds(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _hold(_FRESH.getrandbits(32) + number, monkeypatch)


# ---- what it is there to find


def _skipped_claims_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims of Snapshots that a backlog left out are forgotten with it, when it is applied in one go."""
    original = Backlogs.drop

    def drop(self: Backlogs, range_id: RangeId) -> None:
        self[range_id].skipped = []
        original(self, range_id)

    monkeypatch.setattr(Backlogs, "drop", drop)


def _forgotten_promises_are_made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim whose promise is forgotten is answered by what the range is now, whichever keys it has left."""

    def promised(state: RangeState, claim: Claim) -> Promise:
        for promise in reversed(state.promises):
            if promise.at == claim.last_index:
                return promise
        return state.promise_of_now()

    monkeypatch.setattr(claim_answer, "_promised", promised)


def _answered_claims_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A range in a hole forgets who claimed it once it has answered."""
    monkeypatch.setattr(exchange, "remember", lambda *_: None)


def _new_keys_need_no_parents(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Snapshot may bring keys of which it does not say where they come from."""
    monkeypatch.setattr(range_snapshot, "_has_new_keys", lambda *_: False)


def _merged_keys_are_not_spoken_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """A range that is merged away right behind its own merge tells only of what it had before."""
    monkeypatch.setattr(claim_answer, "_is_about", lambda *_: True)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("defect", "seed", "sides"),
    [
        (_skipped_claims_are_dropped, 5_512, 7),
        (_forgotten_promises_are_made_up, 183, 13),
        (_answered_claims_are_forgotten, 88, 13),
        (_new_keys_need_no_parents, 300_344, 9),
        (_merged_keys_are_not_spoken_of, 100_165, None),
        (_merged_keys_are_not_spoken_of, 501_232, 7),
    ],
)
def test_partitions_that_are_read_apart_find(
    defect: Callable[[pytest.MonkeyPatch], None],
    seed: int,
    sides: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of them was in the code once; the seed is one that finds it."""
    _hold(seed, monkeypatch, sides)
    defect(monkeypatch)
    with pytest.raises(BrokenPromise):
        _run(seed, monkeypatch, sides)
