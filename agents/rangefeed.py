"""The rangefeed agent: from the log of the range store to rows, state and checkpoints.

Opening a partition (docs/delivery.md has the reasons, and what each crash leaves behind):

    O1  fence the predecessor: ``init_transactions`` of ``<app>-<partition>``
    O2  bring the local copy of state up to date with the changelogs
    O3  rebuild the partition processor
    O4  compare its position with the start of the log
    O5  seek the control topic, the hand-off topic and the log to the positions in the state; without a state,
        the log only when the control topic is read
    O6  publish the whole checkpoint with the first transaction

One batch:

    1   take it, if it starts where the previous one ended              app.intake
    2   step the processor; freeze what changed                         app.pipeline
    2a  frame: put the ids of their schemas into rows that have some    app.framing
    3   produce every row, counted by the batch's barrier               app.sink
    4   wait until every row is acknowledged, in the order of batches   app.pipeline
    5   write state, checkpoints, answers and requests                  app.partition_writer
    6   commit that transaction                                         app.transaction
    7   copy the state rows to the local store                          tables.store
    8   complete: free the batch's slot, report its offset              app.pipeline

The agent itself only dispatches: each partition has a pipeline with a bounded queue of its own, so that a
slow or held partition holds no other one back.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import structlog
from faust.types import TP

from agents.standby import Standby
from app.ending import guarded_task
from app.fetched import FetchedBatch
from app.in_flight import InFlight
from app.intake import Intake
from app.log_ends import watch_ends
from app.metrics import BATCHES, INCIDENTS, ROWS
from app.outlet import OutletReport, OutletState
from app.partition_writer import PartitionWriter
from app.pipeline import Pipeline
from app.report import (
    CATCHING_UP,
    WAITING,
    DeliveryReport,
    LaggingReport,
    ParkedReport,
    PartitionReport,
    QuarantineReport,
    RangeReport,
    SpanReport,
)
from app.shell import Shell
from tables.backlogs import BacklogMemory
from tables.spill import RocksSpill
from tables.store import LocalStore, OpenStore, rocks_stores
from tidegate.changefeed.control import read_control
from tidegate.errors import StateMismatch
from tidegate.hlc import NANOS_PER_MS
from tidegate.processor.batch import ControlRecord, ExchangeRecord, Incident
from tidegate.processor.catch_ups import CatchUpLimits, FeedLag
from tidegate.processor.exchange_codec import decode_exchange
from tidegate.processor.processor import PartitionProcessor, ProcessorConfig
from tidegate.processor.pushes import PushPolicy
from tidegate.processor.range_facts import RangeFacts
from tidegate.processor.status import ParkedRange, PartitionStatus
from tidegate.raftlog.entry import Offset
from tidegate.rangefeed.intent_budget import IntentBudget, PartitionSpill
from tidegate.spans import Span

_log = structlog.get_logger("tidegate.rangefeed")


class _Present(NamedTuple):
    """Offsets to reach before others are looked at, for a partition without a state; 0 for all others.

    ``log``: before a new feed is registered, see ``Pipeline``. ``control``: before the log is read, since a
    feed that was active in a state that is lost has to be known before the first record.
    """

    log: int = 0
    control: int = 0


class LogPartition:
    """One log partition of this worker, from its assignment to its release."""

    def __init__(
        self,
        app: Shell,
        partition: int,
        open_store: OpenStore,
        backlogs: BacklogMemory,
        budget: IntentBudget,
        standby: Standby | None = None,
    ) -> None:
        self.partition = partition
        self._app = app
        self._standby = standby
        self._budget = budget
        self._spill: PartitionSpill | None = None
        self._restore_ms: int | None = None
        self._open_store = open_store
        self._backlogs = backlogs
        names = app.topic_names
        self._log_place = TP(names.log, partition)
        self._control_place = TP(names.control, partition)
        self.log = Intake(self._log_place, app.batches, self._take, self._note_cut)
        self.control = Intake(self._control_place, app.batches, self._take_control)
        hand_offs = TP(names.hand_offs, partition)
        self.hand_offs = Intake(hand_offs, app.batches, self._take_exchanges)
        self.pipeline: Pipeline | None = None
        self._processor: PartitionProcessor | None = None
        self._writer: PartitionWriter | None = None
        self._store: LocalStore | None = None
        self._released = False
        self._opening = guarded_task(self._open(), f"open {partition}")

    async def release(self) -> None:
        """Finish what is in flight and close; on return nothing is written for the partition any more."""
        self._released = True
        self.log.close()
        self.control.close()
        self.hand_offs.close()
        if self._writer is not None and self.pipeline is None:
            self._writer.abandon()
        await self._opening
        if self.pipeline is not None:
            await self.pipeline.drain()
        await self._in_thread(self._close)

    def report(self) -> PartitionReport:
        """How it is: its position as of its last step, what stands in its state at most a second older."""
        if self.pipeline is None or self._processor is None:
            return PartitionReport(self.partition, "restoring")
        position, end = self._processor.next_offset or 0, self.log.end
        report = PartitionReport(
            self.partition,
            self._state(self.pipeline, self._processor),
            next_offset=position,
            lag_records=None if end is None else max(0, end - position),
            inflight_rows=self.pipeline.in_flight.rows,
            oldest_unacknowledged_ms=int(self.pipeline.in_flight.oldest_s * 1000),
            held_for=tuple(sorted(self._processor.held_for)),
            restore_ms=self._restore_ms,
        )
        return _with_status(report, self.pipeline.status, self.pipeline.outlets.report())

    async def ranges_in(self, span: Span) -> SpanReport | None:
        """Its ranges that have keys of ``span``, as of its last step; ``None`` while it is restored."""
        if self._processor is None:
            return None
        loop, steps = asyncio.get_running_loop(), self._app.runtime.threads.steps
        return SpanReport(self.partition, await loop.run_in_executor(steps, self._processor.ranges_in, span))

    def _state(self, pipeline: Pipeline, processor: PartitionProcessor) -> str:
        if pipeline.waiting:
            return WAITING
        return "held" if processor.held else "running"

    async def _open(self) -> None:
        processor = await self._in_thread(self._restore)
        present = _Present() if processor is None else await self._present(processor)
        if processor is not None and not self._released:
            await self._start(processor, present)

    def _restore(self) -> PartitionProcessor | None:
        """Steps O1 to O3; ``None`` when the partition was released meanwhile."""
        began = time.monotonic()
        if self._standby is not None:
            self._standby.yielded()
        runtime, settings = self._app.runtime, self._app.settings
        self._store = self._open_store(runtime.directory.partition(self.partition))
        self._writer = PartitionWriter(
            settings, runtime.topology, self.partition, self._store, runtime.machine
        )
        copied = self._store.written_at_ms() is not None
        restored = self._writer.open()
        try:
            processor = self._rebuild(self._store)
        except StateMismatch as mismatch:
            if not copied:
                raise  # the changelogs were read from their beginning just now
            _log.warning(
                "the local copy of state is not what was written; it is read again from the changelogs",
                partition=self.partition,
                cause=str(mismatch),
            )
            restored = self._writer.reopen()
            processor = self._rebuild(self._store)
        if processor is None:
            return None
        self._restore_ms = round((time.monotonic() - began) * 1000)
        _log.info(
            "partition restored",
            partition=self.partition,
            changelog_records=restored,
            next_offset=processor.next_offset,
            open_transactions=processor.status().open_transactions,
            restore_ms=self._restore_ms,
        )
        return processor

    def _rebuild(self, store: LocalStore) -> PartitionProcessor | None:
        """Step O3; ``None`` when the partition was released, for then the store may be incomplete.

        Raises ``StateMismatch`` where the rows of the store are not those that were written.
        """
        if self._released:
            return None
        if self._spill is not None:
            self._spill.close()
        self._spill = self._budget.partition()
        settings, topology = self._app.settings, self._app.runtime.topology
        names, ids = self._app.topic_names, topology.topic_ids
        push = PushPolicy(settings.push_age_ms, settings.push_repeat_ms, settings.push_enabled)
        config = ProcessorConfig(
            push=push,
            log_id=ids[names.log],
            control_id=ids[names.control],
            queue=self._backlogs.queue,
            spill=self._spill,
            catch_up=CatchUpLimits(settings.catch_up_scans, settings.catch_up_memory_bytes),
            detachable=True,
        )
        rows = ((table, key, value) for table, key, value in store.rows() if value is not None)
        return PartitionProcessor.restore(self.partition, topology.partitions, config, rows)

    async def _present(self, processor: PartitionProcessor) -> _Present:
        """Where log and control topic end now, for a partition that has read nothing of them."""
        if self._released or processor.next_offset is not None:
            return _Present()
        ends = await self._app.batches.highwaters(self._log_place, self._control_place)
        return _Present(int(ends[self._log_place]), int(ends[self._control_place]))

    async def _start(self, processor: PartitionProcessor, present: _Present) -> None:
        """Steps O4 to O6: the intake compares the position with the start of the log before it seeks."""
        assert self._writer is not None
        runtime = self._app.runtime
        self._processor = processor
        self.pipeline = Pipeline(
            processor,
            self._writer,
            lambda feed_id: runtime.sinks.of(processor.definition_of(feed_id).sink_uri).rows,
            self.log,
            runtime.threads,
            runtime.limits,
            schema_ids=runtime.schema_ids,
            present=present.log,
            clock=asyncio.get_running_loop().time,
            completed=self._note_completed,
            reported=_report,
        )
        self.pipeline.start()
        self.control.open(processor.next_control_offset)
        self.hand_offs.open(processor.next_hand_off)
        if await self.control.read_to(present.control):
            self.log.open(processor.next_offset or 0)

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        if self._store is not None:
            self._store.close()
        if self._spill is not None:
            self._spill.close()

    def _take(self, batch: FetchedBatch) -> None:
        assert self.pipeline is not None
        self.pipeline.offer(batch)

    def _take_control(self, batch: FetchedBatch) -> None:
        assert self.pipeline is not None
        self.pipeline.control(
            [
                ControlRecord(Offset(record.offset), read_control(record.value))
                for record in batch.records
                if record.value is not None
            ]
        )

    def _take_exchanges(self, batch: FetchedBatch) -> None:
        assert self.pipeline is not None
        self.pipeline.exchange(
            [
                ExchangeRecord(Offset(record.offset), decode_exchange(record.value))
                for record in batch.records
                if record.value is not None
            ]
        )

    def _note_cut(self, log_start: int) -> None:
        assert self.pipeline is not None
        self.pipeline.cut(log_start)

    def _note_completed(self, flight: InFlight) -> None:
        ROWS.labels(self.partition).inc(flight.rows)
        BATCHES.labels(self.partition).inc()
        if flight.end is not None:
            self._app.batches.completed(self._log_place, flight.end)

    async def _in_thread(self, work: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._app.runtime.threads.commits, work)


class LogPartitions:
    """The log partitions of this worker."""

    def __init__(self, app: Shell, open_store: OpenStore) -> None:
        self._app = app
        self._open_store = open_store
        settings = app.settings
        self._backlogs = BacklogMemory(settings.home / "backlogs", settings.backlog_memory_bytes)
        self._spill = RocksSpill(settings.home / "intents-spill")
        self._budget = IntentBudget(settings.intent_memory_bytes, self._spill)
        self._standby: Standby | None = None
        self.open: dict[int, LogPartition] = {}
        self._leaving: dict[int, LogPartition] = {}
        self._ends: asyncio.Task[None] | None = None

    def assigned(self, partition: int) -> None:
        """Begin to open the partition."""
        if self._ends is None:
            watch = watch_ends(lambda: [held.log for held in self.open.values()], lambda: self._app.batches)
            self._ends = guarded_task(watch, "log ends")
        self.open[partition] = LogPartition(
            self._app, partition, self._open_store, self._backlogs, self._budget, self._standby
        )

    def offer(self, batch: FetchedBatch) -> None:
        """Step 1 of a batch of the log."""
        held = self.open.get(batch.partition)
        if held is not None:
            held.log.offer(batch)

    def offer_control(self, batch: FetchedBatch) -> None:
        """The same for messages about feeds."""
        held = self.open.get(batch.partition)
        if held is not None:
            held.control.offer(batch)

    def offer_exchanges(self, batch: FetchedBatch) -> None:
        """The same for claims and hand-offs."""
        held = self.open.get(batch.partition)
        if held is not None:
            held.hand_offs.offer(batch)

    def report(self) -> tuple[PartitionReport, ...]:
        """The partitions as they are now."""
        return tuple(held.report() for _, held in sorted(self.open.items()))

    async def ranges_in(self, span: Span) -> tuple[SpanReport, ...]:
        """The ranges that have keys of ``span``, by partition; those that are restored are left out."""
        asked = [held.ranges_in(span) for _, held in sorted(self.open.items())]
        return tuple(report for report in await asyncio.gather(*asked) if report is not None)

    async def _pause_standby(self) -> None:
        settings, runtime = self._app.settings, self._app.runtime
        if self._standby is not None:
            await asyncio.get_running_loop().run_in_executor(runtime.threads.commits, self._standby.pause)
        elif settings.standby_refresh_ms:
            self._standby = Standby(settings, runtime, self._open_store, self._is_held)

    def _is_held(self, partition: int) -> bool:
        return partition in self.open or partition in self._leaving

    async def released(self) -> None:
        """Close every partition. Called before each assignment, the first one as well."""
        await self._pause_standby()
        if self._ends is not None:
            self._ends.cancel()
            self._ends = None
        self._leaving, self.open = self.open, {}
        await asyncio.gather(*(held.release() for held in self._leaving.values()))
        self._leaving = {}
        self._spill.close()


def rangefeed_agent(app: Shell, open_store: OpenStore | None = None) -> LogPartitions:
    """Register the agent with the application; returns the partitions that it feeds.

    State is kept in RocksDB, unless ``open_store`` opens something else.
    """
    partitions = LogPartitions(app, open_store or rocks_stores())
    app.partitions_report = partitions.report
    app.ranges_report = partitions.ranges_in
    app.assignment.hold(app.topic_names.log, partitions)

    @app.agent(app.batch_topic(app.topic_names.log), name="rangefeed", concurrency=1)
    async def rangefeed(stream: Any) -> None:
        await app.deliver(stream, partitions.offer)

    return partitions


def _with_status(
    report: PartitionReport, status: PartitionStatus, outlets: Sequence[OutletReport]
) -> PartitionReport:
    resolved = status.resolved
    now_ms = time.time_ns() // NANOS_PER_MS
    return replace(
        report,
        ranges=status.ranges,
        open_transactions=status.open_transactions,
        tracked_intents=status.tracked_intents,
        resolved=None if resolved is None else str(resolved),
        resolved_lag_ms=None if resolved is None else now_ms - resolved.wall_ms,
        closed_regressions=status.closed_regressions,
        backlog_entries=status.backlog_entries,
        log_time_ms=status.log_time_ms,
        spilled_transactions=status.spilled.transactions,
        spill_bytes=status.spilled.bytes,
        slowest=tuple(_slow(status.partition, item, now_ms) for item in status.slowest),
        parked=tuple(_parked(status, item) for item in status.parked),
        quarantined=tuple(
            QuarantineReport(status.partition, hole.range_id, hole.offset, str(hole.resolved), hole.cause)
            for hole in status.quarantined
        ),
        lagging=tuple(_lagging(status.partition, item) for item in status.lagging),
        deliveries=tuple(_deliveries(status, outlets)),
    )


def _lagging(partition: int, item: FeedLag) -> LaggingReport:
    return LaggingReport(
        partition,
        item.feed_id,
        item.ranges,
        None if item.complete_to is None else str(item.complete_to),
        item.waiting,
        item.scans,
        item.held_bytes,
        None if item.reserve_ns is None else item.reserve_ns // NANOS_PER_MS,
    )


def _deliveries(status: PartitionStatus, outlets: Sequence[OutletReport]) -> Iterator[DeliveryReport]:
    """Of each feed that has had rows here, or lags."""
    lagging = {feed.feed_id for feed in status.lagging}
    known = {outlet.feed_id: outlet for outlet in outlets}
    for feed_id in sorted({*known, *lagging}):
        outlet = known.get(feed_id, OutletReport(feed_id))
        is_catching_up = feed_id in lagging and outlet.state is OutletState.LIVE
        state = CATCHING_UP if is_catching_up else outlet.state.value
        yield DeliveryReport(status.partition, feed_id, state, outlet.waiting_bytes, outlet.spool_bytes)


def _slow(partition: int, facts: RangeFacts, now_ms: int) -> RangeReport:
    return RangeReport(
        partition,
        facts.range_id,
        facts.generation,
        facts.condition.value,
        str(facts.resolved),
        now_ms - facts.resolved.wall_ms,
        now_ms - facts.closed.wall_ms,
        facts.open_transactions,
    )


def _parked(status: PartitionStatus, item: ParkedRange) -> ParkedReport:
    return ParkedReport(
        status.partition,
        item.range_id,
        item.condition.value,
        item.offset,
        item.entries,
        status.log_time_ms - item.since_ms,
        item.parents,
    )


def _report(incident: Incident) -> None:
    INCIDENTS.labels(incident.partition).inc()
    _log.error(
        "incident",
        partition=incident.partition,
        offset=incident.offset,
        range_id=incident.range_id,
        feed_id=incident.feed_id,
        cause=incident.cause,
    )
