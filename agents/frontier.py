"""The frontier agent: turns committed checkpoints into progress and markers, feed by feed.

The checkpoints topic has a few partitions. A feed's id decides which one the feed belongs to, and every log
partition writes its checkpoints to all of them. Reading begins at the group's offset, or else at the oldest
record. Missed checkpoints come again: log partitions publish whole checkpoints when they are opened, and then
every 30 s. A late or repeated checkpoint does no harm.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import structlog
from faust.types import TP

from tidegate.changefeed.definition.feed import LIVE, Engine, FeedDefinition, FeedId, FeedState
from tidegate.changefeed.lifecycle.job_records import StateRecord
from tidegate.errors import RetryError, SettingsError
from tidegate.processor.checkpoint import PartitionProgress, read_report_record
from tidegate.processor.range_claims import OVERLAPS_MAX, Overlap
from tidegate.worker.kafka.fetched import FetchedBatch
from tidegate.worker.kafka.foreign_records import own_records
from tidegate.worker.kafka.intake import Intake, insisted
from tidegate.worker.markers.checkpoint_routes import CheckpointRoutes
from tidegate.worker.markers.feed_publisher import FeedPublisher
from tidegate.worker.markers.marker_records import MarkerRecords, UnmadeMarkers, ends_of, marker_records
from tidegate.worker.operations.report import FeedReport, OverlapReport
from tidegate.worker.output.worker_sinks import SinkCluster
from tidegate.worker.process.ending import guarded_task
from tidegate.worker.shell import Shell

_log = structlog.get_logger("tidegate.frontier")


class FrontierPartition:
    """One partition of the checkpoints topic that this worker holds, and the feeds that belong to it."""

    def __init__(self, app: Shell, partition: int) -> None:
        self._app = app
        self._partition = partition
        self._tp = TP(app.topic_names.checkpoints, partition)
        self.intake = Intake(self._tp, app.batches, self._route_reports)
        self._routes: CheckpointRoutes[FeedPublisher] = CheckpointRoutes(self._is_unknown)
        self._told: Sequence[Overlap] = ()  # the overlaps that log lines have told of
        self._leaving: set[asyncio.Task[None]] = set()
        self._released = False
        self._opening = guarded_task(self._open(), f"frontier {partition}")

    @property
    def publishers(self) -> Mapping[FeedId, FeedPublisher]:
        """The publishers of the feeds that have begun here."""
        return self._routes.receivers

    async def release(self) -> None:
        """Finish the transactions that are under way, and write no more."""
        self._released = True
        self.intake.close()
        await self._opening
        self._app.follower.forget(self._look_at)
        await asyncio.gather(*(publisher.close() for publisher in self.publishers.values()), *self._leaving)

    async def _open(self) -> None:
        """Begin with the feeds that can be seen now.

        This does not wait for the end of the jobs topic, since the wait might never end. An open transaction
        may hide that end, and perhaps only a publisher that begins here would abort the transaction
        (docs/protocols/markers.md).
        """
        follower = self._app.follower
        await follower.read_to_stable_end()
        if self._released:
            return
        follower.listen(self._look_at)
        place = await insisted(
            self._tp, lambda: self._app.batches.committed_or_earliest(self._tp), lambda: self._released
        )
        if place is not None:
            self.intake.open(place)

    def _look_at(self, feed_id: FeedId) -> None:
        """Begin or end the publisher of a feed, as the jobs topic says."""
        if self._released or zlib.crc32(feed_id.encode()) % self._count != self._partition:
            return
        feed = self._app.follower.view[feed_id]
        publisher = self.publishers.get(feed_id)
        here = feed.runs_on(Engine.WORKERS)
        # A running state without a start begins no frontier. The jobs agent reports such a state.
        begun = feed.current_state is not None and feed.current_state.start is not None
        live = here and feed.status in LIVE and begun
        if publisher is not None and (not live or publisher.definition != feed.definition):
            self._leave(self._routes.end(feed_id))
            publisher = None
        if live and publisher is None:
            self._begin(feed_id)
        elif not live and (feed.status is not FeedState.PENDING or (feed.defined and not here)):
            self._routes.forget(feed_id)

    def _is_unknown(self, feed_id: FeedId) -> bool:
        """Whether the feed may still begin here.

        It may if no state of it is known, and if it does not belong to another engine.
        """
        feed = self._app.follower.view[feed_id]
        return feed.current_state is None and (feed.defined is None or feed.runs_on(Engine.WORKERS))

    def _begin(self, feed_id: FeedId) -> None:
        feed = self._app.follower.view[feed_id]
        assert feed.definition is not None
        assert feed.current_state is not None
        runtime, definition, state = self._app.runtime, feed.definition, feed.current_state
        sink, markers = self._markers_of(definition, state)
        publisher = FeedPublisher(
            self._app.settings,
            definition,
            state,
            self._app.follower,
            markers,
            runtime.publisher_threads,
            runtime.machine,
            sink,
            runtime.reopening_threads,
            runtime.progress_room,
        )
        self._routes.begin(publisher)

    def _markers_of(
        self, definition: FeedDefinition, state: StateRecord
    ) -> tuple[SinkCluster | None, MarkerRecords]:
        """Return the cluster that the feed writes to, and the object that makes its markers.

        Raises ``SettingsError`` and ``RetryError``. After any other exception it returns no cluster, and
        markers that raise the exception again, so that the feed fails (U9).
        """
        runtime = self._app.runtime
        try:
            sink = runtime.sinks.of(definition, state.sink_cluster)
            ends = ends_of(sink, state)
            return sink, marker_records(definition, state.targets, runtime.schema_ids, ends, sink.threads)
        except (SettingsError, RetryError):
            raise
        except Exception as error:
            return None, UnmadeMarkers(error)

    def _leave(self, publisher: FeedPublisher) -> None:
        leaving = guarded_task(publisher.close(), f"leave {publisher.definition.id}")
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)

    def _route_reports(self, batch: FetchedBatch) -> None:
        self._routes.deliver(report for _, report in own_records(batch, self._read_report))
        self._app.batches.completed(self._tp, batch.end)
        if self.overlaps != self._told:
            self._tell_overlaps()

    def _read_report(self, key: bytes | None, value: bytes) -> PartitionProgress:
        return read_report_record(key, value, self._app.runtime.topology.partitions)

    @property
    def overlaps(self) -> Sequence[Overlap]:
        """The keys that several ranges have at the same time."""
        return self._routes.claims.overlaps

    def _tell_overlaps(self) -> None:
        """Log each overlap that began, and each that is over."""
        before, now = ({each.range_ids: each for each in found} for found in (self._told, self.overlaps))
        self._told = self.overlaps
        for ranges, overlap in now.items():
            if ranges not in before:
                start, end = overlap.span.start.hex(), overlap.span.end.hex()
                generations = [claim.generation for claim in overlap.claims]
                _log.error(
                    "ranges have keys in common: markers wait until one of them ends, or has other keys",
                    ranges=list(ranges),
                    others=overlap.others,
                    generations=generations,
                    start=start,
                    end=end,
                )
        for ranges in before.keys() - now.keys():
            if self._is_over(before[ranges]):
                _log.info("ranges have no keys in common any more", ranges=list(ranges))

    def _is_over(self, overlap: Overlap) -> bool:
        """Whether an overlap that ``overlaps`` does not name any more is over.

        ``overlaps`` names at most ``OVERLAPS_MAX`` overlaps, those with the lowest keys. If it names so many,
        an overlap above all of them may still be there.
        """
        found = self.overlaps
        return len(found) < OVERLAPS_MAX or overlap.span.start <= found[-1].span.start

    @property
    def _count(self) -> int:
        return self._app.settings.checkpoint_partitions


class Frontiers:
    """The partitions of the checkpoints topic that this worker holds."""

    def __init__(self, app: Shell) -> None:
        self._app = app
        self.open: dict[int, FrontierPartition] = {}

    def assigned(self, partition: int) -> None:
        """Begin to follow the partition."""
        self.open[partition] = FrontierPartition(self._app, partition)

    def receive_batch(self, batch: FetchedBatch) -> None:
        """Receive a batch of checkpoints."""
        held = self.open.get(batch.partition)
        if held is not None:
            held.intake.receive_batch(batch)

    def report(self) -> tuple[FeedReport, ...]:
        """Report on the feeds whose frontiers this worker owns."""
        publishers = (p for held in self.open.values() for p in held.publishers.values())
        return tuple(report for publisher in publishers if (report := publisher.report()) is not None)

    def overlaps(self) -> tuple[OverlapReport, ...]:
        """Report on the keys that several ranges have at the same time, as checkpoints have told so far."""
        found = {overlap_report(each): None for held in self.open.values() for each in held.overlaps}
        return tuple(found)[:OVERLAPS_MAX]

    async def released(self) -> None:
        """Release all partitions of the checkpoints topic, with their feeds."""
        leaving, self.open = self.open, {}
        await asyncio.gather(*(held.release() for held in leaving.values()))


def overlap_report(overlap: Overlap) -> OverlapReport:
    """Return an overlap for the status page: keys in hexadecimal, ids of ranges, generations."""
    generations = tuple(claim.generation for claim in overlap.claims)
    start, end = overlap.span.start.hex(), overlap.span.end.hex()
    return OverlapReport(start, end, overlap.range_ids, generations, overlap.others)


def frontier_agent(app: Shell) -> Frontiers:
    """Register the agent with the application."""
    frontiers = Frontiers(app)
    app.assignment.hold(app.topic_names.checkpoints, frontiers)

    @app.agent(app.batch_topic(app.topic_names.checkpoints), name="frontier", concurrency=1)
    async def frontier(stream: Any) -> None:
        await app.deliver(stream, frontiers.receive_batch)

    return frontiers
