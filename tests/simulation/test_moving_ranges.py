"""No row is lost, invented or out of order, and no checkpoint lies, while ranges move, break, have gaps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from random import SystemRandom
from typing import Any, Final

import pytest

from tests.simulation.feed_course import FeedCourse
from tests.simulation.feed_judge import BrokenPromise
from tests.simulation.moving_ranges import MovingRanges, Troubles
from tests.simulation.standing_sinks import REFUSED
from tidegate.errors import ForbiddenOp
from tidegate.hlc import ZERO
from tidegate.processor import log_clock
from tidegate.processor.feeds.changes_outside_log import MutationPlace, Mutations
from tidegate.processor.feeds.feed_table import PartitionFeeds
from tidegate.processor.feeds.served_feeds import ServedFeeds
from tidegate.processor.log_clock import LogClock
from tidegate.processor.moving import exchange, parking, range_entries
from tidegate.processor.processor import PartitionProcessor
from tidegate.processor.processor_state import ProcessorState
from tidegate.processor.push_policy import Pusher
from tidegate.processor.state.row_pieces import RowPieces
from tidegate.raftlog import decode
from tidegate.raftlog.entry import Command, RangeId, Snapshot
from tidegate.ranges import range_log, range_snapshot, range_state, scan
from tidegate.ranges.claim_answer import answer_claim
from tidegate.ranges.gap import ToldGaps
from tidegate.ranges.handoff import Claim, Exchange, HandOff
from tidegate.ranges.range_log import VersionHorizon
from tidegate.ranges.range_state import RangeState
from tidegate.ranges.version import Version

_RUNS: Final = 60
#: Of each kind of trouble: one seed in `make test`, ten in `make soak`.
_SEEDS: Final = (0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 10)))
_FRESH: Final = SystemRandom()
_AHEAD: Final = Troubles(ahead_ms=1_500, leap=0.1, feeds=2)
_QUIET: Final = Troubles(split=0.0, merge=0.0, corrupt=0.0, restart=0.0, lose_request=0.0, repeat_request=0.0)
_CHANGED: Final = Troubles(mutate=0.2, feeds=3)


def _hold(seed: int, troubles: Troubles, turns: int = 60) -> MovingRanges:
    run = MovingRanges(seed, troubles)
    try:
        run.run(turns)
    except BrokenPromise as broken:
        pytest.fail(f"MovingRanges({seed}, {troubles}).run({turns}): {broken}")
    return run


@pytest.mark.parametrize("seed", _SEEDS)
def test_ranges_that_split_and_merge_keep_the_promise(seed: int) -> None:
    _hold(seed, Troubles(split=0.2, merge=0.15, corrupt=0.0, restart=0.0, lose_request=0.0))


@pytest.mark.parametrize("seed", _SEEDS)
def test_processors_that_die_keep_the_promise(seed: int) -> None:
    _hold(seed, Troubles(corrupt=0.0, restart=0.2, lose_request=0.0))


@pytest.mark.parametrize("seed", _SEEDS)
def test_holes_heal_and_keep_the_promise(seed: int) -> None:
    _hold(seed, Troubles(corrupt=0.05))


@pytest.mark.parametrize("seed", _SEEDS)
def test_index_builds_end_no_feed(seed: int) -> None:
    _hold(seed, Troubles(build_index=0.2, feeds=2), turns=40)


@pytest.mark.parametrize("seed", _SEEDS)
def test_a_source_that_closes_ahead_is_read_like_any_other_and_asked_for_nothing_of_its_future(
    seed: int,
) -> None:
    _hold(seed, replace(_AHEAD, ahead_ms=(300, 1_500)[seed % 2], corrupt=0.03), turns=40)


@pytest.mark.parametrize("number", _SEEDS)
def test_everything_at_once_keeps_the_promise_for_a_fresh_seed(number: int) -> None:
    _hold(_FRESH.getrandbits(32) + number, Troubles())


@pytest.mark.parametrize("seed", _SEEDS)
def test_feeds_that_begin_anywhere_are_given_everything_once_and_in_order(seed: int) -> None:
    _hold(seed, replace(_QUIET, feeds=4), turns=40)


@pytest.mark.parametrize("seed", _SEEDS)
def test_feeds_lag_through_splits_merges_and_crashes(seed: int) -> None:
    _hold(seed, replace(_QUIET, split=0.2, merge=0.15, restart=0.1, feeds=3), turns=40)


@pytest.mark.parametrize("seed", _SEEDS)
def test_answers_to_scans_that_are_lost_late_or_lack_parts_are_asked_for_again(seed: int) -> None:
    _hold(seed, replace(_QUIET, lose_request=0.3, repeat_request=0.3, lose_chunk=0.2, feeds=3), turns=40)


_SPOILED: Final = replace(_QUIET, split=0.1, merge=0.1, spoil_chunk=0.5, feeds=3)


@pytest.mark.parametrize("seed", _SEEDS)
def test_pieces_of_answers_with_rows_that_they_cannot_have_are_asked_for_again(seed: int) -> None:
    _hold(seed, _SPOILED, turns=40)


def test_a_stray_row_that_is_left_out_in_silence_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "fault_of", lambda _: "")
    with pytest.raises(BrokenPromise):
        _try_seeds(range(20), _SPOILED)


def test_a_feed_that_the_store_overtakes_fails_and_no_other() -> None:
    run = _hold(1, Troubles(corrupt=0.0, leap=0.02, feeds=4, collect_ms=2_000), turns=40)
    assert {bool(feed.failed) for feed in run.feeds.values()} == {False, True}


@pytest.mark.parametrize("seed", _SEEDS)
def test_feeds_whose_data_changes_outside_the_op_log_fail_and_no_other(seed: int) -> None:
    _hold(seed, replace(_CHANGED, corrupt=0.03), turns=40)


@pytest.mark.parametrize("seed", _SEEDS)
def test_of_an_old_source_all_changes_count_that_can_be_read(seed: int) -> None:
    _hold(seed, replace(_CHANGED, corrupt=0.06, old_source=True), turns=40)


@pytest.mark.parametrize("seed", _SEEDS)
def test_feeds_whose_data_changes_among_everything_else_fail_and_no_other(seed: int) -> None:
    _hold(seed, Troubles(lose_chunk=0.05, mutate=0.1, feeds=4), turns=40)


def _noted_while_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change counts only where the range applies its command, as a hole or a backlog does not."""
    note = Mutations.note

    def patched(self: Mutations, state: RangeState, command: Command, place: MutationPlace) -> None:
        if state.quarantine is None and command.raft_index == state.applied + 1:
            note(self, state, command, place)

    monkeypatch.setattr(Mutations, "note", patched)


