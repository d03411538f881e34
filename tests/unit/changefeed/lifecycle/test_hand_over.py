"""A feed that moves between engines: nothing is left out, and no high-water falls
(docs/protocols/hand-over.md)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.changefeed.feeds import DEFINITION, FEED, TARGET
from tests.unit.changefeed.lifecycle.engine_by_hand import MOVED, OneEngine, World, moved, view
from tidegate.changefeed.definition.feed import Engine, FeedEpoch, FeedState
from tidegate.changefeed.definition.options import InitialScan
from tidegate.changefeed.lifecycle.control import Remove, Removed
from tidegate.changefeed.lifecycle.job_records import (
    DefinitionRecord,
    DropRecord,
    JobRecord,
    ProgressRecord,
    StateRecord,
)
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.changefeed.lifecycle.registration import (
    Announce,
    Settled,
    StoreState,
    TakeOver,
    leave,
    next_step,
)
from tidegate.changefeed.lifecycle.takeover import takeover
from tidegate.hlc import ResolvedTimestamp, Timestamp

_EVENTS = ["turn", "turn", "look", "advance", "advance", "crash", "move"]


def highs(world: World) -> list[Timestamp]:
    return [record.high_water for record in world.jobs if isinstance(record, ProgressRecord)]


@given(st.data(), st.sampled_from([InitialScan.NO, InitialScan.YES]))
def test_what_an_epoch_leaves_out_was_told_complete_and_no_high_water_falls(
    data: st.DataObject, scan: InitialScan
) -> None:
    world = World(replace(DEFINITION, options=replace(DEFINITION.options, initial_scan=scan)))
    engines = [OneEngine(world, engine) for engine in Engine]
    for _ in range(data.draw(st.integers(0, 40), label="events")):
        one = engines[data.draw(st.integers(0, 1), label="engine")]
        match data.draw(st.sampled_from(_EVENTS)):
            case "turn":
                one.turn(data.draw(st.integers(1, 8), label="looks"))
            case "look":
                one.look()
            case "advance":
                world.applied += data.draw(st.integers(0, 3), label="passed")
                one.advance(world.applied)
            case "crash":
                one.agent = one.frontier = None
                one.read_to_end()
            case "move":
                world.move()
    for one in [*engines, *engines]:
        one.turn(20)
    feed = view(world.jobs)
    assert feed.status is FeedState.RUNNING
    assert highs(world) == sorted(highs(world))
    started = {
        record.epoch: record for record in world.jobs if isinstance(record, StateRecord) and record.start
    }
    begun = min(started)
    for epoch, state in started.items():
        before = world.jobs[: world.jobs.index(state)]
        told = [r.high_water for r in before if isinstance(r, ProgressRecord) and r.epoch < epoch]
        assert state.start == max(told, default=started[begun].start)
        assert state.targets == (TARGET,)
    owner = next(one for one in engines if feed.runs_on(one.engine))
    other = next(one for one in engines if one is not owner)
    assert (owner.held, other.held) == (feed.epoch, None)
    assert feed.definition is not None
    done = [r for r in world.jobs if isinstance(r, ProgressRecord) and r.epoch < feed.definition.epoch]
    assert feed.definition.options.initial_scan is (InitialScan.NO if done else scan)


@given(st.data())
def test_no_progress_follows_once_a_partition_has_forgotten_a_feed_that_has_ended(
    data: st.DataObject,
) -> None:
    world = World(DEFINITION)
    engines = [OneEngine(world, engine) for engine in Engine]
    engines[0].turn(20)
    for _ in range(data.draw(st.integers(0, 40), label="events")):
        one = engines[data.draw(st.integers(0, 1), label="engine")]
        match data.draw(st.sampled_from([*_EVENTS, "drop"])):
            case "turn":
                one.turn(data.draw(st.integers(1, 8), label="looks"))
            case "look":
                one.look()
            case "advance":
                world.applied += 1
                one.advance(world.applied)
            case "crash":
                one.agent = one.frontier = None
                one.read_to_end()
            case "move":
                world.move()
            case "drop":
                world.drop()
    world.drop()
    for one in [*engines, *engines]:
        one.turn(20)
        one.advance(world.applied + 1)
    assert [one.held for one in engines] == [None] * len(engines)
    if world.forgotten_at is not None:
        assert not any(isinstance(record, ProgressRecord) for record in world.jobs[world.forgotten_at :])


def taken_over(feed: FeedView) -> FeedView:
    assert feed.definition is not None
    return replace(feed, takeover=takeover(feed.definition, feed.state, feed.progress, feed.takeover))


_STATE = StateRecord(FEED, DEFINITION.epoch, FeedState.RUNNING, Timestamp(9), (TARGET,), sink_cluster="q1")
_PROGRESS = ProgressRecord(FEED, DEFINITION.epoch, ResolvedTimestamp(Timestamp(20)), {})


def test_a_feed_goes_on_above_its_high_water() -> None:
    feed = taken_over(moved(_STATE, _PROGRESS, scan=InitialScan.YES))
    assert feed.definition is not None
    assert (feed.definition.options.cursor, feed.definition.options.initial_scan) == (
        Timestamp(20),
        InitialScan.NO,
    )
    assert feed.high_water == Timestamp(20)


def test_a_feed_whose_scan_was_not_done_scans_again_at_the_same_timestamp() -> None:
    feed = taken_over(moved(_STATE, scan=InitialScan.YES))
    assert feed.definition is not None
    assert (feed.definition.options.cursor, feed.definition.options.initial_scan) == (
        Timestamp(9),
        InitialScan.YES,
    )
    assert feed.high_water is None


def test_a_feed_that_had_not_begun_begins_where_it_comes_to() -> None:
    feed = taken_over(moved())
    assert feed.definition is not None
    assert feed.definition.options == DEFINITION.options


def test_an_epoch_that_never_began_hands_on_what_it_took_over() -> None:
    """Its own records say less than those that are older: it waits for a registry, say."""
    waiting = StateRecord(FEED, MOVED, FeedState.PENDING, error="waiting for its schema registry")
    first, second = moved(_STATE, _PROGRESS), taken_over(moved(_STATE, _PROGRESS)).takeover
    third = replace(DEFINITION, epoch=FeedEpoch(3))
    assert first.progress is not None
    for progress in (first.progress, None):
        taken = takeover(third, waiting, progress, second)
        assert (taken.start, taken.high_water) == (Timestamp(9), Timestamp(20))
        assert (taken.targets, taken.sink_cluster) == ((TARGET,), "q1")


@pytest.mark.parametrize("ended", [True, False])
def test_a_scan_that_was_all_and_is_done_succeeds_wherever_it_is(ended: bool) -> None:
    done = replace(_PROGRESS, high_water=ResolvedTimestamp(Timestamp(9)))
    feed = moved(_STATE, done, scan=InitialScan.ONLY)
    assert next_step(feed, {}, 1) == TakeOver()
    step = next_step(taken_over(feed), {}, 1)
    assert isinstance(step, StoreState)
    assert (step.record.state, step.record.targets) == (FeedState.SUCCEEDED, (TARGET,))
    if ended:
        former = {0: Removed(FEED, DEFINITION.epoch, 0)}
        assert leave(replace(feed, state=step.record), former, 1) == Settled()


def test_no_partition_forgets_a_feed_that_nobody_has_taken_over() -> None:
    """Its high-water may still rise until then, by checkpoints of the others."""
    feed = moved(_STATE, _PROGRESS)
    assert leave(feed, {}, 2) == Settled()
    assert leave(taken_over(feed), {}, 2) == Announce(Remove(FEED, DEFINITION.epoch), (0, 1))


def test_a_feed_that_came_back_and_was_dropped_before_anybody_looked_is_forgotten_everywhere() -> None:
    away = DefinitionRecord(replace(DEFINITION, epoch=MOVED, engine=Engine.SPARK))
    back = DefinitionRecord(replace(DEFINITION, epoch=FeedEpoch(3)))
    records: list[JobRecord] = [DefinitionRecord(DEFINITION), _STATE, _PROGRESS, away, back]
    records.append(DropRecord(FEED, 1))
    step = next_step(view(records), {}, 2)
    while isinstance(step, StoreState):
        assert step.record.targets == (TARGET,)
        records.append(step.record)
        step = next_step(view(records), {}, 2)
    assert step == Announce(Remove(FEED, FeedEpoch(3)), (0, 1))


def test_a_feed_that_is_dropped_while_it_moves_keeps_its_topics_until_it_is_forgotten() -> None:
    feed = moved(_STATE, _PROGRESS, DropRecord(FEED, 1))
    assert feed.targets == (TARGET,)
    step = next_step(feed, {}, 2)
    assert isinstance(step, StoreState)
    assert (step.record.state, step.record.targets) == (FeedState.DROPPED, (TARGET,))
