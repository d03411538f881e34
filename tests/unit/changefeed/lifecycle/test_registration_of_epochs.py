"""A feed ends, or goes on in a new epoch: who is fenced, what is taken over, and which failures count."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from time import process_time

import pytest

from tests.unit.changefeed.feeds import DEFINITION, FEED, TARGET
from tests.unit.changefeed.lifecycle.hand_cluster import ACTIVE, PENDING, by_partition, folded, registered
from tidegate.changefeed.definition.feed import FIRST_EPOCH, Engine, FeedEpoch, FeedState
from tidegate.changefeed.definition.stored_fields import MAX_EPOCH
from tidegate.changefeed.lifecycle.control import Ack, Active, Failed, Register, Registered, Remove, Removed
from tidegate.changefeed.lifecycle.job_records import DropRecord, StateRecord
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.changefeed.lifecycle.registration import (
    Announce,
    Prepare,
    Settled,
    StoreState,
    TakeOver,
    due_takeover,
    failed,
    former_answers,
    is_forgotten,
    needs_fence,
    next_step,
    step_on,
)
from tidegate.changefeed.lifecycle.takeover import takeover
from tidegate.hlc import Timestamp

_RUNNING = StateRecord(FEED, FIRST_EPOCH, FeedState.RUNNING, Timestamp(9), (TARGET,))


def test_whoever_writes_markers_is_fenced_between_the_end_and_the_first_partition_that_forgets() -> None:
    dropped = replace(PENDING, state=_RUNNING, drop=DropRecord(FEED, 1))
    store = next_step(dropped, ACTIVE, 2)
    assert isinstance(store, StoreState)
    assert not needs_fence(dropped, store)
    ended = replace(dropped, state=store.record)
    assert needs_fence(ended, next_step(ended, ACTIVE, 2))
    assert not needs_fence(ended, Settled())


def test_who_never_began_had_no_markers_and_an_epoch_that_goes_on_elsewhere_was_fenced_already() -> None:
    never = replace(PENDING, state=failed(DEFINITION, "no table"))
    remove = next_step(never, by_partition(registered(0, 5)), 2)
    assert isinstance(remove, Announce)
    assert not needs_fence(never, remove)
    running = replace(PENDING, state=_RUNNING)
    assert not needs_fence(running, Announce(Remove(FEED, FIRST_EPOCH), (0,)))


def test_a_new_epoch_takes_over_and_is_registered_where_the_former_one_is_forgotten() -> None:
    old = StateRecord(FEED, FIRST_EPOCH, FeedState.RUNNING, Timestamp(9), (TARGET,))
    second = replace(DEFINITION, epoch=FeedEpoch(2))
    feed = FeedView(defined=second, state=old)
    assert next_step(feed, {}, 2) == TakeOver()
    feed = replace(feed, takeover=takeover(second, old, None, None))
    former = by_partition(Removed(FEED, FIRST_EPOCH, 1))
    assert next_step(feed, {}, 2, former) == Announce(Remove(FEED, FIRST_EPOCH), (0,))
    former = by_partition(*(Removed(FEED, FIRST_EPOCH, number) for number in range(2)))
    resumed = replace(second, options=replace(second.options, cursor=Timestamp(9)), goes_on=True)
    assert next_step(feed, {}, 2, former) == Announce(Register(resumed), (0, 1))
    answers = {number: Registered(FEED, FeedEpoch(2), number, 7, Timestamp(99), ()) for number in range(2)}
    assert next_step(feed, answers, 2, former) == Prepare(
        Timestamp(9), (), {0: 7, 1: 7}, (TARGET,), cluster=""
    )


def test_the_engine_that_has_a_feed_takes_it_over_and_every_other_one_has_it_forgotten() -> None:
    old = StateRecord(FEED, FIRST_EPOCH, FeedState.RUNNING, Timestamp(9), (TARGET,))
    second = replace(DEFINITION, epoch=FeedEpoch(2), engine=Engine.SPARK)
    feed = FeedView(defined=second, state=old)
    assert step_on(Engine.SPARK, feed, {}, 1) == TakeOver()
    assert step_on(Engine.WORKERS, feed, {}, 1) == Settled(), "it is not taken over yet"
    taken = due_takeover(feed, second)
    assert taken == takeover(second, old, None, None)
    feed = replace(feed, takeover=taken)
    assert due_takeover(feed, second) is None, "it is taken over"
    assert due_takeover(feed, replace(second, epoch=FeedEpoch(3))) is None, "it was moved on meanwhile"
    remove = Announce(Remove(FEED, FIRST_EPOCH), (0,))
    assert step_on(Engine.WORKERS, feed, {}, 1) == remove
    forgotten = by_partition(Removed(FEED, FIRST_EPOCH, 0))
    assert step_on(Engine.WORKERS, feed, {FIRST_EPOCH: forgotten}, 1) == Settled()


def test_a_feed_is_forgotten_once_every_partition_has_said_so() -> None:
    one = by_partition(Removed(FEED, FIRST_EPOCH, 1))
    assert not is_forgotten(one, 2)
    assert not is_forgotten(by_partition(Failed(FEED, FIRST_EPOCH, 0, "why")) | one, 2)
    assert is_forgotten(by_partition(Removed(FEED, FIRST_EPOCH, 0)) | one, 2)


def _moved(state: FeedState = FeedState.RUNNING, error: str = "") -> FeedView:
    """A feed whose second epoch has taken over the first, which was in this state."""
    old = StateRecord(FEED, FIRST_EPOCH, state, Timestamp(9), (TARGET,), error=error)
    second = replace(DEFINITION, epoch=FeedEpoch(2))
    return FeedView(defined=second, state=old, takeover=takeover(second, old, None, None))


@pytest.mark.parametrize(
    "answer",
    [Failed(FEED, FIRST_EPOCH, 1, "rows changed"), Removed(FEED, FIRST_EPOCH, 1, "rows changed")],
    ids=["failed", "failed and removed"],
)
def test_a_failure_of_the_former_epoch_that_nobody_stored_ends_the_feed(answer: Ack) -> None:
    """Before any partition is told to forget it: that would take the failure's place in the topic."""
    feed = _moved()
    former = by_partition(Active(FEED, FIRST_EPOCH, 0), answer)
    step = next_step(feed, {}, 2, former)
    assert isinstance(step, StoreState)
    assert (step.record.epoch, step.record.state) == (FeedEpoch(2), FeedState.FAILED)
    assert step.record.error == "log partition 1: rows changed"
    assert step.record.targets == (TARGET,)
    ended = replace(feed, state=step.record)
    assert next_step(ended, {}, 2, former) == Announce(Remove(FEED, FeedEpoch(2)), (0, 1))