def _told_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks at what a snapshot tells of the last change."""
    monkeypatch.setattr(Mutations, "judge", lambda *_: None)


@pytest.mark.parametrize(
    ("defect", "troubles", "first"),
    [
        (_noted_while_applied, {"corrupt": 0.06, "old_source": True}, 0),
        (_told_for_nothing, {"corrupt": 0.03}, 14),
    ],
    ids=["noted only while applied", "told for nothing"],
)
def test_a_forgotten_change_is_found(
    defect: Callable[[pytest.MonkeyPatch], None],
    troubles: dict[str, Any],
    first: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The search is over in two minutes of computing from any seed."""
    defect(monkeypatch)
    with pytest.raises(BrokenPromise):
        _try_seeds(_from(first), replace(_CHANGED, **troubles))


def _try_seeds(seeds: Iterable[int], troubles: Troubles, turns: int = 40) -> None:
    for seed in seeds:
        MovingRanges(seed, troubles).run(turns)


def _from(first: int) -> Iterable[int]:
    """All seeds, ``first`` first, which is known to find a defect until a change of the code shifts it."""
    return (*range(first, _RUNS), *range(first))


#: Feeds fail and are dropped in one partition before others; ranges move between these meanwhile.
_ENDINGS: Final = Troubles(
    split=0.3, merge=0.3, corrupt=0.0, lose_request=0.0, repeat_request=0.0, unfit=0.05, endings=3
)


@pytest.mark.parametrize("seed", _SEEDS)
def test_no_checkpoint_covers_what_was_left_out_for_a_feed_that_ends_before_its_fence(seed: int) -> None:
    _hold(seed, _ENDINGS, turns=40)


def test_a_feed_that_is_forgotten_before_its_fence_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions are told to forget it as soon as it ends, while its frontier may go on."""
    end = FeedCourse.end

    def end_and_remove(self: FeedCourse) -> None:
        end(self)
        self.remove()

    monkeypatch.setattr(FeedCourse, "end", end_and_remove)
    with pytest.raises(BrokenPromise):
        _try_seeds(range(_RUNS), _ENDINGS)


def test_a_hand_off_that_tells_of_no_failed_feed_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def tell_nothing(self: PartitionFeeds, message: Exchange) -> Exchange:
        return message

    monkeypatch.setattr(PartitionFeeds, "tell_failures", tell_nothing)
    with pytest.raises(BrokenPromise):
        _try_seeds(_from(22), _ENDINGS)


_CROWDED: Final = Troubles(split=0.25, merge=0.1, feeds=3, bystanders=150, record_bytes=4_000)


@pytest.fixture
def _forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Promises are kept for a moment only, so that claims come too late for them."""
    monkeypatch.setattr(range_state, "PROMISE_KEPT_NS", 100_000_000)


