"""One feed's progress and markers: steps M1 to M3 of docs/delivery.md, by the driver.

The transactional id is the same as the worker's for this feed: whoever runs the feed next, on either engine,
fences whoever ran it before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from pipeline.marker_writers import MarkerWriter, Marking
from tidegate.changefeed.confluent import Schema, frame_prefix
from tidegate.changefeed.encoder import compile_marker
from tidegate.changefeed.feed import FeedDefinition
from tidegate.changefeed.feed_progress import FeedProgress
from tidegate.changefeed.job_records import ProgressRecord, StateRecord
from tidegate.changefeed.jobs import FeedView
from tidegate.changefeed.resolved_topic import marker_partitions, offset_marker_value, topics_with
from tidegate.client.transaction import Record, TransactionalProducer
from tidegate.hlc import ResolvedTimestamp
from tidegate.processor.checkpoint import PartitionReport

#: Where partitions, (topic, number), end for an uncommitted reader. Raises ``RetryError``.
Ends: TypeAlias = Callable[[Sequence[tuple[str, int]]], Mapping[tuple[str, int], int]]


class FeedProducers(NamedTuple):
    """Of a feed's progress, which is open; and of its markers."""

    home: TransactionalProducer
    markers: MarkerWriter

    def close(self) -> None:
        """Let go of the brokers."""
        self.markers.close()
        self.home.close()


class FeedMarkers:
    """The frontier of one epoch of one feed, made durable and told to its consumers.

    ``producers`` write progress to ``jobs``, and markers; ``ends`` asks the cluster of the feed's topics
    where partitions end, transactions that are open included. ``schema_id`` asks the feed's registry.
    ``feed`` is what the jobs topic told after the producer of progress was opened.
    """

    def __init__(
        self,
        feed: FeedView,
        jobs: str,
        producers: FeedProducers,
        ends: Ends,
        schema_id: Callable[[str, Schema], int],
    ) -> None:
        assert feed.definition is not None
        assert feed.current_state is not None
        self._definition: FeedDefinition = feed.definition
        self._state: StateRecord = feed.current_state
        self._jobs = jobs
        self._producers = producers
        self._ends = ends
        self._schema_id = schema_id
        self._persisted = feed.high_water
        self._progress = FeedProgress(feed.definition, feed.current_state)
        self._frontier = self._progress.begin(feed)
        #: Persisted by an earlier owner, and maybe not written.
        self._owed = feed.high_water if self._marks and self._frontier.marker is not None else None

    @property
    def epoch(self) -> int:
        """Of the feed's definition."""
        return self._definition.epoch

    def apply(self, report: PartitionReport) -> None:
        """Step M1. The report names this epoch of the feed, and its rows are acknowledged."""
        self._frontier.apply_columns(
            report.partition, report.offset, report.starts, report.ends, report.resolved
        )

    def publish(self) -> ProgressRecord | None:
        """Steps M2 and M3; returns the progress where there is some. Raises ``DeliveryError`` when fenced."""
        writer = self._producers.markers
        marks = self._marks and writer.get_ready()
        due = self._frontier.due_marker() if marks else None
        marker = (due or self._owed) if marks else None  # what is due says all that the other would
        progress = self._persist(again=marker is not None and not writer.is_proved)
        if marker is not None:
            writer.prove()
            writer.write(self._marking(marker), partial(self._marked, due))
        return progress

    def close(self) -> None:
        """Let go of the producers."""
        self._producers.close()

    @property
    def _marks(self) -> bool:
        return self._definition.options.resolved_interval_ns is not None

    def _persist(self, *, again: bool) -> ProgressRecord | None:
        frontier = self._frontier
        known = frontier.begin if self._persisted is None else self._persisted
        if frontier.high_water <= known and not again:
            return None
        progress = self._progress.record(frontier, ResolvedTimestamp(frontier.high_water))
        self._producers.home.commit([Record(self._jobs, 0, progress.key, progress.to_bytes())])
        self._persisted = progress.high_water
        return progress

    def _marked(self, due: ResolvedTimestamp | None) -> None:
        self._owed = None
        if due is not None:
            self._frontier.marked(due)

    def _marking(self, marker: ResolvedTimestamp) -> Marking:
        """Offsets are asked for when the marker is written: behind all rows that it covers (M3a)."""
        aside = self._definition.options.resolved_topic
        if aside:
            return partial(self._aside, aside, marker)
        records = self._among_rows(marker)
        return lambda: records

    def _among_rows(self, marker: ResolvedTimestamp) -> Sequence[Record]:
        records = []
        options = self._definition.options
        for target in self._state.targets:
            encoder = compile_marker(target.table, options)
            value = encoder.encode(marker)
            if encoder.schema is not None:
                prefix = frame_prefix(self._schema_id(options.confluent_schema_registry, encoder.schema))
                value = prefix + value
            records += [Record(target.topic, number, None, value) for number in range(target.partitions)]
        return records

    def _aside(self, topic: str, marker: ResolvedTimestamp) -> Sequence[Record]:
        targets = self._state.targets
        ends = self._ends(
            [(target.topic, number) for target in targets for number in range(target.partitions)]
        )
        records = []
        for number in range(marker_partitions(targets)):
            offsets = {each: ends[each, number] for each in topics_with(number, targets)}
            records.append(Record(topic, number, None, offset_marker_value(marker, offsets)))
        return records
