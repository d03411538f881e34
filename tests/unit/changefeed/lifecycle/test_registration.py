"""How a feed starts: one start timestamp, whatever is lost, repeated, reordered or restarted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.changefeed.feeds import DEFINITION, FEED, ORDERS, TARGET
from tidegate.changefeed.definition.feed import FIRST_EPOCH, FeedDefinition, FeedEpoch, FeedState, TableName
from tidegate.changefeed.definition.options import InitialScan
from tidegate.changefeed.lifecycle.control import (
    Ack,
    Activate,
    Active,
    ControlMessage,
    Failed,
    KnownTable,
    Register,
    Registered,
    Remove,
    Removed,
    read_ack,
    read_control,
)
from tidegate.changefeed.lifecycle.job_records import (
    DefinitionRecord,
    DropRecord,
    JobRecord,
    ProgressRecord,
    StateRecord,
)
from tidegate.changefeed.lifecycle.jobs import FeedView, JobsView
from tidegate.changefeed.lifecycle.registration import (
    Acknowledgements,
    Announce,
    Prepare,
    Settled,
    Step,
    StoreState,
    TakeOver,
    failed,
    former_answers,
    needs_fence,
    next_step,
    starting_state,
)
from tidegate.changefeed.lifecycle.takeover import takeover
from tidegate.errors import StateError
from tidegate.hlc import ResolvedTimestamp, Timestamp

PENDING = FeedView(defined=DEFINITION)
_RUNNING = StateRecord(FEED, FIRST_EPOCH, FeedState.RUNNING, Timestamp(9), (TARGET,))
SCAN_ONLY = replace(DEFINITION, options=replace(DEFINITION.options, initial_scan=InitialScan.ONLY))
KNOWN = (KnownTable(ORDERS, 104),)


def registered(
    partition: int, highest: int, position: int = 0, tables: tuple[KnownTable, ...] = KNOWN
) -> Registered:
    return Registered(FEED, FIRST_EPOCH, partition, position, Timestamp(highest), tables)


def by_partition(*acks: Ack) -> dict[int, Ack]:
    return {ack.partition: ack for ack in acks}


def test_partitions_that_have_not_answered_are_told_again() -> None:
    step = next_step(PENDING, by_partition(registered(1, 5)), 3)
    assert step == Announce(Register(DEFINITION), (0, 2))


def test_the_start_is_the_highest_timestamp_that_any_partition_had_applied() -> None:
    step = next_step(PENDING, by_partition(registered(0, 5, 10), registered(1, 9, 20)), 2)
    assert step == Prepare(Timestamp(9), KNOWN, {0: 10, 1: 20})


@pytest.mark.parametrize("cursor", [Timestamp(0), Timestamp(3, 7), Timestamp(5), Timestamp(99)])
def test_the_start_is_the_cursor_below_and_above_what_partitions_had_applied(cursor: Timestamp) -> None:
    definition = replace(DEFINITION, options=replace(DEFINITION.options, cursor=cursor))
    acks = by_partition(registered(0, 5, 10), registered(1, 9, 20))
    step = next_step(FeedView(defined=definition), acks, 2)
    assert step == Prepare(cursor, KNOWN, {0: 10, 1: 20})


def test_a_scan_reads_its_tables_as_of_the_highest_timestamp_that_was_applied_unless_there_is_a_cursor() -> (
    None
):
    acks = by_partition(registered(0, 5), registered(1, 9))
    step = next_step(FeedView(defined=SCAN_ONLY), acks, 2)
    assert isinstance(step, Prepare)
    assert step.start == Timestamp(9)
    past = replace(SCAN_ONLY, options=replace(SCAN_ONLY.options, cursor=Timestamp(2)))
    step = next_step(FeedView(defined=past), acks, 2)
    assert isinstance(step, Prepare)
    assert step.start == Timestamp(2)


def test_a_descriptor_that_only_one_partition_has_is_enough() -> None:
    step = next_step(PENDING, by_partition(registered(0, 5, tables=()), registered(1, 9)), 2)
    assert isinstance(step, Prepare)
    assert step.tables == KNOWN


def test_a_table_that_no_partition_knows_fails_the_feed_by_name() -> None:
    step = next_step(PENDING, by_partition(registered(0, 5, tables=())), 1)
    assert isinstance(step, StoreState)
    assert step.record.state is FeedState.FAILED
    assert "no log partition has a descriptor of defaultdb.public.orders" in step.record.error


def test_a_table_known_by_two_ids_fails_the_feed() -> None:
    other = (KnownTable(ORDERS, 200),)
    step = next_step(PENDING, by_partition(registered(0, 5), registered(1, 5, tables=other)), 2)
    assert isinstance(step, StoreState)
    assert "defaultdb.public.orders by different ids (104, 200)" in step.record.error


def test_the_activation_says_what_is_stored_not_what_the_answers_say_now() -> None:
    stored = StateRecord(FEED, FIRST_EPOCH, FeedState.STARTING, Timestamp(9), (TARGET,))
    late = by_partition(registered(0, 99), registered(1, 99))
    step = next_step(replace(PENDING, state=stored), late, 2)
    assert step == Announce(Activate(DEFINITION, Timestamp(9), (TARGET,)), (0, 1))


def test_running_is_stored_when_the_last_partition_is_active() -> None:
    stored = StateRecord(FEED, FIRST_EPOCH, FeedState.STARTING, Timestamp(9), (TARGET,))
    acks = by_partition(Active(FEED, FIRST_EPOCH, 0), Active(FEED, FIRST_EPOCH, 1))
    running = replace(stored, state=FeedState.RUNNING)
    assert next_step(replace(PENDING, state=stored), acks, 2) == StoreState(running)
    assert next_step(replace(PENDING, state=running), acks, 2) == Settled()


def _scanning(high_water: Timestamp | None, state: FeedState = FeedState.RUNNING) -> FeedView:
    """A feed that is a scan at 9.2 only, and the progress that was persisted."""
    progress = (
        None if high_water is None else ProgressRecord(FEED, FIRST_EPOCH, ResolvedTimestamp(high_water), {})
    )
    stored = StateRecord(FEED, FIRST_EPOCH, state, Timestamp(9, 2), (TARGET,))
    return FeedView(SCAN_ONLY, state=stored, progress=progress)


ACTIVE = {number: Active(FEED, FIRST_EPOCH, number) for number in range(2)}


@pytest.mark.parametrize("high_water", [None, Timestamp(9), Timestamp(9, 1)])
def test_a_scan_that_has_not_come_to_its_start_goes_on(high_water: Timestamp | None) -> None:
    assert next_step(_scanning(high_water), ACTIVE, 2) == Settled()


@pytest.mark.parametrize("high_water", [Timestamp(9, 2), Timestamp(10)])
@pytest.mark.parametrize("state", [FeedState.STARTING, FeedState.RUNNING])
def test_a_scan_that_has_come_to_its_start_has_succeeded_and_is_forgotten_by_every_partition(
    high_water: Timestamp, state: FeedState
) -> None:
    done = _scanning(high_water, state)
    step = next_step(done, {0: Active(FEED, FIRST_EPOCH, 0)}, 2)
    assert done.state is not None
    assert step == StoreState(replace(done.state, state=FeedState.SUCCEEDED))
    assert isinstance(step, StoreState)
    stored = replace(done, state=step.record)
    assert next_step(stored, ACTIVE, 2) == Announce(Remove(FEED, FIRST_EPOCH), (0, 1))
    assert next_step(stored, {0: Removed(FEED, FIRST_EPOCH, 0)}, 2) == Announce(
        Remove(FEED, FIRST_EPOCH), (1,)
    )
    gone = {number: Removed(FEED, FIRST_EPOCH, number) for number in range(2)}
    assert next_step(stored, gone, 2) == Settled()


def test_a_partition_that_fails_fails_a_scan_that_is_not_done_and_no_other() -> None:
    failed = ACTIVE | {1: Failed(FEED, FIRST_EPOCH, 1, "row too wide")}
    before = next_step(_scanning(None), failed, 2)
    after = next_step(_scanning(Timestamp(9, 2)), failed, 2)
    assert isinstance(before, StoreState)
    assert isinstance(after, StoreState)
    assert (before.record.state, after.record.state) == (FeedState.FAILED, FeedState.SUCCEEDED)
    assert after.record.error == ""


@pytest.mark.parametrize("high_water", [None, Timestamp(9, 2)])
def test_a_success_that_is_stored_stays_whatever_partitions_say_later(high_water: Timestamp | None) -> None:
    failed = ACTIVE | {1: Failed(FEED, FIRST_EPOCH, 1, "row too wide")}
    step = next_step(_scanning(high_water, FeedState.SUCCEEDED), failed, 2)
    assert step == Announce(Remove(FEED, FIRST_EPOCH), (0, 1))


@pytest.mark.parametrize("state", [FeedState.RUNNING, FeedState.SUCCEEDED])
def test_a_drop_counts_before_a_success_and_after_it(state: FeedState) -> None:
    dropped = replace(_scanning(Timestamp(9, 2), state), drop=DropRecord(FEED, 1))
    step = next_step(dropped, ACTIVE, 2)
    assert isinstance(step, StoreState)
    assert step.record.state is FeedState.DROPPED
    assert next_step(replace(dropped, state=step.record), ACTIVE, 2) == Announce(
        Remove(FEED, FIRST_EPOCH), (0, 1)
    )


def test_a_feed_that_goes_on_after_its_scan_does_not_succeed() -> None:
    options = replace(DEFINITION.options, initial_scan=InitialScan.YES)
    feed = replace(_scanning(Timestamp(99)), defined=replace(DEFINITION, options=options))
    assert next_step(feed, ACTIVE, 2) == Settled()


def test_progress_of_an_earlier_epoch_does_not_end_a_scan() -> None:
    second = replace(SCAN_ONLY, epoch=FeedEpoch(2))
    stored = StateRecord(FEED, FeedEpoch(2), FeedState.RUNNING, Timestamp(9), (TARGET,))
    acks = {0: Active(FEED, FeedEpoch(2), 0)}
    progress = ProgressRecord(FEED, FIRST_EPOCH, ResolvedTimestamp(Timestamp(99)), {})
    assert next_step(FeedView(second, state=stored, progress=progress), acks, 1) == Settled()


def test_a_failure_is_stored_with_its_partition_before_the_feed_is_removed() -> None:
    acks = by_partition(Failed(FEED, FIRST_EPOCH, 1, "row too wide"), Active(FEED, FIRST_EPOCH, 0))
    step = next_step(PENDING, acks, 2)
    assert isinstance(step, StoreState)
    assert step.record.error == "log partition 1: row too wide"
    assert next_step(replace(PENDING, state=step.record), acks, 2) == Announce(
        Remove(FEED, FIRST_EPOCH), (0, 1)
    )


def test_a_stored_failure_keeps_its_first_reason() -> None:
    stored = StateRecord(FEED, FIRST_EPOCH, FeedState.FAILED, error="first")
    acks = by_partition(Failed(FEED, FIRST_EPOCH, 0, "second"), Removed(FEED, FIRST_EPOCH, 1))
    assert next_step(replace(PENDING, state=stored), acks, 2) == Announce(Remove(FEED, FIRST_EPOCH), (0,))


def test_a_drop_ends_a_feed_in_any_state_and_settles_when_all_have_forgotten_it() -> None:
    dropped = replace(PENDING, drop=DropRecord(FEED, 1))
    step = next_step(dropped, {}, 2)
    assert step == StoreState(StateRecord(FEED, FIRST_EPOCH, FeedState.DROPPED))
    assert isinstance(step, StoreState)
    done = replace(dropped, state=step.record)
    assert next_step(done, by_partition(registered(0, 1)), 2) == Announce(Remove(FEED, FIRST_EPOCH), (0,))
    assert next_step(done, by_partition(Removed(FEED, FIRST_EPOCH, 0)), 2) == Settled()


def _waiting(error: str) -> FeedView:
    return replace(PENDING, state=StateRecord(FEED, FIRST_EPOCH, FeedState.PENDING, error=error))


def test_what_a_pending_feed_waits_for_changes_nothing_about_what_comes_next() -> None:
    waiting = _waiting("waiting for its schema registry")
    for acks in ({}, by_partition(registered(0, 5)), by_partition(registered(0, 5), registered(1, 9))):
        assert next_step(waiting, acks, 2) == next_step(PENDING, acks, 2)


def test_what_a_pending_feed_waited_for_is_not_the_reason_of_its_end() -> None:
    dropped = replace(_waiting("waiting for its schema registry"), drop=DropRecord(FEED, 1))
    ended = StateRecord(FEED, FIRST_EPOCH, FeedState.DROPPED)
    assert next_step(dropped, {}, 2) == StoreState(ended)
    assert next_step(replace(dropped, state=ended), {}, 2) == Settled()
    failed = next_step(_waiting("waiting"), by_partition(Failed(FEED, FIRST_EPOCH, 0, "no table")), 2)
    assert isinstance(failed, StoreState)
    assert failed.record.error == "log partition 0: no table"


def test_a_feed_that_had_targets_is_removed_from_every_partition_whoever_has_answered() -> None:
    stored = StateRecord(FEED, FIRST_EPOCH, FeedState.DROPPED, Timestamp(9), (TARGET,))
    dropped = replace(PENDING, drop=DropRecord(FEED, 1), state=stored)
    acks = by_partition(Removed(FEED, FIRST_EPOCH, 1), Active(FEED, FIRST_EPOCH, 2))
    assert next_step(dropped, acks, 3) == Announce(Remove(FEED, FIRST_EPOCH), (0, 2))
    everyone = by_partition(*(Removed(FEED, FIRST_EPOCH, partition) for partition in range(3)))
    assert next_step(dropped, everyone, 3) == Settled()


def test_without_a_definition_there_is_nothing_to_do() -> None:
    assert next_step(FeedView(drop=DropRecord(FEED, 1)), {}, 2) == Settled()


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

    def answers_of(epoch: FeedEpoch) -> Mapping[int, Ack]:
        return answers.get(epoch, {})

    feed = replace(_moved(), defined=replace(DEFINITION, epoch=FeedEpoch(3)))
    assert former_answers(feed, answers_of) == answers[FeedEpoch(2)] | answers[FeedEpoch(1)]
    ran = StateRecord(FEED, FeedEpoch(2), FeedState.RUNNING, Timestamp(9), (TARGET,))
    assert former_answers(replace(feed, state=ran), answers_of) == answers[FeedEpoch(2)]
    assert former_answers(FeedView(), answers_of) == {}


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


def test_a_started_state_without_a_start_is_refused() -> None:
    stored = StateRecord(FEED, FIRST_EPOCH, FeedState.STARTING)
    with pytest.raises(StateError, match="no start is stored"):
        next_step(replace(PENDING, state=stored), {}, 1)


def folded(*acks: Ack) -> dict[int, Ack]:
    fold = Acknowledgements(FIRST_EPOCH)
    for ack in acks:
        fold.add(ack)
    return dict(fold.by_partition())


@given(st.permutations([registered(0, 10, 100), registered(0, 50, 300), registered(1, 12, 7)]))
def test_a_partition_that_registered_again_after_its_state_was_lost_counts_as_of_the_later_position(
    acks: list[Ack],
) -> None:
    step = next_step(PENDING, folded(*acks), 2)
    assert step == Prepare(Timestamp(50), KNOWN, {0: 300, 1: 7})


def test_a_second_registration_does_not_take_back_what_came_after_the_first() -> None:
    active, again = Active(FEED, FIRST_EPOCH, 0), registered(0, 50, 300)
    assert folded(registered(0, 10, 100), active, again) == by_partition(active)


@given(st.permutations([registered(0, 5), Active(FEED, FIRST_EPOCH, 0), Removed(FEED, FIRST_EPOCH, 0)]))
def test_acknowledgements_fold_to_the_furthest_in_any_order(acks: list[Ack]) -> None:
    folded = Acknowledgements(FIRST_EPOCH)
    for ack in [*acks, *acks]:
        folded.add(ack)
    assert folded.by_partition() == {0: Removed(FEED, FIRST_EPOCH, 0)}


def test_acknowledgements_of_another_epoch_are_ignored() -> None:
    folded = Acknowledgements(FeedEpoch(2))
    folded.add(registered(0, 5))
    assert folded.by_partition() == {}


@dataclass
class LogPartition:
    """A log partition's part in the protocol: what its durable state remembers of one feed."""

    number: int
    applied: int = 0
    knows_table: bool = True
    position: int | None = None
    highest_at_registration: int = 0
    active: bool = False
    starts: set[Timestamp] = field(default_factory=set)

    def lose_state(self) -> None:
        """It reads its log again, to the present if nobody activates the feed before."""
        self.position, self.highest_at_registration, self.active = None, 0, False

    def answer(self, message: ControlMessage) -> Ack:
        match message:
            case Register() if self.active:
                return Active(FEED, FIRST_EPOCH, self.number)
            case Register():
                if self.position is None:
                    self.position, self.highest_at_registration = self.applied, self.applied
                tables = KNOWN if self.knows_table else ()
                return Registered(
                    FEED,
                    FIRST_EPOCH,
                    self.number,
                    self.position,
                    Timestamp(self.highest_at_registration),
                    tables,
                )
            case Activate(definition, start, _) if (
                definition.options.cursor is None
                and not self.active
                and start < Timestamp(self.highest_at_registration)
            ):
                return Failed(FEED, FIRST_EPOCH, self.number, "rows above the start had passed")
            case Activate(_, start, _):
                self.starts.add(start)
                self.active = True
                return Active(FEED, FIRST_EPOCH, self.number)
            case Remove():
                self.lose_state()
                return Removed(FEED, FIRST_EPOCH, self.number)


