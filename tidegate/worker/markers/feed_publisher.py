"""One feed's progress and markers: steps M1 to M3 of docs/protocols/markers.md.

    M1  apply checkpoints to the feed's frontier
    M2  persist the high-water and its log positions; now and then also the spans that are far above it
    M3  write the marker to every partition of every output topic, or of the feed's resolved_topic

M2 and M3 are transactions of the feed's own producer, which fences an earlier owner of the feed. If Kafka
does not end one in time, the owner gives it up, and begins anew at M0 as a successor would. An owner that is
fenced may begin anew once, since the request that fenced it may be a late one. If the sink is another
cluster, M3 has a producer there. M3 then runs in a task of its own: that cluster may be away, and progress
must not wait for it. Checkpoints that come during a transaction go into the next one together.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Coroutine
from concurrent.futures import Executor
from functools import partial
from typing import Any, Final

import structlog

from tidegate.changefeed.definition.feed import ENDED, FeedDefinition
from tidegate.changefeed.lifecycle.control import NO_PARTITION, Failed, ack_key
from tidegate.changefeed.lifecycle.feed_progress import FeedProgress
from tidegate.changefeed.lifecycle.frontier import FeedFrontier
from tidegate.changefeed.lifecycle.job_records import ProgressRecord, SpansRecord, StateRecord
from tidegate.changefeed.lifecycle.span_progress import SpanProgress
from tidegate.client.feed_faults import AGAIN_S, FeedFaults
from tidegate.client.kafka.client_room import ClientRoom
from tidegate.client.kafka.topics import Topics
from tidegate.client.kafka.transaction import GivenUpError, Record
from tidegate.delivery.back_off import BackOff
from tidegate.delivery.producer_ids import MarkerIds, progress_id
from tidegate.errors import (
    DeliveryError,
    FeedError,
    ProducerFenced,
    RecordRefused,
    RetryError,
    SettingsError,
)
from tidegate.hlc import NANOS_PER_MS, ResolvedTimestamp
from tidegate.processor.checkpoint import PartitionProgress
from tidegate.spans import Span
from tidegate.worker.kafka.jobs_follower import JobsFollower
from tidegate.worker.kafka.transaction import WorkerTransactionalProducer
from tidegate.worker.markers.early_reports import EarlyReports
from tidegate.worker.markers.marker_records import MarkerRecords
from tidegate.worker.markers.marker_writer import MarkerWriter, OtherMarkers, OwnMarkers
from tidegate.worker.markers.progress_producer import ProgressProducer, UnansweredError, UnopenedError
from tidegate.worker.operations.metrics import INCIDENTS, MARKERS
from tidegate.worker.operations.report import FeedReport
from tidegate.worker.output.worker_sinks import SinkCluster
from tidegate.worker.process.ending import guarded_task
from tidegate.worker.process.machine import REAL, Machine
from tidegate.worker.process.settings import Settings

_PROGRESS_S: Final = 1.0  # progress is persisted this often at most while no marker is due
_SILENCE_S: Final = 3.0  # ``report`` tells of a marker that takes longer
_LATE_S: Final = 60.0  # a fence that comes so soon after another one is no late request
_LOOK_S: Final = 5.0  # a fenced owner waits so long for the end of the jobs topic
_SPANS_S: Final = 10.0  # spans above the high-water are looked at, and persisted, this often at most


_log = structlog.get_logger("tidegate.frontier")


class FeedPublisher:
    """The owner of one epoch of one feed: it keeps the feed's frontier, stores the high-water, and writes the
    markers.
    """

    def __init__(
        self,
        settings: Settings,
        definition: FeedDefinition,
        state: StateRecord,
        follower: JobsFollower,
        markers: MarkerRecords,
        threads: Executor,
        machine: Machine = REAL,
        sink: SinkCluster | None = None,
        reopening: Executor | None = None,
        room: ClientRoom | None = None,
    ) -> None:
        """``sink`` is the cluster that the feed writes to; ``None`` for the worker's own.

        ``threads`` do the calls of the progress's producer. After a call without an answer, ``reopening`` do
        the calls that open another producer; if they are ``None``, ``threads`` do these calls, too. ``room``
        is for the progress's producer; without it there is always room.
        """
        assert state.start is not None
        self.definition = definition
        self._start = state.start
        self._follower = follower
        self._markers = markers
        self._now = asyncio.get_running_loop().time
        self._topics = Topics.of(settings)
        progress = progress_id(settings.app_id, definition.id)
        new_producer = partial(WorkerTransactionalProducer, settings, progress, machine)
        opened = new_producer if room is None else partial(room.opened, new_producer)
        self._producer = ProgressProducer(opened, threads, reopening or threads)
        self._drain_s = settings.drain_sinks_ms / 1_000
        self._writer: MarkerWriter = OwnMarkers(partial(self._producer.commit, insist=False))
        self._sink = sink
        if sink is not None and not sink.own:
            ids = MarkerIds.of(settings.app_id, definition.id, state.sink_cluster)
            self._writer = OtherMarkers(sink, ids, machine, state)
        self._proved = not self._writer.beside  # whether M2b has followed the last opening of the writer
        self._beside: asyncio.Task[None] | None = None  # opens the writer, or writes a marker
        self._beside_since = 0.0
        self._early = EarlyReports()
        self._news = asyncio.Event()
        self._closing = asyncio.Event()
        self._persisted: ResolvedTimestamp | None = None
        self._persist_due = 0.0
        self._progress = FeedProgress(definition, state)
        self._ahead: tuple[SpanProgress, ...] = ()  # the spans above the high-water, as persisted
        self._ahead_due = 0.0
        self._moved = False  # whether a report came since the spans ahead were looked at
        self._owed: ResolvedTimestamp | None = None  # the last owner's high-water: it may have no marker yet
        self._markers_failed = BackOff()
        self._markers_rest_until = 0.0  # time of the loop's clock; 0 while they do not rest
        self._markers_wait = ""  # why the last marker could not be written
        self._refusal: RecordRefused | FeedError | None = None  # why no marker can be written any more
        self._refusal_told = False
        self._faults = FeedFaults(INCIDENTS.labels("markers").inc)
        self.frontier: FeedFrontier | None = None
        self._former: FeedFrontier | None = None  # the frontier until this owner began anew, for ``report``
        self._progress_waits = ""  # why this owner begins anew, until the next M0
        self._begun_anew = BackOff()
        self._fenced_at = -math.inf  # when this owner was last fenced
        self._late_opens: list[float] = []  # when openings were given up; each may still fence once
        if sink is not None:
            sink.publishers += 1  # it stays open until this one has ended
        self._task = guarded_task(self._publish(), f"feed {definition.id}")

    def apply(self, report: PartitionProgress) -> None:
        """Apply a report to the frontier (step M1). It must name this epoch of the feed."""
        if self.frontier is None:
            self._early.add(report)
            return
        rose = self.frontier.apply_columns(
            report.partition, report.offset, report.starts, report.ends, report.resolved
        )
        if (
            rose or not self._moved
        ):  # the first report after a look at the spans ahead makes the next look due
            self._news.set()
        self._moved = True

    def report(self) -> FeedReport | None:
        """Return how far the feed is, for an operator; ``None`` before its frontier has begun."""
        frontier = self.frontier or self._former
        if frontier is None:
            return None
        high_water = frontier.high_water if frontier.scanned else None
        lowest = frontier.spans.lowest_entry()
        span, resolved = (Span(b"", b""), self._start) if lowest is None else lowest
        interval_ns, marker = self.definition.options.resolved_interval_ns, frontier.marker
        return FeedReport(
            self.definition.id,
            self.definition.epoch,
            None if high_water is None else str(high_water),
            None if high_water is None else time.time_ns() // NANOS_PER_MS - high_water.wall_ms,
            span.start.hex(),
            span.end.hex(),
            str(max(resolved, self._start)),
            None if self._persisted is None else str(self._persisted),
            None if marker is None or not self._marks else str(marker),
            None if interval_ns is None else interval_ns // NANOS_PER_MS,
            self._why_markers_wait(),
        )

    def _why_markers_wait(self) -> str:
        if self._progress_waits:
            return self._progress_waits
        if self._marks and not self._markers.ready and self._refusal is None:
            return "what they need is not there yet: the ids of their schemas from the feed's registry"
        silent_s = 0.0 if self._beside is None else self._now() - self._beside_since
        if silent_s >= _SILENCE_S and not self._markers_wait:
            return f"the cluster of the feed's sink has not taken one for {silent_s:.0f} s"
        return self._markers_wait

    async def close(self) -> None:
        """Finish the progress's open transaction, give up a marker that waits, and write no more.

        A transaction that Kafka does not finish in time is given up. The next owner ends it.
        """
        self._closing.set()
        self._news.set()
        self._writer.give_up()
        try:
            await asyncio.wait([self._task], timeout=self._drain_s)
            self._producer.give_up()
            await self._task
            if self._beside is not None:
                await self._beside
            await self._writer.close()
            await self._producer.close()
        finally:
            self._let_sink_go()

    def _let_sink_go(self) -> None:
        sink, self._sink = self._sink, None
        if sink is not None:
            sink.publishers -= 1

    async def _publish(self) -> None:
        try:
            await self._publish_epoch()
        except DeliveryError as error:
            if not await self._is_let_go(error):
                raise
        except GivenUpError:
            return
        except Exception as error:
            await self._break(error)

    async def _break(self, error: Exception) -> None:
        """Have the feed fail after an exception that nobody foresaw, and do no other work for it (U9).

        Raises ``error`` if the process or its operator is at fault.
        """
        self._refuse(error)
        while not self._closing.is_set():
            try:
                if self._producer.is_lost and not await self._has_opened():
                    return
                await self._tell_refusal()
                self._progress_waits = ""
            except (UnansweredError, ProducerFenced) as lost:
                if not await self._may_begin_anew(lost):
                    return
            except DeliveryError as refused:
                if not await self._is_let_go(refused):
                    raise
                return
            except GivenUpError:
                return
            except Exception as again:
                self._faults.reported(self.definition.id, again)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._closing.wait(), AGAIN_S)
            else:
                await self._closing.wait()

    async def _is_let_go(self, error: DeliveryError) -> bool:
        """Return whether this owner need not write any more, after ``error``.

        This first reads to the end of the jobs topic, but for ``_LOOK_S`` seconds at most: an open
        transaction of the next owner may hide that end.
        """
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._follower.read_to_end(self._closing), _LOOK_S)
        if not (self._closing.is_set() or self._is_over):
            return False
        # An owner that has to stop may be fenced before it has read why: by the feed's end (step E2), or by
        # the next owner. Nothing of its transaction is visible, and it begins no other one.
        _log.info(
            "this worker writes no more markers of the feed: it has ended, or another owner has it",
            feed=self.definition.id,
            cause=str(error),
        )
        return True

    async def _publish_epoch(self) -> None:
        """Own the epoch.

        After a call without an answer, or after a fence, begin to own it anew, as a successor would.
        """
        while not self._closing.is_set():
            try:
                await self._own_epoch()
            except (UnansweredError, ProducerFenced) as lost:
                if not await self._may_begin_anew(lost):
                    return
            else:
                return

    async def _may_begin_anew(self, error: UnansweredError | ProducerFenced) -> bool:
        """Pause, without a frontier. Returns whether the feed is still this owner's, as far as is known.

        Raises ``error`` if it is a fence that cannot come from a late request.
        """
        self._former, self.frontier = self.frontier or self._former, None
        self._progress_waits = str(error)
        if isinstance(error, UnopenedError):
            self._late_opens.append(self._now())
        elif isinstance(error, ProducerFenced):
            if await self._is_let_go(error):
                return False
            if not self._may_be_late():
                raise error
        pause_s = self._begun_anew.failed()
        _log.error("a feed begins anew", feed=self.definition.id, cause=str(error), again_in_s=pause_s)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._closing.wait(), pause_s)
        return not (self._closing.is_set() or self._is_over)

    def _may_be_late(self) -> bool:
        """Return whether a fence may come from a late request, and not from another owner.

        A late request was sent by a former owner that was cut off. Or it is an opening that this owner has
        given up. Each such request fences once. Any other fence that follows soon comes from another owner.
        """
        now, former = self._now(), self._fenced_at
        self._fenced_at = now
        self._late_opens = [at for at in self._late_opens if now < at + _LATE_S]
        return now >= former + _LATE_S or bool(self._late_opens and self._late_opens.pop())

    async def _has_opened(self) -> bool:
        """Fence former owners and read the progress that they persisted (M0).

        Returns whether this owner has the feed.
        """
        await self._producer.open()
        return await self._follower.read_to_end(self._closing) and not self._is_over

    async def _own_epoch(self) -> None:
        if not await self._has_opened():
            return
        frontier = self._begin()
        preparing = guarded_task(self._prepare(), f"markers of {self.definition.id}")
        try:
            while not self._closing.is_set():
                self._news.clear()  # before looking: what comes meanwhile sets it again
                await self._advance(frontier)
                await self._wait(frontier)
        finally:
            preparing.cancel()

    @property
    def _is_over(self) -> bool:
        """Whether this epoch is over: the feed has ended, or a later epoch of it is defined."""
        feed = self._follower.view[self.definition.id]
        overtaken = feed.epoch is not None and feed.epoch > self.definition.epoch
        return overtaken or feed.status in ENDED

    async def _prepare(self) -> None:
        """Get what markers need. This runs beside the progress, which does not wait for it."""
        if self._marks and not self._markers.ready:
            try:
                await self._markers.prepare()
            except Exception as error:
                self._refuse(error)
            self._news.set()

    def _begin(self) -> FeedFrontier:
        """Begin the frontier as the last owner left it, and apply the reports that came before it began."""
        left = self._follower.view[self.definition.id]
        self._persisted, self._ahead = left.high_water, left.ahead
        self.frontier = self._progress.begin(left)
        self._proved = not self._writer.beside
        self._progress_waits = ""
        self._begun_anew.succeeded()
        self._owed = self._persisted if self._marks and self.frontier.marker is not None else None
        _log.info("frontier begins", feed=self.definition.id, high_water=str(self.frontier.high_water))
        self._ahead_due = self._now() + _SPANS_S
        self._former = None
        for report in self._early.take_reports():
            self.apply(report)
        return self.frontier

    async def _advance(self, frontier: FeedFrontier) -> None:
        await self._tell_refusal()
        if self._now() >= self._markers_rest_until:
            self._markers_rest_until = 0.0
        if self._marks and self._refusal is None and not self._writer.is_open and self._may_begin:
            self._begin_beside(self._open_writer())
        if self._owed is not None and self._may_mark:
            await self._hand_over(self._owed, frontier)
        high_water = ResolvedTimestamp(frontier.high_water)
        marker = frontier.due_marker() if self._owed is None and self._may_mark else None
        due = marker is not None or self._now() >= self._persist_due
        await self._persist(frontier, high_water if due and self._unpersisted(frontier) else None)
        if marker is not None:
            await self._hand_over(marker, frontier)

    async def _hand_over(self, marker: ResolvedTimestamp, frontier: FeedFrontier) -> None:
        """Write a marker (step M3). If it may have to wait for another cluster, a task of its own does it."""
        if not self._writer.beside:
            await self._mark_and_note(marker, frontier)
            return
        if not self._proved:  # step M2b: an owner that was fenced on its own cluster is told of it here
            await self._persist(frontier, ResolvedTimestamp(frontier.high_water))
            self._proved = True
        self._begin_beside(self._mark_and_note(marker, frontier))

    async def _mark_and_note(self, marker: ResolvedTimestamp, frontier: FeedFrontier) -> None:
        if not await self._mark(marker):
            return
        self._progress.note_marker(marker)
        if frontier is not self.frontier:  # this owner has begun anew meanwhile, and repeats what it owes
            return
        if self._owed is None:
            frontier.marked(marker)
        self._owed = None

    async def _open_writer(self) -> None:
        """Open the writer (step M2a), or rest if that fails. The caller has to go on with step M2b."""
        self._proved = False
        try:
            await self._writer.open()
        except (RetryError, SettingsError) as error:
            self._rest(error)

    def _begin_beside(self, work: Coroutine[Any, Any, None]) -> None:
        self._beside_since = self._now()
        self._beside = guarded_task(self._work_beside(work), f"sink of {self.definition.id}")

    async def _work_beside(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except GivenUpError:
            pass
        except Exception as error:
            self._refuse(error)
        self._beside = None
        self._news.set()

    @property
    def _marks(self) -> bool:
        """Whether the feed has markers at all."""
        return self.definition.options.resolved_interval_ns is not None

    @property
    def _may_begin(self) -> bool:
        return self._beside is None and not self._markers_rest_until

    @property
    def _may_mark(self) -> bool:
        return self._refusal is None and self._markers.ready and self._writer.is_open and self._may_begin

    async def _wait(self, frontier: FeedFrontier) -> None:
        """Wait until there is news, or until progress, spans or a marker that was held back is due."""
        dues = [self._persist_due] if self._unpersisted(frontier) else []
        dues += [self._ahead_due] if self._moved else []
        dues += [self._markers_rest_until] if self._markers_rest_until else []
        delay_s = max(0.0, min(dues) - self._now()) if dues else None
        try:
            await asyncio.wait_for(self._news.wait(), delay_s)
        except TimeoutError:
            return

    def _unpersisted(self, frontier: FeedFrontier) -> bool:
        return frontier.high_water > (frontier.begin if self._persisted is None else self._persisted)

    async def _persist(self, frontier: FeedFrontier, high_water: ResolvedTimestamp | None) -> None:
        """Persist ``high_water`` if it is given, and the spans above it if they are due: step M2.

        Both are taken from the frontier at the same moment, and rest on committed checkpoints alone.
        """
        records: list[ProgressRecord | SpansRecord] = []
        ahead = self._ahead
        if high_water is not None:
            records.append(self._progress.record(frontier, high_water))
        if self._moved and self._now() >= self._ahead_due:
            self._moved, self._ahead_due = False, self._now() + _SPANS_S
            ahead = frontier.ahead()
            if ahead != self._ahead:
                records.append(SpansRecord(self.definition.id, self.definition.epoch, ahead))
        if records:
            await self._producer.commit(
                [Record(self._topics.jobs, 0, record.key, record.to_bytes()) for record in records]
            )
        self._ahead = ahead
        if high_water is not None:
            self._persisted = high_water
            self._persist_due = self._now() + _PROGRESS_S

    async def _mark(self, marker: ResolvedTimestamp) -> bool:
        """Write a marker (step M3). Returns ``False`` if it cannot be written now, or never can be (R7)."""
        try:
            await self._writer.check()
            records = await self._markers.of(marker)
            await self._writer.write(records)
        except (RetryError, SettingsError) as error:
            self._rest(error)
            return False
        except RecordRefused as error:
            self._refusal, self._markers_wait = error, str(error)
            self._news.set()
            return False
        except (GivenUpError, DeliveryError):
            raise
        except Exception as error:
            self._refuse(error)
            return False
        self._markers_failed.succeeded()
        self._markers_wait = ""
        MARKERS.labels(self.definition.id).inc()
        return True

    def _rest(self, error: RetryError | SettingsError) -> None:
        pause_s = self._markers_failed.failed()
        self._markers_rest_until = self._now() + pause_s
        self._markers_wait = str(error)
        _log.error("markers wait", feed=self.definition.id, cause=str(error), again_in_s=pause_s)

    def _refuse(self, error: Exception) -> None:
        """Write no marker any more, after an exception that nobody foresaw. The feed fails with it (U9).

        Raises ``error`` where the process or its operator is at fault, as for a full disk.
        """
        if isinstance(error, DeliveryError | SettingsError):
            raise error
        self._refusal = self._faults.reported(self.definition.id, error)
        self._markers_wait = str(self._refusal)
        self._news.set()

    async def _tell_refusal(self) -> None:
        """Tell the jobs agent that no marker can be written any more, so that it fails the feed: step R7.

        A log partition tells of a failure in the same way. A fenced owner cannot do this. Does nothing if
        markers can be written, or if the agent was told already.
        """
        refusal = self._refusal
        if refusal is None or self._refusal_told:
            return
        _log.error(
            "no marker of the feed can be written, so it fails", feed=self.definition.id, cause=str(refusal)
        )
        told = Failed(self.definition.id, self.definition.epoch, NO_PARTITION, str(refusal))
        await self._producer.commit([Record(self._topics.control_acks, 0, ack_key(told), told.to_bytes())])
        self._refusal_told = True