def test_a_failure_that_was_stored_while_the_feed_was_moved_ends_it() -> None:
    step = next_step(_moved(FeedState.FAILED, "log partition 0: rows changed"), {}, 2)
    assert isinstance(step, StoreState)
    assert (step.record.state, step.record.error) == (FeedState.FAILED, "log partition 0: rows changed")


def test_failures_count_of_every_epoch_since_the_one_that_ran_and_of_none_before() -> None:
    answers: dict[FeedEpoch, dict[int, Ack]] = {
        FeedEpoch(1): {0: Failed(FEED, FeedEpoch(1), 0, "of the first")},
        FeedEpoch(2): {1: Removed(FEED, FeedEpoch(2), 1)},
    }
    feed = replace(_moved(), defined=replace(DEFINITION, epoch=FeedEpoch(3)))
    assert former_answers(feed, answers) == answers[FeedEpoch(2)] | answers[FeedEpoch(1)]
    ran = StateRecord(FEED, FeedEpoch(2), FeedState.RUNNING, Timestamp(9), (TARGET,))
    assert former_answers(replace(feed, state=ran), answers) == answers[FeedEpoch(2)]
    assert former_answers(FeedView(), answers) == {}


def test_a_definition_of_an_epoch_far_above_the_others_is_looked_at_at_once() -> None:
    """Each epoch between was looked for: that of 2^32 - 1 held the jobs agent for hours."""
    feed = replace(_moved(), defined=replace(DEFINITION, epoch=FeedEpoch(MAX_EPOCH)))
    failed: dict[int, Ack] = {0: Failed(FEED, FIRST_EPOCH, 0, "of the first")}
    began = process_time()
    assert former_answers(feed, {FIRST_EPOCH: failed, FeedEpoch(MAX_EPOCH): {}}) == failed
    assert process_time() - began < 1


def test_a_feed_that_came_back_and_was_dropped_before_it_was_taken_over_is_fenced() -> None:
    """The frontier of its first epoch may still go on; where the feed began stood in that epoch's state."""
    third = replace(DEFINITION, epoch=FeedEpoch(3))
    dropped = replace(PENDING, defined=third, state=_RUNNING, drop=DropRecord(FEED, 1))
    step = next_step(dropped, {}, 2)
    assert isinstance(step, StoreState)
    ended = replace(dropped, state=step.record)
    assert ended.targets == dropped.targets == (TARGET,)
    assert needs_fence(ended, next_step(ended, {}, 2))


def test_why_a_feed_had_failed_is_not_forgotten_with_it() -> None:
    reason = Removed(FEED, FIRST_EPOCH, 0, "rows changed")
    given: list[Ack] = [Failed(FEED, FIRST_EPOCH, 0, "rows changed"), reason, Removed(FEED, FIRST_EPOCH, 0)]
    for acks in permutations(given):
        assert folded(*acks) == {0: reason}
