"""The records of one feed's markers (step M3 of docs/delivery.md), the same for every engine.

What has to be known to make them, the ids of schemas or the ends of topics, is asked for by the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from tidegate.changefeed.definition.feed import FeedTarget
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.encoding.confluent import SubjectSchema, frame_prefix
from tidegate.changefeed.encoding.encoder import compile_marker
from tidegate.changefeed.encoding.resolved_topic import marker_partitions, offset_marker_value, topics_with
from tidegate.errors import RetryError
from tidegate.hlc import ResolvedTimestamp

#: Topic and partition.
Place: TypeAlias = tuple[str, int]


class OutgoingMarker(NamedTuple):
    """A marker on one partition; it has no key."""

    topic: str
    partition: int
    value: bytes


class MarkersAmongRows:
    """Each marker goes to every partition of every topic of the feed, framed where its format has schemas."""

    def __init__(self, options: FeedOptions, targets: Sequence[FeedTarget]) -> None:
        self._markers = [(target, compile_marker(target.table, options)) for target in targets]
        self._encoders: list[tuple[FeedTarget, Callable[[ResolvedTimestamp], bytes]]] = []
        #: The schemas that need ids, and the registry that gives them.
        self.schemas = [marker.schema for _, marker in self._markers if marker.schema is not None]
        self.registry = options.confluent_schema_registry
        if not self.schemas:
            self.frame({})

    @property
    def is_framed(self) -> bool:
        """Whether the ids of all schemas are known."""
        return bool(self._encoders)

    def frame(self, ids: Mapping[SubjectSchema, int]) -> None:
        """Take the ids of ``schemas``."""
        self._encoders = [
            (
                target,
                marker.encode
                if marker.schema is None
                else partial(_framed, frame_prefix(ids[marker.schema]), marker.encode),
            )
            for target, marker in self._markers
        ]

    def records(self, marker: ResolvedTimestamp) -> list[OutgoingMarker]:
        """The records of one marker, once it ``is_framed``."""
        records = []
        for target, encode in self._encoders:
            value = encode(marker)
            records += [
                OutgoingMarker(target.topic, partition, value) for partition in range(target.partitions)
            ]
        return records


def _framed(prefix: bytes, encode: Callable[[ResolvedTimestamp], bytes], marker: ResolvedTimestamp) -> bytes:
    return prefix + encode(marker)


class MarkersAside:
    """Each marker goes to every partition of a topic of its own, with the ends of the topics of rows.

    ``places`` are the partitions whose ends a marker names. ``fault`` is a sentence once an end has fallen:
    rows that a marker promised are gone, and that does not pass by itself.
    """

    def __init__(self, topic: str, targets: Sequence[FeedTarget]) -> None:
        self._topic = topic
        self._targets = targets
        self._ends: Mapping[Place, int] = {}
        self.places = [(each.topic, number) for each in targets for number in range(each.partitions)]
        self.fault = ""

    def records(self, marker: ResolvedTimestamp, ends: Mapping[Place, int]) -> list[OutgoingMarker]:
        """The records of one marker, with the ``ends`` that were asked for after step M2.

        Raises ``RetryError`` from the first end that is lower than in the marker before.
        """
        self._refuse_fallen(ends)
        self._ends = ends
        return [self._record(partition, marker) for partition in range(marker_partitions(self._targets))]

    def _record(self, partition: int, marker: ResolvedTimestamp) -> OutgoingMarker:
        offsets = {topic: self._ends[topic, partition] for topic in topics_with(partition, self._targets)}
        return OutgoingMarker(self._topic, partition, offset_marker_value(marker, offsets))

    def _refuse_fallen(self, ends: Mapping[Place, int]) -> None:
        fallen = next((place for place, before in self._ends.items() if ends[place] < before), None)
        if fallen is not None and not self.fault:
            self.fault = _fallen(fallen, self._ends[fallen], ends[fallen])
        if self.fault:
            raise RetryError(self.fault)


def _fallen(place: Place, before: int, now: int) -> str:
    topic, partition = place
    return (
        f"{topic}[{partition}] ended at offset {before} and then at {now}: it was deleted and created again, "
        "or a broker lost records, so rows are gone that a marker has promised. No further marker is "
        "written; drop the feed, and create it anew on other topics"
    )
