"""Steps 2 to 8 of one log partition: what is committed, and what must have been acknowledged before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Executor, Future
from typing import Any, Final

import pytest

from tests.feeds import activation
from tests.hand_log import HandLog, HandTable
from tests.logs import Record
from tests.unit.worker.hand_ids import HandIds
from tests.unit.worker.hand_limits import PATIENT
from tidegate.changefeed.lifecycle.control import ControlMessage, Failed, Register, Registered, Remove
from tidegate.processor.batch import ControlRecord, OutputRecord, StepResult
from tidegate.processor.processor import PartitionProcessor
from tidegate.raftlog.entry import Offset
from tidegate.worker.commit.commit_loop import CommitLimits, CommitLoop, Threads
from tidegate.worker.kafka.fetched import FetchedBatch
from tidegate.worker.output.row_producer import Barrier

_TABLE: Final = HandTable.of(104, "plain")
_FEED: Final = activation([_TABLE.descriptor])
_LATE: Final = activation([_TABLE.descriptor], feed_id="late")
_LATER: Final = activation([_TABLE.descriptor], feed_id="later")
_SETTLED: Final = 200  # turns of the loop: with everything run in place, far more than any reaction takes


class InPlace(Executor):
    """Runs everything at once, so that only the loop decides what comes next."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


class _Sink:
    """Takes rows, and acknowledges them when it is told to."""

    is_over = False

    def __init__(self) -> None:
        self.rows: list[OutputRecord] = []
        self._barriers: list[Barrier] = []

    is_held = False

    def send(self, rows: Sequence[OutputRecord], barrier: Barrier, first: int = 0) -> int:
        self.rows += rows[first:]
        self._barriers += [barrier] * len(rows[first:])
        return len(rows)

    def acknowledge(self, *which: int) -> None:
        """Acknowledge the rows at these positions."""
        for number in which:
            self._barriers[number].delivered(None, None)


class _Writer:
    def __init__(self) -> None:
        self.transactions: list[list[StepResult]] = []

    def commit(self, results: Sequence[StepResult]) -> None:
        self.transactions.append(list(results))

    @property
    def offsets(self) -> list[int]:
        """The log positions that were committed, in order."""
        return [int(r.offset) for group in self.transactions for r in group if r.offset is not None]


class _Valve:
    def __init__(self) -> None:
        self.calls: list[str] = []

    def halt(self) -> None:
        self.calls.append("halt")

    def proceed(self) -> None:
        self.calls.append("proceed")


class _Driven:
    """A pipeline over a log in which every record from the third on is a row."""

    def __init__(
        self, *, inflight: int = 3, present: int = 0, processor: PartitionProcessor | None = None
    ) -> None:
        log = HandLog(partitions=1)
        log.describe(_TABLE)
        rows = log.open_range(1, _TABLE.span)
        for second in range(1, 10):
            rows.apply(_TABLE.put(second, second, "x"), close=second)
        self.records: tuple[Record, ...] = log.partitions[0]
        self.sink, self.writer, self.valve = _Sink(), _Writer(), _Valve()
        self.now = 1_000.0
        self.processor = processor or PartitionProcessor(0, 1)
        self.processor.control([ControlRecord(Offset(0), _FEED)])
        threads = Threads(InPlace(), InPlace())
        limits = CommitLimits(batch_records=1, inflight_batches=inflight, queued_batches=4, outlets=PATIENT)
        self.pipeline = CommitLoop(
            self.processor,
            self.writer,
            lambda _: lambda: self.sink,
            self.valve,
            threads,
            limits,
            schema_ids=HandIds(),
            present=present,
            held_limit_s=60.0,
            clock=lambda: self.now,
        )
        self.pipeline.start()

    @property
    def next_offset(self) -> int:
        """How far the processor has come."""
        return self.processor.next_offset or 0

    @property
    def registered(self) -> list[Registered]:
        """The answers to registrations that were committed."""
        results = (result for group in self.writer.transactions for result in group)
        return [ack for result in results for ack in result.acks if isinstance(ack, Registered)]

    @property
    def failures(self) -> list[Failed]:
        """The failures that were committed."""
        results = (result for group in self.writer.transactions for result in group)
        return [ack for result in results for ack in result.acks if isinstance(ack, Failed)]

    async def tell(self, offset: int, message: ControlMessage) -> None:
        """A message of the control topic."""
        self.pipeline.control([ControlRecord(Offset(offset), message)])
        await settle()

    async def passes(self, seconds: float) -> None:
        """Time goes by, and the pipeline looks at the clock."""
        self.now += seconds
        self.pipeline.control([])
        await settle()

    async def offer(self, first: int, end: int) -> None:
        """Offer records [first, end), each as a batch of its own."""
        for number in range(first, end):
            records = self.records[number : number + 1]
            self.pipeline.offer(FetchedBatch("log", 0, number, number + 1, len(self.records), records))
        await settle()


