"""The in-memory reference engine: the simplest way to run the partition processors.

It keeps only the state of the processors, and writes to lists. It has no failures, so it loses nothing. The
Faust worker and the Spark job must give the same records to the same partitions, in the same order per key,
once exact copies are removed. Only how often markers come may differ (tests/contract).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple
from zlib import crc32

from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.encoding.confluent import MAX_SCHEMA_ID, SubjectSchema, frame_prefix
from tidegate.changefeed.encoding.encoder import compile_marker
from tidegate.changefeed.encoding.resolved_topic import marker_partitions, offset_marker_value, topics_with
from tidegate.changefeed.lifecycle.control import Activate
from tidegate.changefeed.lifecycle.frontier import FeedFrontier
from tidegate.errors import FeedError
from tidegate.hlc import ResolvedTimestamp
from tidegate.processor.batch import (
    ControlRecord,
    ExchangeRecord,
    Incident,
    LogRecord,
    PartitionCheckpoint,
    StepResult,
)
from tidegate.processor.checkpoint import report_of
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.feeds.framing import frame, schemas_of
from tidegate.processor.processor import PartitionProcessor
from tidegate.processor.range_claims import RangeClaims
from tidegate.raftlog.encode import partition_of
from tidegate.raftlog.entry import Offset
from tidegate.raftlog.request import RangeRequest
from tidegate.ranges.handoff import receiver_of


class OutputPartition(NamedTuple):
    """One partition of an output topic."""

    topic: str
    partition: int


class Emitted(NamedTuple):
    """A record of an output topic; ``key`` is ``None`` for a marker."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None
    headers: tuple[tuple[str, bytes], ...]


def content_id(schema: SubjectSchema) -> int:
    """Return a schema id that is worked out from the schema alone, for engines without a registry."""
    return crc32(schema.text.encode()) & MAX_SCHEMA_ID


class ReferenceEngine:
    """Runs feeds over the log of ``partitions`` partitions.

    Each feed is given as its ``Activate`` message: definition, start and resolved targets. All feeds are
    active from the first record of the log on. ``schema_id`` stands for the schema registry: it gives each
    schema its id, the same one each time, or raises ``FeedError`` to refuse the schema.
    """

    def __init__(
        self,
        partitions: int,
        feeds: Sequence[Activate],
        config: ProcessorConfig | None = None,
        *,
        schema_id: Callable[[SubjectSchema], int] = content_id,
    ) -> None:
        self._schema_id = schema_id
        self._feeds = {feed.feed_id: feed for feed in feeds}
        self._frontiers = {feed.feed_id: _frontier(feed) for feed in feeds}
        self._claims = RangeClaims()
        self._processors = [PartitionProcessor(number, partitions, config) for number in range(partitions)]
        #: The messages of the hand-off topic that each partition has not taken up yet.
        self._exchanges: list[list[ExchangeRecord]] = [[] for _ in range(partitions)]
        self.output: dict[OutputPartition, list[Emitted]] = defaultdict(list)
        self._handed = 0
        self.requests: list[RangeRequest] = []
        self.incidents: list[Incident] = []
        controls = [ControlRecord(Offset(number), feed) for number, feed in enumerate(feeds)]
        for processor in self._processors:
            self._make_durable(processor, processor.control(controls))

    def step(self, partition: int, records: Sequence[LogRecord]) -> None:
        """Take the next batch of one partition."""
        processor = self._processors[partition]
        self._make_durable(processor, processor.step(records))
        self._let_go_on()

    def _let_go_on(self) -> None:
        """Pass claims and hand-offs on and apply backlogs, until nothing is left to do."""
        busy = True
        while busy:
            busy = False
            for processor, waiting in zip(self._processors, self._exchanges, strict=True):
                if waiting:
                    taken, waiting[:] = list(waiting), []
                    self._make_durable(processor, processor.exchange(taken))
                    busy = True
                while processor.ready:
                    self._make_durable(processor, processor.step(()))
                    busy = True

    def high_water(self, feed_id: FeedId) -> ResolvedTimestamp:
        """Return the timestamp up to which the feed is complete."""
        return ResolvedTimestamp(self._frontiers[feed_id].high_water)

    def _make_durable(self, processor: PartitionProcessor, result: StepResult) -> None:
        """Write the rows of a result, then pass on its messages, then write the markers that it allows."""
        for feed_id, unframed in list(result.unframed.items()):
            try:
                ids = {schema: self._schema_id(schema) for schema in schemas_of(unframed)}
            except FeedError as refusal:
                processor.refuse(feed_id, refusal, result)
            else:
                result.records_of(feed_id).extend(frame(unframed, ids))
        for records in result.outputs.values():
            for record in records:
                self.output[OutputPartition(record.topic, record.partition)].append(
                    Emitted(record.key, record.value, record.timestamp_ms, tuple(record.headers))
                )
        self.requests += result.requests
        for message in result.exchanges:
            number = partition_of(receiver_of(message), len(self._processors))
            self._handed += 1
            self._exchanges[number].append(ExchangeRecord(Offset(self._handed), message))
        self.incidents += result.incidents
        if result.checkpoint is not None:
            self._advance(result.checkpoint)

    def _advance(self, checkpoint: PartitionCheckpoint) -> None:
        (report,) = self._claims.count([report_of(checkpoint)])
        for active in report.feeds:
            frontier = self._frontiers[active.feed_id]
            frontier.apply_columns(
                report.partition, report.offset, report.starts, report.ends, report.resolved
            )
            marker = frontier.due_marker()
            if marker is not None:
                self._write_marker(self._feeds[active.feed_id], marker)
                frontier.marked(marker)

    def _write_marker(self, feed: Activate, marker: ResolvedTimestamp) -> None:
        if feed.definition.options.resolved_topic:
            self._write_offset_markers(feed, marker)
            return
        for target in feed.targets:
            encoder = compile_marker(target.table, feed.definition.options)
            value = encoder.encode(marker)
            if encoder.schema is not None:
                value = frame_prefix(self._schema_id(encoder.schema)) + value
            record = Emitted(None, value, None, ())
            for partition in range(target.partitions):
                self.output[OutputPartition(target.topic, partition)].append(record)

    def _write_offset_markers(self, feed: Activate, marker: ResolvedTimestamp) -> None:
        """Write markers that name the ends of the output partitions.

        Every row of this engine is acknowledged at once, so a partition ends where its list ends.
        """
        for partition in range(marker_partitions(feed.targets)):
            topics = topics_with(partition, feed.targets)
            ends = {topic: len(self.output[OutputPartition(topic, partition)]) for topic in topics}
            place = OutputPartition(feed.definition.options.resolved_topic, partition)
            self.output[place].append(Emitted(None, offset_marker_value(marker, ends), None, ()))


def _frontier(feed: Activate) -> FeedFrontier:
    spans = [span for target in feed.targets for span in target.spans]
    options = feed.definition.options
    return FeedFrontier(spans, feed.start, options.resolved_interval_ns, scan=options.initial_scan)