class Cluster:
    """The durable world: a jobs topic, control messages on their way, acknowledgements on theirs."""

    def __init__(self, partitions: list[LogPartition], definition: FeedDefinition = DEFINITION) -> None:
        self.partitions = partitions
        self.definition = definition
        self.jobs: list[JobRecord] = [DefinitionRecord(definition)]
        self.messages: list[tuple[int, bytes]] = []
        self.acks: list[bytes] = []

    def agent_looks(self, seen: int, *, crashes: bool) -> Step:
        """A jobs agent that has read ``seen`` of the acknowledgements does its next step, or dies in it."""
        view, acks = JobsView(), Acknowledgements(FIRST_EPOCH)
        for record in self.jobs:
            view.apply(record.key, record.to_bytes())
        known = [read_ack(value) for value in self.acks[:seen]]
        for ack in known:
            acks.add(ack)
        step = next_step(view[FEED], acks.by_partition(), len(self.partitions))
        if isinstance(step, Prepare) and self.definition.options.cursor is None:
            assert step.start == max(ack.highest for ack in known if isinstance(ack, Registered))
        if not crashes:
            self.carry_out(step)
        return step

    def carry_out(self, step: Step) -> None:
        match step:
            case Announce(message, partitions):
                self.messages += [(number, message.to_bytes()) for number in partitions]
            case Prepare():
                self.jobs.append(starting_state(self.definition, step, (TARGET,)))
            case StoreState(record):
                self.jobs.append(record)
            case Settled():
                pass

    def frontier_persists(self) -> None:
        """A frontier agent does, once every partition has written its rows of the scan."""
        starts = set().union(*(partition.starts for partition in self.partitions))
        if starts and all(partition.starts for partition in self.partitions):
            high_water = ResolvedTimestamp(max(starts))
            self.jobs.append(ProgressRecord(FEED, FIRST_EPOCH, high_water, {}))

    def partition_answers(self, which: int) -> None:
        """Deliver a message, which stays on its way and may come again."""
        number, message = self.messages[which % len(self.messages)]
        self.acks.append(self.partitions[number].answer(read_control(message)).to_bytes())


