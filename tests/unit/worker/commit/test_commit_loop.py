"""Steps 2 to 8 of one log partition: what is committed, and what must have been acknowledged before."""

from __future__ import annotations

import asyncio

import pytest

from tests.feeds import activation
from tests.unit.worker.commit.hand_loop import TABLE, Driven, run, settle
from tidegate.changefeed.lifecycle.control import Register, Remove
from tidegate.processor.batch import ControlRecord
from tidegate.raftlog.entry import Offset
from tidegate.worker.kafka.fetched import FetchedBatch


def test_nothing_is_committed_before_every_row_of_its_batch_is_acknowledged() -> None:
    async def scenario() -> None:
        driven = Driven()
        await driven.queue_records(0, 3)
        assert len(driven.sink.rows) == 1
        assert driven.writer.offsets == [0, 1], "the batches without rows"
        driven.sink.acknowledge(0)
        await settle()
        assert driven.writer.offsets == [0, 1, 2]
        await driven.commit_loop.drain()

    run(scenario)


@pytest.mark.parametrize("last", range(4))
def test_a_batch_waits_for_the_last_of_its_rows_in_whatever_order_they_come(last: int) -> None:
    async def scenario() -> None:
        driven = Driven()
        driven.commit_loop.queue_batch(FetchedBatch("log", 0, 0, 6, 6, driven.records[:6]))
        await settle()
        driven.sink.acknowledge(*({0, 1, 2, 3} - {last}))
        await settle()
        assert driven.writer.offsets == []
        driven.sink.acknowledge(last)
        await settle()
        assert driven.writer.offsets == [5]
        await driven.commit_loop.drain()

    run(scenario)


def test_a_batch_is_not_committed_over_one_that_still_waits() -> None:
    async def scenario() -> None:
        driven = Driven()
        await driven.queue_records(0, 5)
        driven.sink.acknowledge(0, 2)
        await settle()
        assert driven.writer.offsets == [0, 1, 2]
        driven.sink.acknowledge(1)
        await settle()
        assert driven.writer.offsets == [0, 1, 2, 3, 4]
        await driven.commit_loop.drain()

    run(scenario)


def test_batches_are_committed_in_order_whatever_is_acknowledged_first() -> None:
    async def scenario() -> None:
        driven = Driven()
        await driven.queue_records(0, 5)
        driven.sink.acknowledge(1, 2)
        await settle()
        assert driven.writer.offsets == [0, 1]
        driven.sink.acknowledge(0)
        await settle()
        assert driven.writer.offsets == [0, 1, 2, 3, 4]
        assert len(driven.writer.transactions[-1]) == 3, "what is acknowledged shares a transaction"
        await driven.commit_loop.drain()

    run(scenario)


def test_a_commit_carries_state_and_checkpoint_of_its_own_moment() -> None:
    """Later batches were stepped long before the first is committed: its frozen changes are its own."""

    async def scenario() -> None:
        driven = Driven()
        await driven.queue_records(0, 5)
        driven.sink.acknowledge(0)
        await settle()
        (committed,) = driven.writer.transactions[-1]
        assert committed.checkpoint is not None
        assert committed.checkpoint.offset == committed.offset == 2
        assert driven.next_offset == 5
        driven.sink.acknowledge(1, 2)
        await driven.commit_loop.drain()

    run(scenario)


@pytest.mark.parametrize("inflight", [1, 2, 4])
def test_no_more_batches_are_in_flight_than_allowed(inflight: int) -> None:
    async def scenario() -> None:
        driven = Driven(inflight=inflight)
        await driven.queue_records(0, 11)
        assert len(driven.sink.rows) == inflight
        for number in range(9):
            driven.sink.acknowledge(number)
            await settle()
        assert driven.writer.offsets == list(range(11))
        await driven.commit_loop.drain()

    run(scenario)


def test_a_held_partition_steps_no_batch_until_it_is_released() -> None:
    async def scenario() -> None:
        driven = Driven()
        other = activation([TABLE.descriptor], feed_id="second")
        driven.commit_loop.control([ControlRecord(Offset(1), Register(other.definition))])
        await driven.queue_records(0, 3)
        assert driven.next_offset == 0
        driven.commit_loop.control([ControlRecord(Offset(2), other)])
        await settle()
        assert driven.next_offset == 3
        driven.sink.acknowledge(*range(len(driven.sink.rows)))
        await driven.commit_loop.drain()

    run(scenario)


