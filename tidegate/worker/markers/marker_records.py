"""Makes the records of step M3: a feed's markers as they go to Kafka.

Markers among the rows may need the ids of their schemas. Markers on a topic of their own need the ends of the
feed's topics. Progress waits for neither. The publisher asks whether they are there, and writes no marker
before they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Final, Protocol

import structlog

from tidegate.changefeed.definition.feed import FeedDefinition, FeedTarget
from tidegate.changefeed.lifecycle.job_records import StateRecord
from tidegate.client.kafka.transaction import Record, sent
from tidegate.delivery import marker_records as delivery
from tidegate.delivery.back_off import BackOff
from tidegate.delivery.marker_records import SCHEMA_REFUSED, Ends, Place
from tidegate.delivery.sink_ends import ends_on
from tidegate.delivery.sink_identity import held
from tidegate.errors import FeedError
from tidegate.hlc import ResolvedTimestamp
from tidegate.worker.output.worker_sinks import SinkCluster
from tidegate.worker.process.schema_ids import SchemaIds

_log = structlog.get_logger("tidegate.frontier")


class MarkerRecords(Protocol):
    """Makes the records of one feed's markers."""

    @property
    def ready(self) -> bool:
        """Whether ``prepare`` has done its work, or has none to do."""

    async def prepare(self) -> None:
        """Get what every marker needs, and wait for it without limit. Cancel the task to give up."""

    async def of(self, marker: ResolvedTimestamp) -> list[Record]:
        """Make the records of one marker, once ``ready``.

        Raises ``RetryError`` if they cannot be made now, and ``RecordRefused`` if they never can be again.
        """


def ends_of(sink: SinkCluster, state: StateRecord) -> Ends:
    """Return a function that asks the sink where the topics of a feed end. A call of this function blocks.

    ``state`` is the feed's. It has the id of the cluster of these topics.
    """
    if sink.own:
        return sink.admin.ends
    stored = state.sink_cluster
    say = partial(held, state.feed_id, sink.servers, stored)

    def ask(places: Sequence[Place]) -> Mapping[Place, int]:
        return ends_on(stored, sink.admin, places, say)

    return ask


def marker_records(
    definition: FeedDefinition,
    targets: Sequence[FeedTarget],
    schema_ids: SchemaIds,
    ends: Ends,
    threads: Executor,
) -> MarkerRecords:
    """Choose the kind of markers that the feed's options ask for. ``threads`` do the calls that block."""
    if definition.options.resolved_topic:
        return WorkerMarkersAside(definition.options.resolved_topic, targets, ends, threads)
    return WorkerMarkersAmongRows(definition, targets, schema_ids)


class WorkerMarkersAmongRows:
    """Markers that go to every partition of every topic of the feed. ``prepare`` asks for schema ids."""

    def __init__(
        self, definition: FeedDefinition, targets: Sequence[FeedTarget], schema_ids: SchemaIds
    ) -> None:
        self._definition = definition
        self._targets = targets
        self._schema_ids = schema_ids
        self._markers: delivery.MarkersAmongRows | None = None

    @property
    def ready(self) -> bool:
        """See ``MarkerRecords``."""
        return self._markers is not None and self._markers.is_framed

    async def prepare(self) -> None:
        """See ``MarkerRecords``. Waits while the schema registry is away, and while it refuses."""
        back_off = BackOff()
        markers = self._markers = delivery.MarkersAmongRows(self._definition.options, self._targets)
        while not markers.is_framed:
            try:
                ids = await self._schema_ids.ids(markers.registry, self._definition.id, markers.schemas)
                markers.frame(ids)
            except FeedError as error:  # the registry took the schema when the feed was created
                pause_s = back_off.failed()
                _log.error(
                    SCHEMA_REFUSED,
                    feed=self._definition.id,
                    cause=str(error),
                    again_in_s=pause_s,
                )
                await asyncio.sleep(pause_s)

    async def of(self, marker: ResolvedTimestamp) -> list[Record]:
        """See ``MarkerRecords``."""
        assert self._markers is not None
        return sent(self._markers.records(marker))


class WorkerMarkersAside:
    """Markers that go to every partition of a topic of their own, with the ends of the topics of rows."""

    ready: Final = True

    def __init__(self, topic: str, targets: Sequence[FeedTarget], ends: Ends, threads: Executor) -> None:
        self._ask = ends
        self._threads = threads
        self._markers = delivery.MarkersAside(topic, targets)

    async def prepare(self) -> None:
        """See ``MarkerRecords``. There is nothing to get: each marker asks for its own ends."""

    async def of(self, marker: ResolvedTimestamp) -> list[Record]:
        """See ``MarkerRecords``. The ends are asked for after M2, so they are above all rows that the marker
        covers.
        """
        loop = asyncio.get_running_loop()
        ends = await loop.run_in_executor(self._threads, self._markers.ask, self._ask, loop.time)
        return sent(self._markers.records(marker, ends))


class UnmadeMarkers:
    """Stands for the markers of a feed for which none can be made: ``prepare`` raises ``error``."""

    ready: Final = False

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def prepare(self) -> None:
        """Raise the error."""
        raise self._error

    async def of(self, marker: ResolvedTimestamp) -> list[Record]:  # noqa: ARG002 - there is none
        """Raise the error. Nobody calls this, since these markers are never ready."""
        raise self._error