async def settle() -> None:
    """Let the loop turn until nothing happens any more."""
    for _ in range(_SETTLED):
        await asyncio.sleep(0)


def _run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario())


def test_nothing_is_committed_before_every_row_of_its_batch_is_acknowledged() -> None:
    async def scenario() -> None:
        driven = _Driven()
        await driven.offer(0, 3)
        assert len(driven.sink.rows) == 1
        assert driven.writer.offsets == [0, 1], "the batches without rows"
        driven.sink.acknowledge(0)
        await settle()
        assert driven.writer.offsets == [0, 1, 2]
        await driven.pipeline.drain()

    _run(scenario)


@pytest.mark.parametrize("last", range(4))
def test_a_batch_waits_for_the_last_of_its_rows_in_whatever_order_they_come(last: int) -> None:
    async def scenario() -> None:
        driven = _Driven()
        driven.pipeline.offer(FetchedBatch("log", 0, 0, 6, 6, driven.records[:6]))
        await settle()
        driven.sink.acknowledge(*({0, 1, 2, 3} - {last}))
        await settle()
        assert driven.writer.offsets == []
        driven.sink.acknowledge(last)
        await settle()
        assert driven.writer.offsets == [5]
        await driven.pipeline.drain()

    _run(scenario)


def test_a_batch_is_not_committed_over_one_that_still_waits() -> None:
    async def scenario() -> None:
        driven = _Driven()
        await driven.offer(0, 5)
        driven.sink.acknowledge(0, 2)
        await settle()
        assert driven.writer.offsets == [0, 1, 2]
        driven.sink.acknowledge(1)
        await settle()
        assert driven.writer.offsets == [0, 1, 2, 3, 4]
        await driven.pipeline.drain()

    _run(scenario)


def test_batches_are_committed_in_order_whatever_is_acknowledged_first() -> None:
    async def scenario() -> None:
        driven = _Driven()
        await driven.offer(0, 5)
        driven.sink.acknowledge(1, 2)
        await settle()
        assert driven.writer.offsets == [0, 1]
        driven.sink.acknowledge(0)
        await settle()
        assert driven.writer.offsets == [0, 1, 2, 3, 4]
        assert len(driven.writer.transactions[-1]) == 3, "what is acknowledged shares a transaction"
        await driven.pipeline.drain()

    _run(scenario)


def test_a_commit_carries_state_and_checkpoint_of_its_own_moment() -> None:
    """Later batches were stepped long before the first is committed: its frozen changes are its own."""

    async def scenario() -> None:
        driven = _Driven()
        await driven.offer(0, 5)
        driven.sink.acknowledge(0)
        await settle()
        (committed,) = driven.writer.transactions[-1]
        assert committed.checkpoint is not None
        assert committed.checkpoint.offset == committed.offset == 2
        assert driven.next_offset == 5
        driven.sink.acknowledge(1, 2)
        await driven.pipeline.drain()

    _run(scenario)


@pytest.mark.parametrize("inflight", [1, 2, 4])
def test_no_more_batches_are_in_flight_than_allowed(inflight: int) -> None:
    async def scenario() -> None:
        driven = _Driven(inflight=inflight)
        await driven.offer(0, 11)
        assert len(driven.sink.rows) == inflight
        for number in range(9):
            driven.sink.acknowledge(number)
            await settle()
        assert driven.writer.offsets == list(range(11))
        await driven.pipeline.drain()

    _run(scenario)


def test_a_held_partition_steps_no_batch_until_it_is_released() -> None:
    async def scenario() -> None:
        driven = _Driven()
        other = activation([_TABLE.descriptor], feed_id="second")
        driven.pipeline.control([ControlRecord(Offset(1), Register(other.definition))])
        await driven.offer(0, 3)
        assert driven.next_offset == 0
        driven.pipeline.control([ControlRecord(Offset(2), other)])
        await settle()
        assert driven.next_offset == 3
        driven.sink.acknowledge(*range(len(driven.sink.rows)))
        await driven.pipeline.drain()

    _run(scenario)


