"""No marker lies where steps are committed late, feeds go on elsewhere, and partitions are read apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import SystemRandom
from typing import Final

import pytest

from tests.simulation.commits_apart import CommitsApart
from tests.simulation.feed_judge import BrokenPromise
from tidegate.hlc import NANOS_PER_SECOND
from tidegate.processor.batch import LogRecord
from tidegate.processor.catchup import gap_scans as catch_ups
from tidegate.processor.feeds import partition_feed, range_waits
from tidegate.processor.feeds.partition_feed import PartitionFeed
from tidegate.processor.moving import parking
from tidegate.processor.moving.parking import Parking
from tidegate.raftlog.entry import Offset, Snapshot
from tidegate.ranges import range_state
from tidegate.ranges.backlog import Backlog
from tidegate.ranges.handoff import Claim, HandOff
from tidegate.ranges.range_state import RangeState
from tidegate.ranges.scan import ScanPart

_FRESH: Final = SystemRandom()
_KEPT_NS: Final = 60 * NANOS_PER_SECOND


def _run(seed: int, monkeypatch: pytest.MonkeyPatch, sides: int | None = None) -> None:
    """In two runs of three ranges forget what they promised a minute ago; in one of two there are three
    partitions. Where ranges tell that they end, nobody may have to fall silent before a feed goes on."""
    with monkeypatch.context() as patch:
        if seed % 3:
            patch.setattr(range_state, "PROMISE_KEPT_NS", _KEPT_NS)
        run = CommitsApart(seed, sides, count=3 - seed % 2)
        if not run.loses_both:
            patch.setattr(catch_ups, "is_silent", lambda *_: False)
        run.run()


def _hold(seed: int, monkeypatch: pytest.MonkeyPatch, sides: int | None = None) -> None:
    try:
        _run(seed, monkeypatch, sides)
    except BrokenPromise as broken:
        pytest.fail(f"_run({seed}, sides={sides}): {broken}")


@pytest.mark.parametrize("seed", range(6))
def test_every_feed_is_given_everything_wherever_it_goes_on(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _hold(seed, monkeypatch)


@pytest.mark.parametrize("number", range(4))
def test_every_feed_is_given_everything_wherever_it_goes_on_for_a_fresh_seed(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _hold(_FRESH.getrandbits(32) + number, monkeypatch)


@pytest.mark.soak
@pytest.mark.parametrize("number", range(500))
def test_every_feed_is_given_everything_wherever_it_goes_on_for_very_many_fresh_seeds(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _hold(_FRESH.getrandbits(32) + number, monkeypatch, (None, 9, 7)[number % 3])


# ---- what it is there to find


def _left_out_answers_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that a parent gave for a Snapshot that was left out counts at the next one, for all feeds: a
    range that is asked for rows of an earlier epoch asks its parents again."""

    def counting(hand_offs: Mapping[Claim, HandOff], _: frozenset[Claim]) -> dict[Claim, HandOff]:
        return dict(hand_offs)

    monkeypatch.setattr(parking, "_counting", counting)
    monkeypatch.setattr(parking, "_head_of", lambda *_: None)
    monkeypatch.setattr(PartitionFeed, "goes_on", property(lambda _: False))


def _what_was_promised_in_earlier_epochs_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition promises rows to the child of a split, and leaves them out when it forgets the feed."""
    monkeypatch.setattr(partition_feed, "told_name", lambda feed_id, _: feed_id)


def _who_was_let_go_on_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A range that was let go on takes its Snapshot, whoever needs it by then.

    A feed of a later epoch would scan all the same, since no earlier promise counts for it.
    """
    _what_was_promised_in_earlier_epochs_counts(monkeypatch)
    clear, parks = Backlog.clear, Parking.parks
    cleared: dict[int, tuple[Backlog, Offset | None]] = {}

    def noted(self: Backlog) -> None:
        cleared[id(self)] = (self, self.waits_at)
        clear(self)

    def trusting(self: Parking, state: RangeState, head: Snapshot, record: LogRecord) -> bool:
        backlog = self._backlogs.get(state.range_id)
        if cleared.get(id(backlog)) == (backlog, record.offset):
            return False
        return parks(self, state, head, record)

    monkeypatch.setattr(Backlog, "clear", noted)
    monkeypatch.setattr(Parking, "parks", trusting)


def _parents_speak_of_keys_that_they_had_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timestamp up to which a parent in a hole is complete counts for all keys of the child."""
    original = range_waits.complete_before

    def complete_before(state: RangeState, head: Snapshot) -> list[ScanPart] | None:
        parts = original(state, head)
        return None if parts is None else [ScanPart(head.span, part.after) for part in parts]

    monkeypatch.setattr(range_waits, "complete_before", complete_before)


@pytest.mark.parametrize(
    ("defect", "seed", "sides"),
    [
        (_left_out_answers_count, 1_000_706, 7),
        (_who_was_let_go_on_is_not_asked_again, 25, None),
        (_parents_speak_of_keys_that_they_had_not, 23, None),
        (_what_was_promised_in_earlier_epochs_counts, 105, None),
    ],
)
def test_commits_that_are_late_find(
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