@pytest.mark.usefixtures("_forgetful")
@pytest.mark.parametrize("seed", _SEEDS)
def test_among_many_feeds_records_stay_small_and_forgotten_promises_cost_scans_alone(seed: int) -> None:
    _hold(seed, _CROWDED, turns=30)


@pytest.mark.usefixtures("_forgetful")
@pytest.mark.parametrize("number", _SEEDS)
def test_among_many_feeds_and_standing_sinks_records_stay_small_for_a_fresh_seed(number: int) -> None:
    _hold(_FRESH.getrandbits(32) + number, replace(_CROWDED, stand_still=0.3, feeds=2), turns=30)


@pytest.mark.usefixtures("_forgetful")
def test_a_claim_that_comes_after_its_promise_is_forgotten_hides_no_gap_of_a_detached_feed() -> None:
    _hold(2942644412, replace(_CROWDED, corrupt=0.0, stand_still=0.3, feeds=2), turns=30)


def _all_feeds_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A range names each feed that can miss versions, whatever keys it watches."""
    monkeypatch.setattr(ServedFeeds, "__call__", lambda self, _: [feed.id for feed in self._feeds])


def _promises_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is forgotten of what a range told, but what 64 others have come after."""
    monkeypatch.setattr(RangeState, "forget_old_promises", lambda _: None)


