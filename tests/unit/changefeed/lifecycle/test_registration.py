"""A feed starts at one timestamp, whatever is lost, repeated, reordered or restarted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.changefeed.feeds import DEFINITION, FEED, ORDERS, TARGET
from tests.unit.changefeed.lifecycle.hand_cluster import (
    KNOWN,
    PENDING,
    SCAN_ONLY,
    Cluster,
    LogPartition,
    by_partition,
    folded,
    happen,
    registered,
    settle,
)
from tidegate.changefeed.definition.feed import FIRST_EPOCH, FeedEpoch, FeedState, TableName
from tidegate.changefeed.lifecycle.control import (
    NO_PARTITION,
    Ack,
    Activate,
    Active,
    Failed,
    KnownTable,
    Register,
    Remove,
    Removed,
)
from tidegate.changefeed.lifecycle.job_records import DropRecord, StateRecord
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.changefeed.lifecycle.registration import (
    Acknowledgements,
    Announce,
    Prepare,
    Settled,
    StoreState,
    next_step,
)
from tidegate.errors import StateError
from tidegate.hlc import Timestamp


def test_partitions_that_have_not_answered_are_told_again() -> None:
    step = next_step(PENDING, by_partition(registered(1, 5)), 3)
    assert step == Announce(Register(DEFINITION), (0, 2))


def test_the_start_is_the_highest_timestamp_that_any_partition_had_applied() -> None:
    step = next_step(PENDING, by_partition(registered(0, 5, 10), registered(1, 9, 20)), 2)
    assert step == Prepare(Timestamp(9), KNOWN, {0: 10, 1: 20}, is_from_now=True)


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


def test_a_started_state_without_a_start_is_refused() -> None:
    stored = StateRecord(FEED, FIRST_EPOCH, FeedState.STARTING)
    with pytest.raises(StateError, match="no start is stored"):
        next_step(replace(PENDING, state=stored), {}, 1)


@given(st.permutations([registered(0, 10, 100), registered(0, 50, 300), registered(1, 12, 7)]))
def test_a_partition_that_registered_again_after_its_state_was_lost_counts_as_of_the_later_position(
    acks: list[Ack],
) -> None:
    step = next_step(PENDING, folded(*acks), 2)
    assert step == Prepare(Timestamp(50), KNOWN, {0: 300, 1: 7}, is_from_now=True)


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


def test_a_feed_of_several_tables_resolves_them_in_the_order_of_the_definition() -> None:
    items = TableName("items")
    definition = replace(DEFINITION, tables=(ORDERS, items))
    tables = (KnownTable(items, 105), KnownTable(ORDERS, 104))
    step = next_step(FeedView(defined=definition), by_partition(registered(0, 1, tables=tables)), 1)
    assert isinstance(step, Prepare)
    assert [known.table for known in step.tables] == [ORDERS, items]


def test_a_feed_whose_markers_could_not_begin_is_forgotten_by_partitions_alone() -> None:
    acks = by_partition(Failed(FEED, FIRST_EPOCH, NO_PARTITION, "no producer"), registered(1, 5))
    step = next_step(PENDING, acks, 2)
    assert isinstance(step, StoreState)
    feed = replace(PENDING, state=step.record)
    assert next_step(feed, acks, 2) == Announce(Remove(FEED, FIRST_EPOCH), (1,))
    acks |= by_partition(Removed(FEED, FIRST_EPOCH, 1))
    assert next_step(feed, acks, 2) == Settled()