def test_a_new_feed_is_registered_at_the_end_that_the_log_had_at_the_opening() -> None:
    async def scenario() -> None:
        driven = Driven(inflight=9, present=5)
        other = activation([TABLE.descriptor], feed_id="second")
        driven.commit_loop.control([ControlRecord(Offset(1), Register(other.definition))])
        await driven.queue_records(0, 4)
        assert not driven.processor.held
        await driven.queue_records(4, 8)
        driven.sink.acknowledge(0, 1, 2)
        await settle()
        (answer,) = driven.registered
        assert answer.position == driven.next_offset == 5
        assert [known.table_id for known in answer.tables] == [104]
        await driven.commit_loop.drain()

    run(scenario)


def test_an_empty_log_lets_a_feed_register_at_once() -> None:
    async def scenario() -> None:
        driven = Driven(present=0)
        other = activation([TABLE.descriptor], feed_id="second")
        driven.commit_loop.control([ControlRecord(Offset(1), Register(other.definition))])
        await settle()
        assert [answer.position for answer in driven.registered] == [0]
        await driven.commit_loop.drain()

    run(scenario)


@pytest.mark.parametrize("ended_by", ["an empty batch", "a cut"])
def test_the_present_is_reached_where_nothing_but_offsets_is_left(ended_by: str) -> None:
    """Transactions end in offsets without records; and retention may have removed all that was there."""

    async def scenario() -> None:
        driven = Driven(present=5)
        other = activation([TABLE.descriptor], feed_id="second")
        driven.commit_loop.control([ControlRecord(Offset(1), Register(other.definition))])
        await settle()
        assert driven.registered == []
        if ended_by == "a cut":
            driven.commit_loop.cut(5)
        else:
            driven.commit_loop.queue_batch(FetchedBatch("log", 0, 0, 5, 5, ()))
        await settle()
        assert len(driven.registered) == 1
        await driven.commit_loop.drain()

    run(scenario)


def test_an_activation_never_waits_for_the_present() -> None:
    """Its rows may stand at the very beginning of the log."""

    async def scenario() -> None:
        driven = Driven(inflight=9, present=11)
        other = activation([TABLE.descriptor], feed_id="second")
        driven.commit_loop.control([ControlRecord(Offset(1), other)])
        await driven.queue_records(0, 3)
        assert len(driven.sink.rows) == 2, "the row at offset 2, for both feeds"
        driven.sink.acknowledge(0, 1)
        await driven.commit_loop.drain()

    run(scenario)


def test_a_partition_that_is_held_from_before_registers_at_once() -> None:
    """It reads nothing until its feed starts, and that may wait for a partition that waits for this one."""

    async def scenario() -> None:
        driven = Driven(present=5)
        first = activation([TABLE.descriptor], feed_id="first")
        driven.processor.control([ControlRecord(Offset(1), Register(first.definition))])
        second = activation([TABLE.descriptor], feed_id="second")
        driven.commit_loop.control([ControlRecord(Offset(2), Register(second.definition))])
        await settle()
        assert [answer.feed_id for answer in driven.registered] == ["second"]
        await driven.commit_loop.drain()

    run(scenario)


def test_a_feed_that_is_removed_before_the_present_is_never_registered() -> None:
    async def scenario() -> None:
        driven = Driven(inflight=9, present=3)
        other = activation([TABLE.descriptor], feed_id="second").definition
        driven.commit_loop.control([ControlRecord(Offset(1), Register(other))])
        driven.commit_loop.control([ControlRecord(Offset(2), Remove(other.id, other.epoch))])
        await driven.queue_records(0, 4)
        assert driven.next_offset == 4, "the partition is not held"
        assert driven.registered == []
        driven.sink.acknowledge(0, 1)
        await driven.commit_loop.drain()

    run(scenario)


def test_draining_waits_for_what_is_in_flight_and_steps_nothing_more() -> None:
    async def scenario() -> None:
        driven = Driven(inflight=1)
        await driven.queue_records(0, 6)
        draining = asyncio.ensure_future(driven.commit_loop.drain())
        await settle()
        assert not draining.done()
        driven.sink.acknowledge(0)
        await draining
        assert driven.writer.offsets == [0, 1, 2]
        assert driven.next_offset == 3

    run(scenario)


def test_a_full_queue_asks_for_no_more_and_an_emptied_one_for_the_next() -> None:
    async def scenario() -> None:
        driven = Driven(inflight=1)
        await driven.queue_records(0, 8)
        assert driven.valve.calls.count("halt") >= 1
        before = driven.valve.calls.count("proceed")
        for number in range(6):
            driven.sink.acknowledge(number)
            await settle()
        assert driven.valve.calls.count("proceed") > before
        await driven.commit_loop.drain()

    run(scenario)
