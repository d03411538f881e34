"""Feeds that are a scan of their tables: when they have succeeded, and who forgets them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.changefeed.feeds import DEFINITION, FEED, TARGET
from tests.unit.changefeed.lifecycle.hand_cluster import (
    ACTIVE,
    SCAN_ONLY,
    Cluster,
    LogPartition,
    happen,
    settle,
)
from tidegate.changefeed.definition.feed import FIRST_EPOCH, FeedEpoch, FeedState
from tidegate.changefeed.definition.options import InitialScan
from tidegate.changefeed.lifecycle.control import Active, Failed, Remove, Removed, read_ack
from tidegate.changefeed.lifecycle.job_records import DropRecord, ProgressRecord, StateRecord
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.changefeed.lifecycle.registration import (
    Acknowledgements,
    Announce,
    Settled,
    StoreState,
    next_step,
)
from tidegate.hlc import ResolvedTimestamp, Timestamp


def _scanning(high_water: Timestamp | None, state: FeedState = FeedState.RUNNING) -> FeedView:
    """A feed that is a scan at 9.2 only, and the progress that was persisted."""
    progress = (
        None if high_water is None else ProgressRecord(FEED, FIRST_EPOCH, ResolvedTimestamp(high_water), {})
    )
    stored = StateRecord(FEED, FIRST_EPOCH, state, Timestamp(9, 2), (TARGET,))
    return FeedView(SCAN_ONLY, state=stored, progress=progress)


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


@given(st.data())
def test_a_scan_succeeds_once_and_is_forgotten_everywhere_whatever_is_lost_repeated_or_restarted(
    data: st.DataObject,
) -> None:
    """A crash of the jobs agent is one between any two of the steps Z3 to Z6 of
    docs/protocols/initial-scans.md."""
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
