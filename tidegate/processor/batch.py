"""The input and the output of a step of a partition processor.

An engine reads a batch of log records, runs ``PartitionProcessor.step``, and makes the result durable in the
order of docs/protocols/batches.md. Nothing here depends on the engine.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from tidegate.changefeed.definition.feed import FeedEpoch, FeedId
from tidegate.changefeed.encoding.confluent import RecordSchemas
from tidegate.changefeed.lifecycle.control import Ack, ControlMessage
from tidegate.hlc import ResolvedTimestamp
from tidegate.processor.refused import KEPT_OF_A_STEP, RefusedRecord
from tidegate.raftlog.entry import Generation, Offset, RangeId
from tidegate.raftlog.request import RangeRequest
from tidegate.ranges.handoff import Exchange
from tidegate.spans import Span


class LogRecord(Protocol):
    """A record of the log topic as clients deliver it; ``timestamp`` is its record time in milliseconds."""

    @property
    def offset(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def timestamp(self) -> int: ...


class ControlRecord(NamedTuple):
    """A message of the control topic, with its offset there."""

    offset: Offset
    message: ControlMessage


class ExchangeRecord(NamedTuple):
    """A claim or a hand-off, with its offset in the hand-off topic."""

    offset: Offset
    message: Exchange


class StateTable(enum.Enum):
    """The tables of a partition's state; the value names the table and its changelog."""

    RANGES = "ranges"
    INTENTS = "intents"
    DESCRIPTORS = "descriptors"
    FEEDS = "feeds"

    #: Each member is equal only to itself, so its identity is enough for a hash. Python's own hash of an
    #: enumeration takes longer than all that is done with a row of state.
    __hash__ = object.__hash__


class StateChange(NamedTuple):
    """A row of state as a step leaves it. A ``value`` of ``None`` removes the row."""

    table: StateTable
    key: bytes
    value: bytes | None


#: The name of the header that says where a row came from, as ``<range id>/<raft index>/<op ordinal>``. For
#: example ``17/4302/0``.
SOURCE_HEADER: Final = "tidegate-source"


class OutputRecord(NamedTuple):
    """A row as it goes to the sink. Every field but the headers is a function of the log alone."""

    topic: str
    partition: int
    key: bytes
    value: bytes | None
    timestamp_ms: int
    headers: list[tuple[str, bytes]]


class SchemedTopic(NamedTuple):
    """The topic of one table version's rows, and the schemas with which they are written."""

    topic: str
    partitions: int
    schemas: RecordSchemas


class UnframedRecord(NamedTuple):
    """An output record that lacks only the ids of its schemas, which the registry knows.

    The ids are to stand before the bodies of key and value. The partition depends on the key together with
    its id.
    """

    to: SchemedTopic
    key: bytes
    value: bytes | None
    timestamp_ms: int
    headers: list[tuple[str, bytes]]


class RangeCheckpoint(NamedTuple):
    """The checkpoint of a range: its span is complete up to ``resolved``.

    A later row of the span at or below ``resolved`` can only be a copy of one that was emitted before.
    ``span`` has no tenant prefix, like the spans that feeds watch.
    """

    range_id: RangeId
    generation: Generation
    span: Span
    resolved: ResolvedTimestamp


class ActiveFeed(NamedTuple):
    """A feed for which the partition emits rows."""

    feed_id: FeedId
    epoch: FeedEpoch


@dataclass(frozen=True, slots=True)
class PartitionCheckpoint:
    """The checkpoints of one partition after one batch: the latest one of each range that has moved.

    They hold for the feeds named here and for no other. ``offset`` is the log position that they reflect.
    ``log_time_ms`` and ``elapsed_ms`` are log time and elapsed log time there (0: not known). ``ended`` has
    ranges that have ended, in this batch or before.
    """

    partition: int
    offset: Offset
    feeds: tuple[ActiveFeed, ...]
    ranges: tuple[RangeCheckpoint, ...]
    log_time_ms: int = 0
    ended: tuple[RangeId, ...] = ()
    elapsed_ms: int = 0


class Incident(NamedTuple):
    """An event that an operator must hear of: a quarantine, a refused record, a failed feed."""

    partition: int
    offset: Offset
    range_id: RangeId | None
    feed_id: FeedId | None
    cause: str


@dataclass(slots=True)
class StepResult:
    """The outcome of one step.

    ``changes`` is frozen: it has the bytes of this moment, and later steps do not alter it. A feed's rows are
    in ``outputs``, or in ``unframed`` where its format has schemas; a feed without rows is in neither. An
    engine frames the unframed ones (``tidegate.processor.feeds.framing``) before it makes anything of the
    result durable. ``refused`` has records for the engine to keep aside; nothing depends on them. ``serial``
    is the number of the step in its processor, from 1; 0 for a result of no step. ``row_bytes`` says about
    how many bytes its rows have, and ``taken`` how many records of the log it took.
    """

    offset: Offset | None
    outputs: dict[FeedId, Sequence[OutputRecord]] = field(default_factory=dict)
    unframed: dict[FeedId, list[UnframedRecord]] = field(default_factory=dict)
    changes: list[StateChange] = field(default_factory=list)
    checkpoint: PartitionCheckpoint | None = None
    requests: list[RangeRequest] = field(default_factory=list)
    exchanges: list[Exchange] = field(default_factory=list)
    acks: list[Ack] = field(default_factory=list)
    incidents: list[Incident] = field(default_factory=list)
    refused: list[RefusedRecord] = field(default_factory=list)
    serial: int = 0
    row_bytes: int = field(default=0, compare=False)
    taken: int = 0

    def records_of(self, feed_id: FeedId) -> list[OutputRecord]:
        """Return the list of a feed's rows in ``outputs``, to which the caller may append rows."""
        records = self.outputs.get(feed_id, ())
        if not isinstance(records, list):
            records = self.outputs[feed_id] = [*records]
        return records

    def keep_aside(self, records: Sequence[RefusedRecord]) -> None:
        """Add refused records for the engine to keep aside.

        A step keeps ``KEPT_OF_A_STEP`` of them at most; the rest is dropped.
        """
        self.refused += records[: max(0, KEPT_OF_A_STEP - len(self.refused))]
