"""The ordered commit of one log partition: steps 2 to 8 of docs/protocols/batches.md.

Two tasks share the work. One takes input, steps the processor and hands rows to the row producers (2, 2a,
3). The other waits for acknowledgements in order and commits (4 to 8). Between them stand the batches in
flight, in order and bounded. If a step breaks, nothing more is stepped, and the partition is opened again
(docs/security.md, U2 and U3). Any other exception in either task ends the process.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Protocol, TypeVar

from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.lifecycle.control import HELD_LIMIT_S
from tidegate.processor.batch import ControlRecord, ExchangeRecord, Incident, LogRecord, StepResult
from tidegate.processor.containment import Caution, Input, StepBroke
from tidegate.processor.refused import RefusedRecord
from tidegate.processor.status import PartitionStatus
from tidegate.worker.commit.asked_ids import AskedIds
from tidegate.worker.commit.batch_queue import Batch, BatchQueue, Cut, Valve
from tidegate.worker.commit.framing import Answer, Framing, Wanted
from tidegate.worker.commit.hold_clock import HoldClock
from tidegate.worker.commit.in_flight import InFlight, InFlightBatches
from tidegate.worker.commit.partition_input import PartitionInput
from tidegate.worker.commit.stepper import Processor, RunningStep, Stepper
from tidegate.worker.kafka.fetched import FetchedBatch
from tidegate.worker.output.outlet import OutletChange, OutletLimits
from tidegate.worker.output.partition_outlets import Outlets
from tidegate.worker.output.row_writer import OpenRowWriter
from tidegate.worker.process.ending import end_process
from tidegate.worker.process.schema_ids import SchemaIds

#: A partition publishes its whole checkpoint this often. A frontier agent that begins anew waits for it.
FULL_CHECKPOINT_S: Final = 30.0
_NO_CAUTION: Final = Caution()

ArgumentT = TypeVar("ArgumentT")


class Writer(Protocol):
    """Makes results of steps durable: ``tidegate.worker.state.partition_writer.PartitionWriter.commit``."""

    def commit(self, results: Sequence[StepResult]) -> None: ...


@dataclass(frozen=True, slots=True)
class CommitLimits:
    """The bounds on a partition's batches, and on the rows that wait for its sinks.

    The fields have the names of settings: ``tidegate.worker.process.settings``.
    """

    batch_records: int
    inflight_batches: int
    queued_batches: int
    outlets: OutletLimits


@dataclass(frozen=True, slots=True)
class Threads:
    """The threads that do blocking work.

    One thread does the steps of all partitions: more would only share the interpreter's lock. Several do the
    commits, since these wait for the broker.
    """

    steps: Executor
    commits: Executor


class CommitLoop:
    """Runs the batches and control messages of one log partition through its processor, in order.

    ``present`` is the log position that must be reached before a new feed is registered. For a partition that
    has read nothing yet, it is the end of the log at the opening: so a feed starts at the present, and the
    tables' descriptors are known. For every other partition it is 0.

    ``held_limit_s`` is how long new feeds may hold the partition, in seconds of the monotonic ``clock``.
    ``broke`` is called when a step broke. Nothing is stepped after that, and ``drain`` waits for the batches
    in flight. ``reported`` is called with each incident of a step, and ``completed`` with each batch that is
    durable. ``kept`` stores one refused record. It is called in a thread of the commits.
    """

    def __init__(
        self,
        processor: Processor,
        writer: Writer,
        opener_of: Callable[[FeedId], OpenRowWriter],
        valve: Valve,
        threads: Threads,
        limits: CommitLimits,
        *,
        schema_ids: SchemaIds,
        caution: Caution = _NO_CAUTION,
        broke: Callable[[StepBroke], None] = end_process,
        present: int = 0,
        held_limit_s: float = HELD_LIMIT_S,
        clock: Callable[[], float] = time.monotonic,
        completed: Callable[[InFlight], None] = lambda flight: None,  # noqa: ARG005 - a default that ignores it
        reported: Callable[[Incident], None] = lambda incident: None,  # noqa: ARG005
        kept: Callable[[RefusedRecord], None] = lambda record: None,  # noqa: ARG005
    ) -> None:
        self.processor = processor
        self._writer = writer
        self._threads = threads
        self._framing = Framing(processor, schema_ids)
        self._stepper = Stepper(processor, self._framing, threads.steps, clock)
        #: Whether a batch waits for ids from a schema registry.
        self.waiting = False
        self._clock = clock
        self._hold = HoldClock(held_limit_s, clock)
        self._completed = completed
        self._reported = reported
        self._kept = kept
        #: Set when there may be something to do: input came, rows were acknowledged, or the end has come.
        self._news = asyncio.Event()
        self._broke = broke
        alone_to = caution.alone
        queue = BatchQueue(valve, limits.batch_records, limits.queued_batches, alone_to.get(Input.LOG, -1))
        self._input = PartitionInput(queue, present, self._news.set, alone_to)
        self.in_flight = InFlightBatches(limits.inflight_batches)
        self._draining = False
        self._checkpoint_due = clock()
        self.outlets = Outlets(self.status.partition, opener_of, limits.outlets, clock, self._news.set)
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def status(self) -> PartitionStatus:
        """The partition's state as operators see it: usually at most a second older than the last step.

        If making it takes long, it is made less often (``Stepper.look``).
        """
        return self._stepper.status

    @property
    def running_step(self) -> RunningStep:
        """The step that is under way now."""
        return self._stepper.running

    # ---- input, called by the loop

    def start(self) -> None:
        """Begin to work. The whole checkpoint is due at once (step O6)."""
        self._hold.look(self.processor.held_for)
        self._tasks = [
            asyncio.create_task(self._guarded(self._step_batches), name="steps"),
            asyncio.create_task(self._guarded(self._commit_batches), name="commits"),
        ]

    def queue_batch(self, batch: FetchedBatch) -> None:
        """Queue a batch of the log, and halt the flow when enough is queued."""
        self._input.queue_batch(batch)

    def control(self, records: Sequence[ControlRecord]) -> None:
        """Queue messages about feeds; they are taken up at a batch boundary.

        Registrations wait for the first boundary at or above ``present``, all other messages for the next
        boundary.
        """
        self._input.control(records)

    def exchange(self, records: Sequence[ExchangeRecord]) -> None:
        """Queue claims and hand-offs; they are taken up at the next batch boundary."""
        self._input.exchange(records)

    def cut(self, log_start: int) -> None:
        """Queue the news that the log begins at ``log_start``, above the offset that was to be read next."""
        self._input.cut(log_start)

    async def drain(self) -> None:
        """Step nothing more, and return when the batches in flight are durable.

        A batch that waits for a schema registry is not in flight yet. It is given up, since the wait could be
        long. Rows of detached feeds are given up too. A feed whose sink does not keep up is detached after
        ``OutletLimits.drain_s`` seconds at the latest. A detachment is a step, and no step may follow a batch
        that was given up. So once a batch is given up, no feed can be detached any more, and batches that
        wait for such a sink are given up too.
        """
        self._draining = True
        self.outlets.let_go()
        self._news.set()
        await asyncio.gather(*self._tasks)
        self.outlets.close()

    # ---- steps 2, 2a and 3

    async def _step_batches(self) -> None:
        while (flight := await self._next_step()) is not None:
            for incident in flight.result.incidents:
                self._reported(incident)
            for record in flight.result.refused:
                await asyncio.get_running_loop().run_in_executor(self._threads.commits, self._kept, record)
            await self._produce(flight)
            self.in_flight.add(flight)
            self.outlets.note(flight.result.acks)
        self.in_flight.end()

    async def _next_step(self) -> InFlight | None:
        """Wait for input, step it and frame its rows. Returns ``None`` once drained."""
        while not self._draining or self.in_flight:
            self._news.clear()
            await self._hand_over()
            flight = await self._step_outlet() or await self._step_input()
            if flight is not None:
                return flight
        return None

    async def _step_outlet(self) -> InFlight | None:
        """Take the step that is due for a feed: fail it (R2), detach it (K2), or one of K4 to K6.

        The step is taken even if there is no room among the batches in flight, since these batches may wait
        for just this step. Returns ``None`` when nothing is due, and when no step is allowed any more.
        """
        match self.outlets.look():
            case OutletChange.DETACH | OutletChange.REFUSE, _ if (
                self._stepper.abandoned
            ):  # to detach or to fail a feed is a step, and no step may follow
                self.in_flight.drop_uncommitted()
                return None
            case OutletChange.REFUSE, feed_id:
                return await self._fail(feed_id)
            case OutletChange.DETACH, feed_id:
                return await self._detach(feed_id)
            case OutletChange.ATTACH, feed_id if not self._draining and self.processor.is_spooling(feed_id):
                return await self._step_change(OutletChange.ATTACH, self.processor.attach, feed_id)
            case OutletChange.STALL, feed_id if not self._draining:
                return await self._step_change(OutletChange.STALL, self.processor.stall, feed_id)
            # K6; also ATTACH of a feed that the processor has made wait for a scan: its spool lacks rows
            case _, feed_id if not self._draining:
                return await self._step_change(OutletChange.RESUME, self.processor.resume, feed_id)
            case _:
                return None

    async def _step_change(
        self, change: OutletChange, step: Callable[[FeedId], StepResult], feed_id: FeedId
    ) -> InFlight | None:
        self.outlets.become(change, feed_id)
        return await self._step(step, feed_id)

    async def _detach(self, feed_id: FeedId) -> InFlight | None:
        """Detach the feed (step K2).

        The step changes the uncommitted batches too, which then do not wait for the feed's rows any more.
        """
        self.outlets.become(OutletChange.DETACH, feed_id)
        with self.in_flight.uncommitted() as uncommitted:
            flight = await self._step(partial(self.processor.detach, feed_id), uncommitted)
            self.in_flight.release(feed_id)
        if not self.processor.is_spooling(feed_id):
            self.outlets.become(OutletChange.STALL, feed_id)
        return flight

    async def _fail(self, feed_id: FeedId) -> InFlight | None:
        """Fail a feed, because one of its rows was refused (steps R2 and R3).

        The step changes the uncommitted batches too, which then do not wait for the feed's rows any more.
        """
        refusal = self.outlets.refusal(feed_id)
        with self.in_flight.uncommitted() as uncommitted:
            self.in_flight.release(feed_id)  # first: rows that are thrown away count as acknowledged
            self.outlets.become(OutletChange.REFUSE, feed_id)
            return await self._step(partial(self.processor.fail_delivery, feed_id, refusal), uncommitted)

    async def _step_input(self) -> InFlight | None:
        """Step the most urgent input.

        Returns ``None`` when there was no input or no room for its batch, and when the batch is given up.
        """
        if self._draining or not self.in_flight.has_room:
            await self._wait_for_input()
            return None
        if controls := self._input.take_controls(held=self.processor.held):  # they add no rows to memory
            return await self._step(self.processor.control, controls)
        if self.outlets.are_over_budget:
            await self._wait_for_input()
            return None
        if self._clock() >= self._hold.due:
            return await self._step(self.processor.give_up, self._hold.limit_s)
        if exchanges := self._input.take_exchanges():
            return await self._step(self.processor.exchange, exchanges)
        if self._clock() >= self._checkpoint_due:
            return await self._step_checkpoint()
        if self._input.batches and not self.processor.held:
            return await self._step_next(self._input.batches.take())
        if self.processor.ready:
            return await self._step(self.processor.step_some, ())
        await self._wait_for_input(self._checkpoint_due, self._hold.due)
        return None

    async def _step_next(self, waiting: Batch | Cut) -> InFlight | None:
        match waiting:
            case Cut(log_start):
                return await self._step(self.processor.missing_below, log_start)
            case Batch(records, end):
                flight = await self._step(partial(self.processor.step_some, end=end), records)
                if flight is None:
                    return None
                return replace(flight, end=self._put_back(records[flight.result.taken :], end))

    def _put_back(self, rest: Sequence[LogRecord], end: int) -> int:
        """Put back ``rest``, the records that a step has not taken; return the log position after the step.

        ``end`` is the position after the whole batch.
        """
        if not rest:
            return end
        self._input.batches.put_back(Batch(rest, end))
        return rest[0].offset

    async def _step(self, step: Callable[[ArgumentT], StepResult], argument: ArgumentT) -> InFlight | None:
        """Run a step and wait for the ids of its schemas. Returns ``None`` for a batch that is given up."""
        try:
            result, wanted = await self._stepper.step(step, argument)
        except StepBroke as broke:
            self._stepper.give_up()
            self._draining = True
            self._broke(broke)
            return None
        self._hold.look(self.processor.held_for)
        if wanted:
            answers = await self._answers(wanted)
            if answers is None:
                self._stepper.give_up()
                return None
            await self._stepper.settle(answers, result)
        return InFlight(result, self.outlets.barriers(result.outputs))

    async def _answers(self, wanted: Sequence[Wanted]) -> dict[FeedId, Answer] | None:
        """Ask registries for ids (step 2a), and wait for all answers.

        Returns ``None`` when the partition is released before they have come. Messages about feeds wait
        meanwhile: they are to be taken up after the batch.
        """
        asked = AskedIds(self._framing, wanted)
        self.waiting = True
        try:
            while not asked.are_complete and not self._draining:
                self._news.clear()
                await self._hand_over()
                asked.look(self._input.removes)
                if not asked.are_complete:
                    await asked.wait(self._news, self.outlets.next_look_s())
        finally:
            self.waiting = False
            asked.close()
        return None if self._draining else asked.answers

    async def _step_checkpoint(self) -> InFlight:
        self._checkpoint_due = self._clock() + FULL_CHECKPOINT_S
        return InFlight(await self._stepper.full_checkpoint())

    async def _wait_for_input(self, *dues: float) -> None:
        """Wait until input comes, rows are acknowledged, or the first of the times ``dues`` has come."""
        if (look_due := self._stepper.look_due) is not None:
            dues = (*dues, look_due)
        waits = [max(0.0, due - self._clock()) for due in dues]
        if (look_s := self.outlets.next_look_s()) is not None:
            waits.append(look_s)
        try:
            async with asyncio.timeout(min(waits, default=None)):  # `wait_for` may swallow a cancellation
                await self._news.wait()
        except TimeoutError:
            await self._stepper.look()

    async def _produce(self, flight: InFlight) -> None:
        """Give the batch's rows to their producers (step 3).

        Rows that find no room are handed over later, by ``_hand_over``.
        """
        await self._stepper.in_thread(self.outlets.send_rows, flight.result.outputs, flight.barriers)

    async def _hand_over(self) -> None:
        if self.outlets.have_more:
            await self._stepper.in_thread(self.outlets.hand_over)

    # ---- steps 4 to 8

    async def _commit_batches(self) -> None:
        loop = asyncio.get_running_loop()
        while group := await self.in_flight.acknowledged():
            results = [flight.result for flight in group]
            await loop.run_in_executor(self._threads.commits, self._writer.commit, results)
            self.in_flight.complete(group)
            self._stepper.committed(results)
            self._news.set()
            for flight in group:
                self._completed(flight)

    async def _guarded(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Exception as error:
            end_process(error)