def test_a_new_feed_is_registered_at_the_end_that_the_log_had_at_the_opening() -> None:
    async def scenario() -> None:
        driven = _Driven(inflight=9, present=5)
        other = activation([_TABLE.descriptor], feed_id="second")
        driven.pipeline.control([ControlRecord(Offset(1), Register(other.definition))])
        await driven.offer(0, 4)
        assert not driven.processor.held
        await driven.offer(4, 8)
        driven.sink.acknowledge(0, 1, 2)
        await settle()
        (answer,) = driven.registered
        assert answer.position == driven.next_offset == 5
        assert [known.table_id for known in answer.tables] == [104]
        await driven.pipeline.drain()

    _run(scenario)


def test_an_empty_log_lets_a_feed_register_at_once() -> None:
    async def scenario() -> None:
        driven = _Driven(present=0)
        other = activation([_TABLE.descriptor], feed_id="second")
        driven.pipeline.control([ControlRecord(Offset(1), Register(other.definition))])
        await settle()
        assert [answer.position for answer in driven.registered] == [0]
        await driven.pipeline.drain()

    _run(scenario)


@pytest.mark.parametrize("ended_by", ["an empty batch", "a cut"])
def test_the_present_is_reached_where_nothing_but_offsets_is_left(ended_by: str) -> None:
    """Transactions end in offsets without records; and retention may have removed all that was there."""

    async def scenario() -> None:
        driven = _Driven(present=5)
        other = activation([_TABLE.descriptor], feed_id="second")
        driven.pipeline.control([ControlRecord(Offset(1), Register(other.definition))])
        await settle()
        assert driven.registered == []
        if ended_by == "a cut":
            driven.pipeline.cut(5)
        else:
            driven.pipeline.offer(FetchedBatch("log", 0, 0, 5, 5, ()))
        await settle()
        assert len(driven.registered) == 1
        await driven.pipeline.drain()

    _run(scenario)


def test_an_activation_never_waits_for_the_present() -> None:
    """Its rows may stand at the very beginning of the log."""

    async def scenario() -> None:
        driven = _Driven(inflight=9, present=11)
        other = activation([_TABLE.descriptor], feed_id="second")
        driven.pipeline.control([ControlRecord(Offset(1), other)])
        await driven.offer(0, 3)
        assert len(driven.sink.rows) == 2, "the row at offset 2, for both feeds"
        driven.sink.acknowledge(0, 1)
        await driven.pipeline.drain()

    _run(scenario)


def test_a_partition_that_is_held_from_before_registers_at_once() -> None:
    """It reads nothing until its feed starts, and that may wait for a partition that waits for this one."""

    async def scenario() -> None:
        driven = _Driven(present=5)
        first = activation([_TABLE.descriptor], feed_id="first")
        driven.processor.control([ControlRecord(Offset(1), Register(first.definition))])
        second = activation([_TABLE.descriptor], feed_id="second")
        driven.pipeline.control([ControlRecord(Offset(2), Register(second.definition))])
        await settle()
        assert [answer.feed_id for answer in driven.registered] == ["second"]
        await driven.pipeline.drain()

    _run(scenario)


def test_a_feed_that_is_removed_before_the_present_is_never_registered() -> None:
    async def scenario() -> None:
        driven = _Driven(inflight=9, present=3)
        other = activation([_TABLE.descriptor], feed_id="second").definition
        driven.pipeline.control([ControlRecord(Offset(1), Register(other))])
        driven.pipeline.control([ControlRecord(Offset(2), Remove(other.id, other.epoch))])
        await driven.offer(0, 4)
        assert driven.next_offset == 4, "the partition is not held"
        assert driven.registered == []
        driven.sink.acknowledge(0, 1)
        await driven.pipeline.drain()

    _run(scenario)


def test_draining_waits_for_what_is_in_flight_and_steps_nothing_more() -> None:
    async def scenario() -> None:
        driven = _Driven(inflight=1)
        await driven.offer(0, 6)
        draining = asyncio.ensure_future(driven.pipeline.drain())
        await settle()
        assert not draining.done()
        driven.sink.acknowledge(0)
        await draining
        assert driven.writer.offsets == [0, 1, 2]
        assert driven.next_offset == 3

    _run(scenario)


def test_a_full_queue_asks_for_no_more_and_an_emptied_one_for_the_next() -> None:
    async def scenario() -> None:
        driven = _Driven(inflight=1)
        await driven.offer(0, 8)
        assert driven.valve.calls.count("halt") >= 1
        before = driven.valve.calls.count("proceed")
        for number in range(6):
            driven.sink.acknowledge(number)
            await settle()
        assert driven.valve.calls.count("proceed") > before
        await driven.pipeline.drain()

    _run(scenario)


