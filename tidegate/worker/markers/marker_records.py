"""The records of step M3: a feed's markers as they go to Kafka, and what has to be known to make them.

Markers among the rows may need the ids of their schemas, markers on a topic of their own need the ends of
the feed's topics. Neither is waited for where progress is made durable: the publisher asks whether it is
there, and leaves the marker out until it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Final, Protocol, TypeAlias

import structlog

from tidegate.changefeed.definition.feed import FeedDefinition, FeedTarget
from tidegate.changefeed.lifecycle.job_records import StateRecord
from tidegate.client.kafka.transaction import Record, sent
from tidegate.delivery import marker_records as delivery
from tidegate.delivery.marker_records import Place
from tidegate.delivery.sink_ends import ends_on
from tidegate.delivery.sink_identity import held
from tidegate.errors import FeedError
from tidegate.hlc import ResolvedTimestamp
from tidegate.worker.output.worker_sinks import SinkCluster
from tidegate.worker.process.schema_ids import SchemaIds

#: Where partitions end now; blocks, and raises ``RetryError`` (``ends_of``).
Ends: TypeAlias = Callable[[Sequence[Place]], Mapping[Place, int]]

_BACKOFF_FIRST_S: Final = 0.5
_BACKOFF_MAX_S: Final = 10.0

_log = structlog.get_logger("tidegate.frontier")


class BackOff:
    """How long to leave alone what failed: half a second at first, twice as long each time, 10 s at most."""

    def __init__(self) -> None:
        self._next_s = _BACKOFF_FIRST_S

    def failed(self) -> float:
        """The seconds to wait after one more failure."""
        pause_s, self._next_s = self._next_s, min(2 * self._next_s, _BACKOFF_MAX_S)
        return pause_s

    def succeeded(self) -> None:
        """Begin anew."""
        self._next_s = _BACKOFF_FIRST_S


class MarkerRecords(Protocol):
    """Makes the records of one feed's markers."""

    @property
    def ready(self) -> bool:
        """Whether ``prepare`` has done its work, or there is none."""

    async def prepare(self) -> None:
        """Get what every marker needs, for as long as that takes. Cancel it to give up."""

    async def of(self, marker: ResolvedTimestamp) -> list[Record]:
        """The records of one marker, once ``ready``. Raises ``RetryError`` when they cannot be made now."""


def ends_of(sink: SinkCluster, state: StateRecord) -> Ends:
    """How to ask where the topics of the feed with this state end, at its sink."""
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
    """What the feed's options ask for; ``threads`` do what blocks."""
    if definition.options.resolved_topic:
        return WorkerMarkersAside(definition.options.resolved_topic, targets, ends, threads)
    return WorkerMarkersAmongRows(definition, targets, schema_ids)


class WorkerMarkersAmongRows:
    """Each marker goes to every partition of every topic of the feed; ids of schemas are asked for before."""

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
                    "markers wait: their schema is refused, which was not so when the feed began; look who "
                    "changed the subject",
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
    """Each marker goes to every partition of a topic of its own, with the ends of the topics of rows."""

    ready: Final = True

    def __init__(self, topic: str, targets: Sequence[FeedTarget], ends: Ends, threads: Executor) -> None:
        self._ask = ends
        self._threads = threads
        self._markers = delivery.MarkersAside(topic, targets)

    async def prepare(self) -> None:
        """See ``MarkerRecords``. There is nothing that all markers share."""

    async def of(self, marker: ResolvedTimestamp) -> list[Record]:
        """See ``MarkerRecords``. The ends are those of this moment: after M2, so above every covered row."""
        loop = asyncio.get_running_loop()
        ends = await loop.run_in_executor(self._threads, self._ask, self._markers.places)
        return sent(self._markers.records(marker, ends))
