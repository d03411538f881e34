"""Makes the records of one feed's markers (step M3 of docs/protocols/markers.md), the same for every engine.

Markers may need the ids of schemas or the ends of topics. The engine asks for these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from tidegate.changefeed.definition.feed import FeedTarget
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.encoding.confluent import SubjectSchema, frame_prefix
from tidegate.changefeed.encoding.encoder import compile_marker
from tidegate.changefeed.encoding.resolved_topic import marker_partitions, offset_marker_value, topics_with
from tidegate.delivery.refused_rows import UNKNOWN_FOR_S
from tidegate.errors import RecordRefused, RetryError, TopicGone
from tidegate.hlc import ResolvedTimestamp

#: The sentence about a feed whose markers wait, because a registry refuses a schema that it once took.
SCHEMA_REFUSED: Final = (
    "markers wait: their schema is refused, and was not when the feed began; look who changed the subject"
)
#: While no broker knows a topic, the time between two questions for it counts, but at most so many seconds.
#: Engines pause for no longer than this before they ask again.
_COUNTED_S: Final = 10.0
#: A topic, and a partition of it.
Place: TypeAlias = tuple[str, int]
#: Asks where partitions end now, for a reader that also reads uncommitted records. Raises ``RetryError``.
Ends: TypeAlias = Callable[[Sequence[Place]], Mapping[Place, int]]


class OutgoingMarker(NamedTuple):
    """A marker to be written to one partition. It has no key."""

    topic: str
    partition: int
    value: bytes


class MarkersAmongRows:
    """Markers that go to every partition of every topic of the feed.

    If the format has schemas, each marker is framed: the id of its schema stands before its value.
    """

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
        """Return the records of one marker. Call it only when ``is_framed`` is true."""
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
    """Markers that go to every partition of a topic of their own. They name the ends of the topics of rows.

    ``places`` are the partitions whose ends markers name. ``fault`` is empty until one of these ends is lower
    than in an earlier marker. From then on it is a sentence about this: rows that a marker promised are gone,
    and waiting does not bring them back. Example: a marker named the end 500 of a partition, and now the
    partition ends at 200.
    """

    def __init__(self, topic: str, targets: Sequence[FeedTarget]) -> None:
        self._topic = topic
        self._targets = targets
        self._ends: Mapping[Place, int] = {}
        self._asked_at = 0.0
        self._gone_s: float | None = None
        self.places = [(each.topic, number) for each in targets for number in range(each.partitions)]
        self.fault = ""

    def ask(self, ends: Ends, clock: Callable[[], float]) -> Mapping[Place, int]:
        """Return where the ``places`` end now (step M3a). ``clock`` tells seconds that never go back.

        Raises ``RetryError`` while the ends are not known, and once an end has fallen. Raises
        ``RecordRefused`` once the brokers that were asked have not known a topic for ``UNKNOWN_FOR_S`` (step
        R7). Time in which nobody asks does not count: of the time between two questions at most
        ``_COUNTED_S`` count.
        """
        if self.fault:
            raise RetryError(self.fault)
        try:
            found = ends(self.places)
        except TopicGone as gone:
            if self._count_gone(clock()) < UNKNOWN_FOR_S:
                raise
            raise RecordRefused(gone.refusal) from None
        except RetryError:
            self._gone_s = None
            raise
        self._gone_s = None
        return found

    def _count_gone(self, now: float) -> float:
        """Return for how many seconds a topic has been unknown, the present question included."""
        passed_s = 0.0 if self._gone_s is None else self._gone_s + min(now - self._asked_at, _COUNTED_S)
        self._gone_s, self._asked_at = passed_s, now
        return passed_s

    def records(self, marker: ResolvedTimestamp, ends: Mapping[Place, int]) -> list[OutgoingMarker]:
        """Return the records of one marker, with the ``ends`` that were asked for after step M2.

        Raises ``RetryError`` if an end is lower than in the marker before, and from then on for every marker.
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