# ---- held for too long


def test_a_partition_that_is_held_for_too_long_fails_the_feeds_that_hold_it_and_reads_on() -> None:
    async def scenario() -> None:
        driven = _Driven()
        await driven.tell(1, Register(_LATE.definition))
        await driven.offer(0, 3)
        await driven.passes(59.9)
        assert (driven.next_offset, driven.failures) == (0, [])
        await driven.passes(0.2)
        assert [failure.feed_id for failure in driven.failures] == ["late"]
        assert "held for 60 s" in driven.failures[0].reason
        assert driven.next_offset == 3
        assert len(driven.sink.rows) == 1, "the other feed has its row"
        driven.sink.acknowledge(0)
        await driven.pipeline.drain()

    _run(scenario)


def test_the_pipeline_wakes_by_itself_when_the_time_is_over() -> None:
    """Nobody sends a held partition anything."""

    async def scenario() -> None:
        driven = _Driven()
        await driven.passes(0)
        await driven.tell(1, Register(_LATE.definition))
        await driven.passes(59.99)
        driven.now += 0.01
        while not driven.failures:  # noqa: ASYNC110 - pytest's time limit ends it
            await asyncio.sleep(0.001)
        await driven.pipeline.drain()

    _run(scenario)


def test_a_start_that_comes_in_the_same_moment_counts() -> None:
    async def scenario() -> None:
        driven = _Driven()
        await driven.tell(1, Register(_LATE.definition))
        driven.now += 60
        await driven.tell(2, _LATE)
        assert driven.failures == []
        await driven.offer(0, 3)
        assert len(driven.sink.rows) == 2
        driven.sink.acknowledge(0, 1)
        await driven.pipeline.drain()

    _run(scenario)


def test_a_start_that_comes_after_it_is_answered_by_the_failure() -> None:
    async def scenario() -> None:
        driven = _Driven()
        await driven.tell(1, Register(_LATE.definition))
        await driven.passes(60)
        await driven.tell(2, _LATE)
        first, second = driven.failures
        assert first == second
        await driven.pipeline.drain()

    _run(scenario)


def test_a_removal_releases_the_partition_and_ends_the_time() -> None:
    async def scenario() -> None:
        driven = _Driven()
        await driven.tell(1, Register(_LATE.definition))
        await driven.passes(59)
        await driven.tell(2, Remove(_LATE.feed_id, _LATE.definition.epoch))
        await driven.passes(99)
        assert driven.failures == []
        await driven.tell(3, Register(_LATER.definition))
        await driven.passes(59)
        assert driven.failures == [], "the next feed has the whole time"
        await driven.passes(1)
        assert [failure.feed_id for failure in driven.failures] == ["later"]
        await driven.pipeline.drain()

    _run(scenario)


def test_two_feeds_share_the_time_and_one_that_starts_begins_it_anew() -> None:
    async def scenario() -> None:
        driven = _Driven()
        await driven.tell(1, Register(_LATE.definition))
        await driven.passes(50)
        await driven.tell(2, Register(_LATER.definition))
        await driven.passes(5)
        await driven.tell(3, _LATE)
        await driven.passes(59)
        assert driven.failures == []
        await driven.passes(1)
        assert [failure.feed_id for failure in driven.failures] == ["later"]
        await driven.pipeline.drain()

    _run(scenario)


def test_another_feed_that_comes_to_wait_does_not_begin_the_time_anew() -> None:
    async def scenario() -> None:
        driven = _Driven()
        await driven.tell(1, Register(_LATE.definition))
        await driven.passes(50)
        await driven.tell(2, Register(_LATER.definition))
        await driven.passes(10)
        assert [failure.feed_id for failure in driven.failures] == ["late", "later"]
        await driven.pipeline.drain()

    _run(scenario)


def test_a_partition_that_is_opened_while_it_is_held_gives_up_too() -> None:
    async def scenario() -> None:
        processor = PartitionProcessor(0, 1)
        processor.control([ControlRecord(Offset(0), Register(_LATE.definition))])
        driven = _Driven(processor=processor)
        await settle()
        await driven.passes(59)
        assert driven.failures == []
        await driven.passes(1)
        assert [failure.feed_id for failure in driven.failures] == ["late"]
        await driven.pipeline.drain()

    _run(scenario)


def test_a_partition_that_nobody_holds_gives_nothing_up() -> None:
    async def scenario() -> None:
        driven = _Driven()
        await driven.offer(0, 2)
        await driven.passes(1_000)
        assert driven.failures == []
        await driven.pipeline.drain()

    _run(scenario)
