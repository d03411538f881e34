"""One feed's progress and markers, written by the driver: steps M1 to M3 of docs/protocols/markers.md.

The transactional ids are those that a worker uses for this feed (``tidegate.delivery.producer_ids``): the
next process that runs the feed, on either engine, fences the one that ran it before.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from tidegate.changefeed.definition.feed import FeedDefinition, FeedEpoch
from tidegate.changefeed.encoding.confluent import SubjectSchema
from tidegate.changefeed.lifecycle.feed_progress import FeedProgress
from tidegate.changefeed.lifecycle.job_records import ProgressRecord, StateRecord
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.client.kafka.transaction import Record, TransactionalProducer, sent
from tidegate.delivery.back_off import BackOff
from tidegate.delivery.marker_records import SCHEMA_REFUSED, Ends, MarkersAmongRows, MarkersAside
from tidegate.errors import DeliveryError, FeedError, RetryError
from tidegate.hlc import ResolvedTimestamp
from tidegate.processor.checkpoint import PartitionProgress
from tidegate.spark.changefeed.marker_producers import MarkerProducer, Marking

_log = logging.getLogger("tidegate.spark")


class FeedProducers(NamedTuple):
    """A feed's two producers: ``home``, which is open, writes its progress, and ``markers`` its markers."""

    home: TransactionalProducer
    markers: MarkerProducer

    def close(self) -> None:
        """Close both. A thread that still writes by ``home`` waits for its brokers no longer."""
        self.home.give_up()
        self.markers.close()
        self.home.close()


class FeedMarkers:
    """The progress and the markers of one epoch of one feed: it has the frontier, and writes both.

    ``producers`` write progress to the topic ``jobs``, and markers. ``ends`` asks the cluster of the feed's
    topics where partitions end, open transactions included. ``schema_id`` asks the feed's schema registry.
    ``feed`` is the feed as the jobs topic has it, read after the producer of progress was opened. While the
    ends or schema ids for a marker are not known, only the marker waits. With ``insists`` ``publish`` raises
    ``RetryError`` instead.
    """

    def __init__(
        self,
        feed: FeedView,
        jobs: str,
        producers: FeedProducers,
        ends: Ends,
        schema_id: Callable[[str, SubjectSchema], int],
        *,
        insists: bool = False,
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
        aside, targets = feed.definition.options.resolved_topic, feed.current_state.targets
        self._aside = MarkersAside(aside, targets) if aside else None
        self._among: MarkersAmongRows | None = None
        self._insists = insists
        self._pauses = BackOff()
        self._waits = ""
        self._fault_told = False
        #: The number of markers that were written.
        self.written = 0
        self._rest_until = 0.0  # when to make a marker again; monotonic
        #: A high-water that an earlier owner persisted, maybe without writing its marker.
        self._owed = feed.high_water if self._marks and self._frontier.marker is not None else None

    @property
    def epoch(self) -> FeedEpoch:
        """The epoch of the feed's definition."""
        return self._definition.epoch

    @property
    def held(self) -> str:
        """The reason why no marker can be written, else empty.

        Examples: the sink's address means another cluster, an end has fallen, or a broker does not tell ends.
        """
        return self._fault or self._producers.markers.held or self._waits

    def apply(self, report: PartitionProgress) -> None:
        """Apply a partition's report to the frontier (step M1).

        The report has to name this epoch of the feed, and all rows that it covers have to be acknowledged.
        """
        self._frontier.apply_columns(
            report.partition, report.offset, report.starts, report.ends, report.resolved
        )

    def publish(self) -> ProgressRecord | None:
        """Do steps M2 and M3. Return the progress record if one was written, else ``None``.

        Raises ``DeliveryError`` when fenced, and ``RecordRefused`` if no marker can be written any more.
        """
        writer = self._producers.markers
        marks = self._marks and not self._fault and not self._rests and writer.get_ready()
        due = self._frontier.due_marker() if marks else None
        # a due marker is at least as high as one that is owed, so it is written in its place
        marker = (due or self._owed) if marks else None
        progress = self._persist(again=marker is not None and not writer.is_proved)
        if marker is not None:
            writer.prove()
            self._write(marker, due)
        self._tell_fault()
        return progress

    def abort(self) -> None:
        """Abort the transaction that an exception has left open: readers would wait for its end."""
        with suppress(DeliveryError):  # whoever fenced this owner has aborted it
            self._producers.home.abort_left()

    def close(self) -> None:
        """Close the producers."""
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

    def _marked(self, marker: ResolvedTimestamp, due: ResolvedTimestamp | None) -> None:
        self._owed = None
        self.written += 1
        self._progress.note_marker(marker)
        if due is not None:
            self._frontier.marked(due)

    def _marking(self, marker: ResolvedTimestamp) -> Marking:
        """Return a function that makes the marker's records.

        For markers in a topic of their own this function asks for end offsets. It is called when the marker
        is written, after all rows that the marker covers (M3a).
        """
        aside = self._aside
        if aside is not None:
            return lambda: sent(aside.records(marker, aside.ask(self._ends, time.monotonic)))
        records = sent(self._framed().records(marker))
        return lambda: records

    def _framed(self) -> MarkersAmongRows:
        among = self._among or MarkersAmongRows(self._definition.options, self._state.targets)
        self._among = among
        if not among.is_framed:
            among.frame({schema: self._schema_id(among.registry, schema) for schema in among.schemas})
        return among

    def _write(self, marker: ResolvedTimestamp, due: ResolvedTimestamp | None) -> None:
        """Write a marker (step M3). Raises ``RetryError`` for a fault that may pass, with ``insists``.

        Raises ``RecordRefused`` if no marker can be written any more (step R7).
        If something that a marker needs is not known, such as the ends of its topics or the id of its schema,
        only this feed's markers wait. It is asked for again after a pause.
        """
        try:
            self._producers.markers.write(self._marking(marker), partial(self._marked, marker, due))
        except FeedError as error:
            self._rest(f"{SCHEMA_REFUSED}: {error}")
        except RetryError as error:
            if self._fault:
                return
            if self._insists:
                raise
            self._rest(f"its markers wait: {error}")
        else:
            self._waits = ""
            self._pauses.succeeded()

    def _rest(self, why: str) -> None:
        pause_s = self._pauses.failed()
        self._waits, self._rest_until = why, time.monotonic() + pause_s
        _log.error("feed %s: %s (asked again in %g s)", self._definition.id, why, pause_s)

    @property
    def _rests(self) -> bool:
        """Whether no marker is tried now, because one could not be made a short time ago."""
        return time.monotonic() < self._rest_until

    @property
    def _fault(self) -> str:
        """The reason why the feed gets no marker any more: rows are gone that an earlier marker promised."""
        return "" if self._aside is None else self._aside.fault

    def _tell_fault(self) -> None:
        """Log once why the feed gets no marker any more.

        For a sink on another cluster a thread finds the reason, maybe after ``publish`` has stopped waiting
        for the marker.
        """
        if self._fault and not self._fault_told:
            self._fault_told = True
            _log.error(
                "feed %s gets no markers any more; its rows go on: %s", self._definition.id, self._fault
            )