def happen(data: st.DataObject, cluster: Cluster, events: list[str]) -> None:
    """Some of ``events``, in any order; the agent may have read any part of the acknowledgements."""
    for _ in range(data.draw(st.integers(0, 30))):
        event = data.draw(st.sampled_from(events))
        if event == "apply":
            data.draw(st.sampled_from(cluster.partitions)).applied += data.draw(st.integers(1, 5))
        elif event == "lose":
            data.draw(st.sampled_from(cluster.partitions)).lose_state()
        elif event == "answer":
            if cluster.messages:
                cluster.partition_answers(data.draw(st.integers(0, len(cluster.messages) - 1)))
        elif event == "persist":
            cluster.frontier_persists()
        else:
            seen = data.draw(st.integers(0, len(cluster.acks)))
            cluster.agent_looks(seen, crashes=event == "crash")


@given(st.data())
def test_one_start_whatever_happens(data: st.DataObject) -> None:
    partitions = [
        LogPartition(number, data.draw(st.integers(0, 20)), knows_table=number == 0)
        for number in range(data.draw(st.integers(1, 4)))
    ]
    cluster = Cluster(partitions)
    happen(data, cluster, ["look", "crash", "answer", "apply"])
    settle(cluster)
    starts = set().union(*(partition.starts for partition in partitions))
    assert len(starts) == 1
    assert all(starts == partition.starts for partition in partitions)
    assert min(starts) >= Timestamp(max(partition.highest_at_registration for partition in partitions))
    assert {record.start for record in cluster.jobs if isinstance(record, StateRecord)} == starts


