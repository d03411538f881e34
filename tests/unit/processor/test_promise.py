"""The promise at the level of one step: rows, and the checkpoints that speak of them."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.feeds import activation
from tests.hand_log import HandLog, at, intent, moved
from tests.unit.processor.driving import Driven, active, range_of, rows_of, timestamp_of
from tests.unit.processor.logs import OTHER, PARTITIONS, PLAIN, bank_log, eventful_log
from tidegate.changefeed.lifecycle.control import Register
from tidegate.hlc import ZERO, Timestamp
from tidegate.processor.batch import StepResult
from tidegate.processor.processor import PartitionProcessor
from tidegate.raftlog.entry import RangeId, Trigger

_FEED = activation([PLAIN.descriptor, OTHER.descriptor])


def _assert_checkpoints_hold(results: Iterable[StepResult]) -> None:
    """A result's rows come before its checkpoint; none at or below an earlier one of its range."""
    last: dict[RangeId, Timestamp] = {}
    for result in results:
        for record in rows_of(result):
            assert timestamp_of(record) > last.get(range_of(record), ZERO)
        for item in result.checkpoint.ranges if result.checkpoint is not None else ():
            assert item.resolved.logical == 0
            assert item.resolved > last.get(item.range_id, ZERO), "a checkpoint fell or was repeated"
            last[item.range_id] = item.resolved


@given(
    seed=st.integers(0, 15), partition=st.integers(0, PARTITIONS - 1), batch=st.sampled_from([1, 4, 30, 999])
)
@examples(20)
def test_no_row_at_or_below_a_checkpoint_comes_after_it(seed: int, partition: int, batch: int) -> None:
    log = bank_log(seed)
    driven = Driven(PartitionProcessor(partition, PARTITIONS))
    driven.control(activation(log.tables))
    driven.run(log.partitions[partition], batch)
    assert driven.checkpoints
    _assert_checkpoints_hold(driven.results)


@pytest.mark.parametrize("batch", [1, 2, 3, 5, 8, 99])
def test_no_row_follows_its_checkpoint_in_a_log_of_holes_splits_and_ends(batch: int) -> None:
    driven = active(_FEED)
    driven.run(eventful_log(), batch)
    _assert_checkpoints_hold(driven.results)


@pytest.mark.parametrize("batch", [1, 4, 99])
def test_everything_before_a_hole_and_after_a_split_comes_out(batch: int) -> None:
    driven = active(_FEED)
    driven.run(eventful_log(), batch)
    found = [(record.key, timestamp_of(record)) for record in driven.rows]
    assert found == [
        (b"[1]", at(1)),
        (b"[100]", at(4)),
        (b"[2]", at(7)),
        (b"[1]", at(7)),
        (b"[3]", at(8)),
        (b"[3]", at(9)),
        (b"[101]", at(9)),
    ]
    assert driven.checkpoints[RangeId(1)].resolved == at(12)
    assert driven.checkpoints[RangeId(1)].generation == 2
    assert driven.checkpoints[RangeId(3)].resolved <= at(4)


def test_a_checkpoint_stays_below_an_open_intent() -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    log.open_range(1, PLAIN.span).apply(intent(1, 5), close=9)
    driven = active(_FEED)
    driven.run(log.partitions[0])
    assert driven.checkpoints[RangeId(1)].resolved == Timestamp(at(5).wall - 1)


def test_a_pushed_transaction_lets_the_checkpoint_rise_to_its_new_timestamp() -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    log.open_range(1, PLAIN.span).apply(intent(1, 5), moved(1, 8), close=9)
    driven = active(_FEED)
    driven.run(log.partitions[0])
    assert driven.checkpoints[RangeId(1)].resolved == Timestamp(at(8).wall - 1)


def test_a_checkpoint_names_the_feeds_that_it_holds_for_and_the_position() -> None:
    other = activation([OTHER.descriptor], feed_id="second")
    driven = Driven()
    driven.control(_FEED, other)
    result = driven.step(eventful_log()[:6])
    assert result.checkpoint is not None
    assert [feed.feed_id for feed in result.checkpoint.feeds] == ["feed", "second"]
    assert result.checkpoint.offset == result.offset == 5


def test_a_range_that_no_feed_watches_gives_no_checkpoint() -> None:
    driven = active(activation([OTHER.descriptor]))
    driven.run(eventful_log())
    assert set(driven.checkpoints) == {3}


def test_a_heartbeat_alone_moves_the_checkpoint_of_an_idle_range() -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    log.open_range(1, PLAIN.span, close=1).heartbeat(7)
    driven = active(_FEED)
    steps = driven.run(log.partitions[0], batch=1)
    assert steps[-1].checkpoint is not None
    assert [item.resolved for item in steps[-1].checkpoint.ranges] == [at(7)]


def test_an_activation_gives_the_whole_checkpoint_at_once() -> None:
    driven = Driven()
    driven.run(eventful_log())
    assert driven.checkpoints == {}
    driven.control(Register(_FEED.definition), activation([PLAIN.descriptor, OTHER.descriptor], start=at(9)))
    assert set(driven.checkpoints) == {1, 3}, "the ended range gives none, the quarantined one its last"


@pytest.mark.parametrize("restarted", [False, True])
def test_a_new_generation_that_closes_lower_cannot_bring_a_row_below_an_earlier_checkpoint(
    restarted: bool,
) -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    handle = log.open_range(1, PLAIN.span)
    handle.apply(PLAIN.put(5, 1, "a"), close=10)
    handle.apply(trigger=Trigger.SPLIT)
    handle.generation += 1
    handle.snapshot(close=1)
    before = len(log.partitions[0])
    handle.apply(PLAIN.put(6, 1, "late"), close=12)
    driven = active(activation([PLAIN.descriptor]))
    driven.run(log.partitions[0][:before], batch=1)
    if restarted:
        driven = Driven.restored(driven.state)
    driven.run(log.partitions[0][before:], batch=1)
    assert [timestamp_of(record) for record in driven.rows if timestamp_of(record) == at(6)] == []
    (quarantined,) = driven.processor.status().quarantined
    assert "an earlier generation" in quarantined.cause