def _rows_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row is one record, however large it is."""
    monkeypatch.setattr(RowPieces, "split", lambda _, changes: changes)


def _forgotten_promises_say_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """A range that has forgotten its promise says that no feed missed anything of its keys."""

    def answer(state: RangeState, claim: Claim) -> HandOff | None:
        message = answer_claim(state, claim)
        if message is None or not message.complete or message.span is not None:
            return message
        told = tuple(ToldGaps(feed, ()) for feed in state.serves(claim.span))
        return message._replace(span=claim.span, told_gaps=told)

    monkeypatch.setattr(exchange, "answer_claim", answer)


@pytest.mark.usefixtures("_forgetful")
@pytest.mark.parametrize(
    ("defect", "troubles", "first"),
    [
        (_all_feeds_named, _CROWDED, 0),
        (_promises_for_ever, _CROWDED, 0),
        (_rows_in_one_piece, replace(_CROWDED, record_bytes=1_000), 0),
        (_forgotten_promises_say_all, replace(_CROWDED, bystanders=0, feeds=6), 8),
    ],
    ids=["all feeds named", "promises for ever", "rows in one piece", "forgotten promises say all"],
)
def test_what_makes_records_grow_or_answers_lie_is_found(
    defect: Callable[[pytest.MonkeyPatch], None],
    troubles: Troubles,
    first: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    defect(monkeypatch)
    with pytest.raises(BrokenPromise):
        _try_seeds(_from(first), troubles)


@pytest.mark.parametrize("number", _SEEDS)
def test_feeds_lag_through_everything_for_a_fresh_seed(number: int) -> None:
    _hold(_FRESH.getrandbits(32) + number, Troubles(lose_chunk=0.05, feeds=4), turns=40)


@pytest.mark.parametrize("seed", _SEEDS)
def test_sinks_stand_still_through_splits_merges_and_crashes(seed: int) -> None:
    _hold(seed, replace(_QUIET, split=0.2, merge=0.15, restart=0.1, stand_still=0.6, feeds=1), turns=40)


def _refusing(seed: int, turns: int = 30) -> MovingRanges:
    troubles = replace(_QUIET, split=0.2, merge=0.15, restart=0.1, stand_still=0.6, refuse=0.2, feeds=3)
    return _hold(seed, troubles, turns)


def test_feeds_whose_rows_are_refused_fail_and_no_checkpoint_covers_what_is_missing() -> None:
    failed = [feed.failed for seed in range(4, 7) for feed in _refusing(seed).feeds.values()]
    assert REFUSED in failed


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(60))
def test_feeds_whose_rows_are_refused_fail_for_many_seeds(seed: int) -> None:
    _refusing(seed)


def test_a_refusal_behind_which_batches_still_name_the_feed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    original = PartitionProcessor.fail_delivery

    def fail_delivery(self, feed_id, refusal, uncommitted):  # type: ignore[no-untyped-def]
        return original(self, feed_id, refusal, ())

    monkeypatch.setattr(PartitionProcessor, "fail_delivery", fail_delivery)
    with pytest.raises(pytest.fail.Exception):
        assert [_refusing(seed) for seed in _from(4)]


@pytest.mark.parametrize("number", _SEEDS)
def test_sinks_stand_still_through_everything_for_a_fresh_seed(number: int) -> None:
    _hold(_FRESH.getrandbits(32) + number, Troubles(lose_chunk=0.05, stand_still=0.4, feeds=2), turns=30)


# ---- tables that are altered, by a store that collects what was replaced

_ALTERED: Final = Troubles(
    split=0.02, merge=0.02, corrupt=0.01, restart=0.0, alter=0.5, feeds=6, collect_ms=1_000
)


@pytest.mark.parametrize("seed", _SEEDS)
def test_rows_are_read_by_the_versions_of_their_times_also_where_others_are_forgotten(seed: int) -> None:
    run = _hold(seed + 4, replace(_ALTERED, split=0.1, merge=0.06, restart=0.05, lose_chunk=0.05), turns=80)
    assert len(run.versions) > 1


@pytest.mark.parametrize("number", _SEEDS)
def test_altered_tables_among_everything_else_keep_the_promise_for_a_fresh_seed(number: int) -> None:
    troubles = Troubles(alter=0.5, feeds=3, stand_still=0.3, collect_ms=400)
    _hold(_FRESH.getrandbits(32) + number, troubles, turns=40)


def test_a_version_that_is_forgotten_though_a_feed_may_begin_at_its_time_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ProcessorState, "_lowest_row", lambda _, state: state.resolved)
    with pytest.raises(BrokenPromise):
        _try_seeds(_from(9), _ALTERED, turns=120)


# ---- clocks that are wrong, pauses, ends that are lost

_WRONG_TIMES: Final = Troubles(wrong_time=0.05, leap=0.05, corrupt=0.02)
_PAUSES: Final = Troubles(pause=0.06, corrupt=0.05, restart=0.15, lose_request=0.5)
_HASTY: Final = Troubles(hasty=0.5, wrong_time=0.02, corrupt=0.02)
_LOST_ENDS: Final = Troubles(split=0.2, merge=0.2, corrupt=0.0, lose_end=1.0, feeds=4)


@pytest.mark.parametrize("seed", _SEEDS)
def test_record_times_that_jump_stand_and_go_back_do_no_harm(seed: int) -> None:
    _hold(seed, _WRONG_TIMES, turns=40)


@pytest.mark.parametrize("seed", _SEEDS)
def test_a_node_whose_clock_is_ahead_and_flutters_pushes_nothing_to_its_time(seed: int) -> None:
    _hold(seed, _HASTY, turns=40)


@pytest.mark.parametrize("seed", _SEEDS)
def test_no_range_that_waits_is_left_through_pauses_and_restarts(seed: int) -> None:
    _hold(seed, _PAUSES, turns=40)


@pytest.mark.parametrize("seed", [0, 1, 52])  # in the last one merges stand in backlogs that are left out
def test_feeds_come_to_the_end_of_their_scans_though_range_ends_are_lost(seed: int) -> None:
    _hold(seed, _LOST_ENDS, turns=40)


@pytest.mark.parametrize("number", _SEEDS)
def test_wrong_times_pauses_and_lost_ends_at_once_for_a_fresh_seed(number: int) -> None:
    _hold(_FRESH.getrandbits(32) + number, replace(_PAUSES, wrong_time=0.03, lose_chunk=0.05), turns=40)


def _clock_by_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Log time is the highest record time."""

    def hear(self: LogClock, range_id: RangeId, time_ms: int, closed_ms: int, *, rose: bool) -> None:
        self.time_ms = self.shown_ms = self.closed_ms = self.elapsed_ms = max(self.time_ms, time_ms)

    monkeypatch.setattr(LogClock, "hear", hear)


def _heard_by_record_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """A range counts as heard again whenever its record times have moved."""
    original = LogClock.hear

    def hear(self: LogClock, range_id: RangeId, time_ms: int, closed_ms: int, *, rose: bool) -> None:
        known = self._voices.get(range_id)
        original(self, range_id, time_ms, closed_ms, rose=rose)
        if known is not None and abs(self._voices[range_id].shown_ms - known.shown_ms) >= 1_000:
            self._hearings += 1
            self._voices[range_id] = self._voices[range_id]._replace(heard=self._hearings)
            self._settle()

    monkeypatch.setattr(LogClock, "hear", hear)