@given(st.data())
def test_partitions_that_lose_their_state_have_one_start_with_nothing_missing_or_a_failed_feed(
    data: st.DataObject,
) -> None:
    partitions = [LogPartition(number, data.draw(st.integers(0, 20))) for number in range(2)]
    cluster = Cluster(partitions)
    happen(data, cluster, ["look", "crash", "answer", "apply", "lose"])
    settle(cluster)
    records = [record for record in cluster.jobs if isinstance(record, StateRecord)]
    starts = set().union(*(partition.starts for partition in partitions))
    assert len({record.start for record in records if record.start is not None}) <= 1
    assert starts <= {record.start for record in records}
    for partition in partitions:
        if partition.active:
            assert min(partition.starts) >= Timestamp(partition.highest_at_registration)
    highest = Timestamp(max(partition.highest_at_registration for partition in partitions))
    assert records[-1].state is FeedState.FAILED or min(starts) >= highest


@given(st.data())
def test_a_scan_succeeds_once_and_is_forgotten_everywhere_whatever_is_lost_repeated_or_restarted(
    data: st.DataObject,
) -> None:
    """A crash of the jobs agent is one between any two of the steps Z3 to Z6 of docs/catch-up.md."""
    cursor = data.draw(st.none() | st.integers(0, 30).map(Timestamp))
    definition = replace(SCAN_ONLY, options=replace(SCAN_ONLY.options, cursor=cursor))
    partitions = [LogPartition(number, data.draw(st.integers(0, 20))) for number in range(2)]
    cluster = Cluster(partitions, definition)
    happen(data, cluster, ["look", "crash", "answer", "answer", "apply", "persist"])
    settle(cluster)
    cluster.frontier_persists()
    settle(cluster)
    stored = [record for record in cluster.jobs if isinstance(record, StateRecord)]
    states = [record.state for record in stored]
    success = states.index(FeedState.SUCCEEDED)
    assert set(states[success:]) == {FeedState.SUCCEEDED}
    assert any(
        isinstance(record, ProgressRecord) for record in cluster.jobs[: cluster.jobs.index(stored[success])]
    )
    assert cursor is None or {record.start for record in stored} == {cursor}
    acks = Acknowledgements(FIRST_EPOCH)
    for value in cluster.acks:
        acks.add(read_ack(value))
    assert all(isinstance(ack, Removed) for ack in acks.by_partition().values())
    assert len(acks.by_partition()) == len(partitions)


def settle(cluster: Cluster) -> None:
    """Let everything through, in order, until the jobs agent has nothing to do."""
    for _ in range(10):
        step = cluster.agent_looks(len(cluster.acks), crashes=False)
        if step == Settled():
            return
        for which in range(len(cluster.messages)):
            cluster.partition_answers(which)
    raise AssertionError("the feed never came to rest")


def test_a_feed_of_several_tables_resolves_them_in_the_order_of_the_definition() -> None:
    items = TableName("items")
    definition = replace(DEFINITION, tables=(ORDERS, items))
    tables = (KnownTable(items, 105), KnownTable(ORDERS, 104))
    step = next_step(FeedView(defined=definition), by_partition(registered(0, 1, tables=tables)), 1)
    assert isinstance(step, Prepare)
    assert [known.table for known in step.tables] == [ORDERS, items]
