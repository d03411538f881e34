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

from app.schema_ids import SchemaIds
from tidegate.changefeed.confluent import frame_prefix
from tidegate.changefeed.encoder import compile_marker
from tidegate.changefeed.feed import FeedDefinition, FeedTarget
from tidegate.changefeed.resolved_topic import marker_partitions, offset_marker_value, topics_with
from tidegate.client.transaction import Record
from tidegate.errors import FeedError, RetryError
from tidegate.hlc import ResolvedTimestamp

#: Topic and partition.
Place: TypeAlias = tuple[str, int]
#: Where partitions end now; blocks, and raises ``RetryError`` (``app.topology.TopicAdmin.ends``).
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


def marker_records(
    definition: FeedDefinition,
    targets: Sequence[FeedTarget],
    schema_ids: SchemaIds,
    ends: Ends,
    threads: Executor,
) -> MarkerRecords:
    """What the feed's options ask for; ``threads`` do what blocks."""
    if definition.options.resolved_topic:
        return MarkersAside(definition.options.resolved_topic, targets, ends, threads)
    return MarkersAmongRows(definition, targets, schema_ids)


class MarkersAmongRows:
    """Each marker goes to every partition of every topic of the feed, framed where its format has schemas."""

    def __init__(
        self, definition: FeedDefinition, targets: Sequence[FeedTarget], schema_ids: SchemaIds
    ) -> None:
        self._definition = definition
        self._targets = targets
        self._schema_ids = schema_ids
        self._encoders: list[tuple[FeedTarget, Callable[[ResolvedTimestamp], bytes]]] = []

    @property
    def ready(self) -> bool:
        """See ``MarkerRecords``."""
        return bool(self._encoders)

    async def prepare(self) -> None:
        """See ``MarkerRecords``. Waits while the schema registry is away, and while it refuses."""
        back_off = BackOff()
        while not self._encoders:
            try:
                self._encoders = await self._framing()
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
        records = []
        for target, encode in self._encoders:
            value = encode(marker)
            records += [
                Record(target.topic, partition, None, value) for partition in range(target.partitions)
            ]
        return records

    async def _framing(self) -> list[tuple[FeedTarget, Callable[[ResolvedTimestamp], bytes]]]:
        options = self._definition.options
        markers = [(target, compile_marker(target.table, options)) for target in self._targets]
        schemas = [marker.schema for _, marker in markers if marker.schema is not None]
        if not schemas:
            return [(target, marker.encode) for target, marker in markers]
        url = options.confluent_schema_registry
        ids = await self._schema_ids.ids(url, self._definition.id, schemas)
        return [
            (target, partial(_framed, frame_prefix(ids[marker.schema]), marker.encode))
            for target, marker in markers
            if marker.schema is not None
        ]


def _framed(prefix: bytes, encode: Callable[[ResolvedTimestamp], bytes], marker: ResolvedTimestamp) -> bytes:
    return prefix + encode(marker)


class MarkersAside:
    """Each marker goes to every partition of a topic of its own, with the ends of the topics of rows."""

    ready: Final = True

    def __init__(self, topic: str, targets: Sequence[FeedTarget], ends: Ends, threads: Executor) -> None:
        self._topic = topic
        self._targets = targets
        self._ask = ends
        self._threads = threads
        self._places = [(each.topic, number) for each in targets for number in range(each.partitions)]
        self._ends: Mapping[Place, int] = {}

    async def prepare(self) -> None:
        """See ``MarkerRecords``. There is nothing that all markers share."""

    async def of(self, marker: ResolvedTimestamp) -> list[Record]:
        """See ``MarkerRecords``. The ends are those of this moment: after M2, so above every covered row."""
        loop = asyncio.get_running_loop()
        ends = await loop.run_in_executor(self._threads, self._ask, self._places)
        self._refuse_fallen(ends)
        self._ends = ends
        return [self._record(partition, marker) for partition in range(marker_partitions(self._targets))]

    def _record(self, partition: int, marker: ResolvedTimestamp) -> Record:
        offsets = {topic: self._ends[topic, partition] for topic in topics_with(partition, self._targets)}
        return Record(self._topic, partition, None, offset_marker_value(marker, offsets))

    def _refuse_fallen(self, ends: Mapping[Place, int]) -> None:
        """Rows that were promised are gone, and their absence does not pass by itself."""
        for place, before in self._ends.items():
            if ends[place] < before:
                self._ask = partial(_fallen, place, before, ends[place])
                self._ask(self._places)


def _fallen(place: Place, before: int, now: int, _: Sequence[Place]) -> Mapping[Place, int]:
    topic, partition = place
    raise RetryError(
        f"{topic}[{partition}] ended at offset {before} and then at {now}: it was deleted and created again, "
        "or a broker lost records, so rows are gone that a marker has promised. No further marker is "
        "written; drop the feed, and create it anew on other topics"
    )
