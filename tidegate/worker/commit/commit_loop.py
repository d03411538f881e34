"""The ordered commit of one log partition: steps 2 to 8 of docs/delivery.md.

Two tasks share the work. One takes input, steps the processor and hands rows to the sinks (2, 2a, 3); the
other waits for acknowledgements in order and commits (4 to 8). Between them is a bounded row of batches
in flight. Whatever fails in either ends the process.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, TypeVar

from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.lifecycle.control import HELD_LIMIT_S
from tidegate.processor.batch import ControlRecord, ExchangeRecord, Incident, StepResult
from tidegate.processor.containment import Caution, Input, StepBroke
from tidegate.processor.refused import RefusedRecord
from tidegate.processor.status import PartitionStatus
from tidegate.worker.commit.asked_ids import AskedIds
from tidegate.worker.commit.batch_queue import Batch, BatchQueue, Cut, Valve
from tidegate.worker.commit.framing import Answer, Framing, Wanted
from tidegate.worker.commit.hold_clock import HoldClock
from tidegate.worker.commit.in_flight import InFlight, InFlightBatches
from tidegate.worker.commit.partition_input import PartitionInput
from tidegate.worker.commit.stepper import Processor, Stepper
from tidegate.worker.kafka.fetched import FetchedBatch
from tidegate.worker.output.outlet import OpenSink, OutletChange, OutletLimits
from tidegate.worker.output.partition_outlets import Outlets
from tidegate.worker.process.ending import end_process
from tidegate.worker.process.schema_ids import SchemaIds

#: A partition publishes its whole checkpoint this often, for a frontier agent that began anew.
FULL_CHECKPOINT_S: Final = 30.0
_NO_CAUTION: Final = Caution()

ArgumentT = TypeVar("ArgumentT")


class Writer(Protocol):
    """Makes results durable; see ``tidegate.worker.state.partition_writer.PartitionWriter.commit``."""

    def commit(self, results: Sequence[StepResult]) -> None: ...


@dataclass(frozen=True, slots=True)
class CommitLimits:
    """How much a partition may hold, and how far its sinks may fall behind; see
    ``tidegate.worker.process.settings``."""

    batch_records: int
    inflight_batches: int
    queued_batches: int
    outlets: OutletLimits


@dataclass(frozen=True, slots=True)
class Threads:
    """Where blocking work is done: steps by one thread for all partitions (they share the interpreter's
    lock anyway), commits by several (they wait for the broker)."""

    steps: Executor
    commits: Executor


class CommitLoop:
    """Runs the batches and control messages of one log partition through its processor, in order.

    ``present`` is the log position that must be reached before a new feed is registered: the end of the log
    at the opening of a partition that has read nothing yet, so that a feed starts at the present, with the
    tables' descriptors known; 0 for all others, since a held partition could not read on. ``held_limit_s``
    is how long the partition is held for new feeds' starts, by ``clock``, which is monotonic. ``broke`` is
    called when a step broke: nothing is stepped any more, and what is in flight is waited for by ``drain``.
    ``kept`` is given what is to be kept aside, in a thread of the commits.
    """

    def __init__(
        self,
        processor: Processor,
        writer: Writer,
        opener_of: Callable[[FeedId], OpenSink],
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
        #: Whether a batch waits for the ids of schemas.
        self.waiting = False
        self._clock = clock
        self._hold = HoldClock(held_limit_s, clock)
        self._completed = completed
        self._reported = reported
        self._kept = kept
        #: Set when there may be something to do: input, acknowledged rows, or the end.
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
        """What stands in its state: at most a second older than the last step."""
        return self._stepper.status

    # ---- input, called by the loop

    def start(self) -> None:
        """Begin to work; the first thing written is the whole checkpoint (step O6)."""
        self._hold.look(self.processor.held_for)
        self._tasks = [
            asyncio.create_task(self._guarded(self._step_batches), name="steps"),
            asyncio.create_task(self._guarded(self._commit_batches), name="commits"),
        ]

    def offer(self, batch: FetchedBatch) -> None:
        """Queue a batch of the log; asks for no more when enough is queued."""
        self._input.offer(batch)

    def control(self, records: Sequence[ControlRecord]) -> None:
        """Queue messages about feeds; they are taken up at a batch boundary: registrations at the first
        one at the present, all others at the next."""
        self._input.control(records)

    def exchange(self, records: Sequence[ExchangeRecord]) -> None:
        """Queue claims and hand-offs; they are taken up at the next batch boundary."""
        self._input.exchange(records)

    def cut(self, log_start: int) -> None:
        """Note that the log begins above what was to be read next."""
        self._input.cut(log_start)

    async def drain(self) -> None:
        """Step nothing more, and return when all that was in flight is durable.

        A batch that waits for a schema registry was never in flight: it is given up, for that could be long.
        Rows of feeds that are detached are given up, and a sink that does not follow has its feeds detached,
        at the latest when the time for it runs out. With a batch that is given up nothing can be detached any
        more, for that is a step: then what waits for such a sink is given up as well.
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
        """Wait for input, step it and frame its rows; ``None`` once drained."""
        while not self._draining or self.in_flight:
            self._news.clear()
            await self._hand_over()
            flight = await self._step_outlet() or await self._step_input()
            if flight is not None:
                return flight
        return None

    async def _step_outlet(self) -> InFlight | None:
        """Steps R2, K2 and K4 to K6, whether there is room or not: a sink refuses, or does not follow."""
        match self.outlets.look():
            case OutletChange.DETACH | OutletChange.REFUSE, _ if (
                self._stepper.abandoned
            ):  # to detach is a step, to fail too
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
            # K6, and ATTACH of a feed that the processor has stalled itself: what it lacks was never spooled.
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
        """Step K2: the batches that are not committed are changed with it, and wait for the feed no more."""
        self.outlets.become(OutletChange.DETACH, feed_id)
        with self.in_flight.uncommitted() as uncommitted:
            flight = await self._step(partial(self.processor.detach, feed_id), uncommitted)
            self.in_flight.release(feed_id)
        if not self.processor.is_spooling(feed_id):
            self.outlets.become(OutletChange.STALL, feed_id)
        return flight

    async def _fail(self, feed_id: FeedId) -> InFlight | None:
        """Steps R2 and R3: the batches that are not committed are changed with it, and wait for the feed no
        more."""
        refusal = self.outlets.refusal(feed_id)
        with self.in_flight.uncommitted() as uncommitted:
            self.in_flight.release(feed_id)  # before rows are thrown away, which then count as acknowledged
            self.outlets.become(OutletChange.REFUSE, feed_id)
            return await self._step(partial(self.processor.fail_delivery, feed_id, refusal), uncommitted)

    async def _step_input(self) -> InFlight | None:
        """``None`` when there was nothing to step yet, or no room for it."""
        if self._draining or not self.in_flight.has_room:
            await self._wait_for_input()
            return None
        if controls := self._input.take_controls(held=self.processor.held):  # no rows come of them
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
            return await self._step(self.processor.step, ())
        await self._wait_for_input(self._checkpoint_due, self._hold.due)
        return None

    async def _step_next(self, waiting: Batch | Cut) -> InFlight | None:
        match waiting:
            case Cut(log_start):
                return await self._step(self.processor.missing_below, log_start)
            case Batch(records, end):
                return await self._step(partial(self.processor.step, end=end), records, end=end)

    async def _step(
        self, step: Callable[[ArgumentT], StepResult], argument: ArgumentT, *, end: int | None = None
    ) -> InFlight | None:
        """``None`` for a batch that is given up."""
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
        return InFlight(result, self.outlets.barriers(result.outputs), end)

    async def _answers(self, wanted: Sequence[Wanted]) -> dict[FeedId, Answer] | None:
        """Step 2a where registries must be asked; ``None`` when the partition is to be let go before.

        The messages about feeds wait as well, for they belong behind the batch.
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
        """Until input comes, rows are acknowledged, or one of these times has come."""
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
        """What finds no room is handed over later, by ``_hand_over``."""
        await self._stepper.in_thread(self.outlets.take, flight.result.outputs, flight.barriers)

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