def _pauses_elapse(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pause of the source counts as time in which a range was silent."""
    monkeypatch.setattr(log_clock, "STEP_MS", 1 << 60)


def _claimed_if_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A range that waits for nothing sends no claim."""
    monkeypatch.setattr(parking, "claims_told_by", lambda *_: frozenset())


def _pushed_to_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the source has closed counts as a time that has come."""
    monkeypatch.setattr(Pusher, "_come_ms", lambda _, clock: clock.closed_ms)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("defect", "troubles", "first"),
    [
        pytest.param(_clock_by_record, _WRONG_TIMES, 0, marks=pytest.mark.python_step),
        pytest.param(_heard_by_record_times, _HASTY, 44, marks=pytest.mark.python_step),
        (_pauses_elapse, _PAUSES, 0),
        (_claimed_if_needed, _LOST_ENDS, 0),
        (_pushed_to_closed, _AHEAD, 0),
    ],
    ids=[
        "log time by one record",
        "heard by record times",
        "pauses count as silence",
        "claims only where needed",
        "pushes to what is closed",
    ],
)
def test_a_world_of_odd_logs_finds(
    defect: Callable[[pytest.MonkeyPatch], None],
    troubles: Troubles,
    first: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    defect(monkeypatch)
    with pytest.raises(BrokenPromise):
        _try_seeds(_from(first), troubles)


# ---- a source that crashes amid Snapshots, and entries that are wrong in one part

_CRASHES: Final = replace(_QUIET, split=0.2, merge=0.15, restart=0.05, crash=0.5, feeds=2, is_sound=True)
_FAR: Final = replace(_QUIET, split=0.3, merge=0.3, far=0.02)
_UNDATED: Final = replace(_QUIET, split=0.3, merge=0.3, restart=0.05, undated=0.5, feeds=4)


@pytest.mark.parametrize("seed", _SEEDS)
def test_a_source_that_crashes_amid_snapshots_stops_no_range(seed: int) -> None:
    _hold(seed, _CRASHES, turns=40)


@pytest.mark.parametrize("seed", _SEEDS)
def test_commands_with_one_version_too_far_ahead_hide_none_of_their_good_rows(seed: int) -> None:
    _hold(seed, _FAR, turns=40)


@pytest.mark.parametrize("seed", _SEEDS)
def test_snapshots_with_an_intent_without_a_timestamp_are_holes_like_others(seed: int) -> None:
    _hold(seed, _UNDATED, turns=40)


@pytest.mark.parametrize("number", _SEEDS)
def test_all_entries_that_are_wrong_in_one_part_at_once_for_a_fresh_seed(number: int) -> None:
    troubles = replace(_FAR, undated=0.1, crash=0.2, corrupt=0.02, feeds=3)
    _hold(_FRESH.getrandbits(32) + number, troubles, turns=40)


def _refused_when_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    """A version that is too far ahead is found when its command counts as applied already."""
    original = range_log.apply_entry

    def apply_entry(
        state: RangeState, entry: Any, horizon: VersionHorizon | None = None, record_ms: int = 0
    ) -> list[Version]:
        versions = original(state, entry)
        if versions and horizon is not None:
            horizon.require_versions(versions, record_ms)
        return versions

    monkeypatch.setattr(range_entries, "apply_entry", apply_entry)


def _taken_by_half(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Snapshot breaks in its intents when the range has its keys already, and does not count as taken."""
    original = range_snapshot._take_snapshot

    def take_half(state: RangeState, chunks: list[Snapshot]) -> None:
        dated = [
            chunk._replace(intents=tuple(each for each in chunk.intents if each.timestamp > ZERO))
            for chunk in chunks
        ]
        taken = state.snapshots_taken
        original(state, dated)
        if dated != chunks:
            state.snapshots_taken = taken
            raise ForbiddenOp("an intent without a timestamp")

    monkeypatch.setattr(range_snapshot, "_take_snapshot", take_half)
    monkeypatch.setitem(decode._DECODERS, "snapshot", decode._stored_snapshot)


def _begun_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Snapshot that begins again amid itself breaks its range."""
    monkeypatch.setattr(range_snapshot, "begins_again", lambda *_: False)


@pytest.mark.parametrize(
    ("defect", "troubles", "first"),
    [(_refused_when_applied, _FAR, 32), (_taken_by_half, _UNDATED, 1), (_begun_once, _CRASHES, 0)],
    ids=["refused when applied", "taken by half", "begun once"],
)
def test_a_world_of_entries_that_are_wrong_in_one_part_finds(
    defect: Callable[[pytest.MonkeyPatch], None],
    troubles: Troubles,
    first: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    defect(monkeypatch)
    with pytest.raises(BrokenPromise):
        _try_seeds(_from(first), troubles)
