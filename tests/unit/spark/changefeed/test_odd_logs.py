"""Rounds of a query over logs that lack entries, are stamped wrongly or hide what changed; with feeds that
are dropped, rows that are too large, topics that are deleted: what comes out is true to the history.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import SystemRandom
from typing import Final

import pytest

from tests.simulation.feed_judge import BrokenPromise
from tests.unit.spark.driven_query import DrivenQuery
from tests.unit.spark.odd_records import Oddities
from tidegate.changefeed.definition.feed import FeedId
from tidegate.processor import log_clock
from tidegate.processor.batch import OutputRecord
from tidegate.processor.feeds import feed_control, journal
from tidegate.processor.feeds.changes_outside_log import MutationPlace, Mutations
from tidegate.processor.feeds.version_rows import PartitionRows
from tidegate.processor.log_clock import LogClock
from tidegate.raftlog.entry import Command, RangeId
from tidegate.ranges.range_state import RangeState, RangeStatus
from tidegate.spark.changefeed.task.partition_task import PartitionTask

_BATCHES: Final = 12
_TRIES: Final = 30
_FRESH: Final = SystemRandom()
_WORLDS: Final = {
    "changes in holes and backlogs": Oddities(mutate=0.5, corrupt=0.005),
    "changes while a feed comes": Oddities(mutate=0.25, hide=0.3, corrupt=0.001, takes_over=True),
    "lost Snapshots": Oddities(lose_snapshot=0.05, corrupt=0.003),
    "lost RangeEnds": Oddities(lose_end=0.3),
    "wrong times": Oddities(wrong_time=0.02, corrupt=0.003),
    "dropped feeds": Oddities(end=0.2, corrupt=0.003),
    "rows too large": Oddities(grow=0.002),
    "deleted topics": Oddities(delete=0.2),
    "index builds": Oddities(build_index=0.5, corrupt=0.003),
    "pauses of the source": Oddities(pause=0.15, corrupt=0.01, lose_answer=0.5),
    "many feeds beside": Oddities(bystanders=150, lose_end=0.1, corrupt=0.003),
}


def _hold(world: str, seed: int, directory: Path, patch: pytest.MonkeyPatch) -> DrivenQuery:
    run = DrivenQuery(seed, directory, patch, _WORLDS[world])
    try:
        run.run(_BATCHES)
    except BrokenPromise as broken:
        pytest.fail(f"DrivenQuery({seed}), {world}: {broken}")
    return run


@pytest.mark.long
@pytest.mark.parametrize(
    "world", ["changes in holes and backlogs", "changes while a feed comes", "deleted topics"]
)
def test_feeds_fail_of_which_something_is_lacking_for_good(
    world: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _hold(world, 6, tmp_path, monkeypatch).feeds.failed, "nothing happened"


@pytest.mark.long
def test_no_row_is_lost_and_no_marker_lies_for_a_fresh_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _hold(_FRESH.choice([*_WORLDS]), _FRESH.getrandbits(32), tmp_path, monkeypatch)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(50))
@pytest.mark.parametrize("world", _WORLDS)
def test_it_is_so_for_many(world: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _hold(world, seed, tmp_path, monkeypatch)


def _hidden_changes_forgotten(patch: pytest.MonkeyPatch) -> None:
    """No feed fails for what a Snapshot tells of entries that nobody could read."""
    patch.setattr(Mutations, "take_hidden", lambda _: [])


def _changes_between_epochs_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A feed that goes on here goes on, whatever has changed since the other engine had it."""
    patch.setattr(feed_control, "_changed_before", lambda *_: None)


def _changes_in_holes_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A command that says that data changed is noted while its range is in order, and else not."""
    original = Mutations.note

    def note(self: Mutations, state: RangeState, command: Command, place: MutationPlace) -> None:
        if state.status is RangeStatus.LIVE:
            original(self, state, command, place)

    patch.setattr(Mutations, "note", note)


def _gaps_of_parents_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A detached feed has everything of keys that were handed off, up to the hand-off's time."""
    patch.setattr(journal, "told_of", lambda *_: ())


def _clock_by_record(patch: pytest.MonkeyPatch) -> None:
    """Log time is the highest record time."""

    def hear(self: LogClock, range_id: RangeId, time_ms: int, closed_ms: int, *, rose: bool) -> None:
        self.time_ms = self.shown_ms = self.closed_ms = self.elapsed_ms = max(self.time_ms, time_ms)

    patch.setattr(LogClock, "hear", hear)


def _every_index_counts(patch: pytest.MonkeyPatch) -> None:
    """Keys of any index of a table are taken for keys of its rows."""
    patch.setattr(PartitionRows, "primary_keys", lambda *_: None)


def _pauses_elapse(patch: pytest.MonkeyPatch) -> None:
    """A pause of the source counts as time in which a range was silent."""
    patch.setattr(log_clock, "STEP_MS", 1 << 60)


def _refusals_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A row that was refused is left out, and its feed goes on."""

    def send(task: PartitionTask, feed_id: FeedId, rows: Sequence[OutputRecord]) -> None:
        if feed_id not in task._round.refused.get(task._partition, {}):
            deliver(task, feed_id, rows)

    deliver = PartitionTask._send
    patch.setattr(PartitionTask, "_fail_refused", lambda _: None)
    patch.setattr(PartitionTask, "_send", send)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("defect", "world"),
    [
        (_hidden_changes_forgotten, "changes in holes and backlogs"),
        (_changes_between_epochs_forgotten, "changes while a feed comes"),
        (_changes_in_holes_forgotten, "changes in holes and backlogs"),
        (_gaps_of_parents_forgotten, "lost Snapshots"),
        (_clock_by_record, "wrong times"),
        (_refusals_forgotten, "rows too large"),
        (_refusals_forgotten, "deleted topics"),
        (_every_index_counts, "index builds"),
        (_pauses_elapse, "pauses of the source"),
    ],
)
def test_it_is_found_that(
    defect: Callable[[pytest.MonkeyPatch], None], world: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    defect(monkeypatch)
    with pytest.raises(BrokenPromise):
        _try_seeds(world, tmp_path, monkeypatch)


def _try_seeds(world: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(_TRIES):
        with monkeypatch.context() as patch:
            DrivenQuery(seed, directory / str(seed), patch, _WORLDS[world]).run(_BATCHES)
