"""One log partition of a worker, from its assignment to its release: steps O1 to O6 of
docs/protocols/opening-a-partition.md.

Its state comes from ``tidegate.worker.log_partition.partition_state``. The records that are read go to its
commit loop (``tidegate.worker.commit.commit_loop``), where a batch of the log becomes rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, TypeVar

import structlog
from faust.types import TP

from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.lifecycle.control import read_control_record
from tidegate.errors import ForeignRecord
from tidegate.processor.batch import ControlRecord, ExchangeRecord, Incident
from tidegate.processor.containment import Caution, StepBroke
from tidegate.processor.processor import PartitionProcessor
from tidegate.processor.state.exchange_codec import read_exchange_record
from tidegate.raftlog.encode import partition_of
from tidegate.raftlog.entry import Offset
from tidegate.ranges.handoff import Exchange, receiver_of
from tidegate.spans import Span
from tidegate.worker.commit.commit_loop import CommitLoop
from tidegate.worker.commit.in_flight import InFlight
from tidegate.worker.kafka.fetched import FetchedBatch
from tidegate.worker.kafka.foreign_records import own_records
from tidegate.worker.kafka.intake import Intake, insisted
from tidegate.worker.log_partition.partition_report import running_report
from tidegate.worker.log_partition.partition_state import PartitionState, Stores
from tidegate.worker.log_partition.standby import Standby
from tidegate.worker.operations.metrics import BATCHES, INCIDENTS, ROWS
from tidegate.worker.operations.report import PartitionReport, SpanReport
from tidegate.worker.output.feed_row_writer import FeedRowWriter
from tidegate.worker.output.row_writer import OpenRowWriter
from tidegate.worker.process.ending import guarded_task
from tidegate.worker.shell import Shell

_NO_CAUTION: Final = Caution()

_log = structlog.get_logger("tidegate.rangefeed")
ResultT = TypeVar("ResultT")


class _Present(NamedTuple):
    """The ends of log and control topic at the opening of a partition without a state.

    For a partition with a state both are 0. The log is read to ``log`` before a new feed is registered
    (``CommitLoop``). The control topic is read to ``control`` before the log is read: if an earlier state was
    lost, the feeds that were active in it have to be known before the first record of the log.
    """

    log: int = 0
    control: int = 0


class LogPartition:
    """A log partition that this worker holds: its state, its intakes and its commit loop.

    It begins to open at once, in the background. Batches that come before it is open are ignored, and read
    again. ``broke`` is called when a step broke. Nothing is stepped after that, so the partition should be
    released.
    """

    def __init__(
        self,
        app: Shell,
        partition: int,
        stores: Stores,
        standby: Standby | None = None,
        *,
        caution: Caution = _NO_CAUTION,
        broke: Callable[[LogPartition, StepBroke], None],
    ) -> None:
        self.partition = partition
        self.caution = caution
        self._broke = broke
        self._app = app
        self._state = PartitionState(app.runtime, partition, stores, standby)
        names = app.topic_names
        self._log_place = TP(names.log, partition)
        self._control_place = TP(names.control, partition)
        self.log = Intake(self._log_place, app.batches, self._queue_batch, self._note_cut)
        self.control = Intake(self._control_place, app.batches, self._take_control)
        hand_offs = TP(names.hand_offs, partition)
        self.hand_offs = Intake(hand_offs, app.batches, self._take_exchanges)
        self.commit_loop: CommitLoop | None = None
        self._processor: PartitionProcessor | None = None
        self._released = False
        self._releasing: asyncio.Future[None] | None = None
        self._opening = guarded_task(self._open(), f"open {partition}")

    async def release(self) -> None:
        """Finish the batches in flight, and close. After that nothing is written for the partition."""
        if self._releasing is None:
            self._releasing = asyncio.ensure_future(self._release())
        await asyncio.shield(self._releasing)

    async def _release(self) -> None:
        self._released = True
        self.log.close()
        self.control.close()
        self.hand_offs.close()
        if self.commit_loop is None:
            self._state.abandon()
        await self._opening
        if self.commit_loop is not None:
            await self.commit_loop.drain()
        await self._in_thread(self._state.close)

    def report(self) -> PartitionReport:
        """Return the report for operators: the position after the last step, and the last status.

        The status may be older than the position (``CommitLoop.status``).
        """
        if self.commit_loop is None or self._processor is None:
            return PartitionReport(self.partition, "restoring")
        position = self._processor.next_offset or 0
        return running_report(self.commit_loop, position, self.log.end, self._state.restore_ms)

    async def ranges_in(self, span: Span) -> SpanReport | None:
        """Return its ranges that have keys of ``span``, after its last step; ``None`` while it is being
        restored.
        """
        if self._processor is None:
            return None
        loop, steps = asyncio.get_running_loop(), self._app.runtime.threads.steps
        return SpanReport(self.partition, await loop.run_in_executor(steps, self._processor.ranges_in, span))

    # ---- opening

    async def _open(self) -> None:
        openings = self._app.runtime.opening_threads
        processor = await asyncio.get_running_loop().run_in_executor(openings, self._state.restore)
        present = _Present() if processor is None else await self._present(processor)
        if processor is not None and not self._released:
            await self._start(processor, present)

    async def _present(self, processor: PartitionProcessor) -> _Present:
        """Return where log and control topic end, if the partition has read nothing of the log; else 0."""
        if self._released or processor.next_offset is not None:
            return _Present()
        places = self._log_place, self._control_place
        ends = await insisted(
            places[0], lambda: self._app.batches.highwaters(*places), lambda: self._released
        )
        if ends is None:
            return _Present()
        return _Present(int(ends[self._log_place]), int(ends[self._control_place]))

    async def _start(self, processor: PartitionProcessor, present: _Present) -> None:
        """Find where to read on, and begin to read (steps O4 to O6).

        For O4 the intake compares the position with the log's start before it seeks.
        """
        self._processor = processor
        processor.pass_over(self.caution.refused)
        self.commit_loop = self._new_commit_loop(processor, present)
        self.commit_loop.start()
        self.control.open(processor.next_control_offset)
        self.hand_offs.open(processor.next_hand_off)
        if await self.control.read_to(present.control):
            self.log.open(processor.next_offset or 0)

    def _new_commit_loop(self, processor: PartitionProcessor, present: _Present) -> CommitLoop:
        runtime, follower = self._app.runtime, self._app.follower

        def opener_of(feed_id: FeedId) -> OpenRowWriter:
            definition = processor.definition_of(feed_id)  # asked now: the processor forgets a removed feed
            return lambda: FeedRowWriter(runtime.sinks, definition, lambda: follower.view[feed_id])

        return CommitLoop(
            processor,
            self._state.writer,
            opener_of,
            self.log,
            runtime.threads,
            runtime.limits,
            schema_ids=runtime.schema_ids,
            caution=self.caution,
            broke=partial(self._broke, self),
            present=present.log,
            clock=asyncio.get_running_loop().time,
            completed=self._note_completed,
            reported=_note_incident,
            kept=partial(runtime.refused.keep, self.partition),
        )

    async def _in_thread(self, work: Callable[[], ResultT]) -> ResultT:
        return await asyncio.get_running_loop().run_in_executor(self._app.runtime.threads.commits, work)

    # ---- what is read, and what became of it

    def _queue_batch(self, batch: FetchedBatch) -> None:
        assert self.commit_loop is not None
        self.commit_loop.queue_batch(batch)

    def _take_control(self, batch: FetchedBatch) -> None:
        assert self.commit_loop is not None
        messages = own_records(batch, read_control_record)
        self.commit_loop.control(
            [ControlRecord(Offset(record.offset), message) for record, message in messages]
        )

    def _take_exchanges(self, batch: FetchedBatch) -> None:
        assert self.commit_loop is not None
        messages = own_records(batch, self._read_exchange)
        self.commit_loop.exchange([ExchangeRecord(Offset(record.offset), each) for record, each in messages])

    def _read_exchange(self, key: bytes | None, value: bytes) -> Exchange:
        """Read a claim or hand-off. Raises ``ForeignRecord`` if it is for another partition's range."""
        message = read_exchange_record(key, value)
        if partition_of(receiver_of(message), self._app.runtime.topology.partitions) != self.partition:
            raise ForeignRecord("a record of the hand-off topic is for a range of another log partition")
        return message

    def _note_cut(self, log_start: int) -> None:
        assert self.commit_loop is not None
        self.commit_loop.cut(log_start)

    def _note_completed(self, flight: InFlight) -> None:
        ROWS.labels(self.partition).inc(flight.rows)
        BATCHES.labels(self.partition).inc()
        if flight.end is not None:
            self._app.batches.completed(self._log_place, flight.end)


def _note_incident(incident: Incident) -> None:
    INCIDENTS.labels(incident.partition).inc()
    _log.error(
        "incident",
        partition=incident.partition,
        offset=incident.offset,
        range_id=incident.range_id,
        feed_id=incident.feed_id,
        cause=incident.cause,
    )
