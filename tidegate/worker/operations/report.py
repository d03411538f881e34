"""The report of a worker about itself: the one source of /status, /health and /metrics."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, replace
from heapq import nsmallest
from typing import Any, Final

from tidegate.hlc import Timestamp, parse_decimal
from tidegate.processor.range_facts import Condition
from tidegate.processor.status import RangesIn
from tidegate.spans import Span

#: The state of a partition whose rows wait for the ids of their schemas.
WAITING: Final = "waiting"
#: The state of a feed that a partition brings missing versions to by scans.
CATCHING_UP: Final = "catching up"
_SLOWEST_COUNT: Final = 10
_PARKED_COUNT: Final = 50
#: Metrics and status name at most so many quarantined ranges: if retention deletes unread records of a log
#: partition, all of its ranges are quarantined.
_QUARANTINED_COUNT: Final = 50


@dataclass(frozen=True, slots=True)
class QuarantineReport:
    """A quarantined range, which gives no rows. ``offset`` is where the cause stands in the log."""

    partition: int
    range_id: int
    offset: int
    resolved: str
    cause: str


def _resolved_place(hole: QuarantineReport) -> tuple[Timestamp, int, int]:
    return parse_decimal(hole.resolved), hole.partition, hole.range_id


@dataclass(frozen=True, slots=True)
class ParkedReport:
    """A parked range. It waits for hand-offs of its ``parents``, or, in the ``state`` healing, for a scan.

    Its backlog of ``entries`` begins at ``offset`` of the log. ``age_ms`` is measured in log time.
    """

    partition: int
    range_id: int
    state: str
    offset: int
    entries: int
    age_ms: int
    parents: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LaggingReport:
    """A feed with missing versions in ``ranges`` ranges of a partition. Its markers wait for them.

    ``complete_to`` is the timestamp up to which nothing is missing in any of these ranges, ``None`` before
    the feed's initial scan is done. The range ``range_id`` is complete only up to that time. ``scans`` is how
    many scans are under way for the feed; they hold ``held_bytes`` in memory.

    ``gc_reserve_ms`` is the smallest distance from a range's GC threshold up to where its gap begins. At 0
    the store has removed missing versions, and the feed fails. It is ``None`` while no Snapshot has told of a
    threshold.

    The scan that has brought nothing for longest is of range ``standing_range``. It has brought nothing for
    ``standing_ms`` of log time, and its last request was ``standing_request``. These are ``None`` while no
    scan is under way.
    """

    partition: int
    feed: str
    ranges: int
    complete_to: str | None
    range_id: int
    scans: int
    held_bytes: int
    gc_reserve_ms: int | None
    standing_range: int | None = None
    standing_request: int | None = None
    standing_ms: int | None = None


@dataclass(frozen=True, slots=True)
class RangeReport:
    """A live range with one of the lowest resolved timestamps of its partition, and its lags in ms."""

    partition: int
    range_id: int
    generation: int
    state: str
    resolved: str
    resolved_lag_ms: int
    closed_lag_ms: int
    open_transactions: int


@dataclass(frozen=True, slots=True)
class DeliveryReport:
    """The state of a feed's rows on their way out of a partition (docs/protocols/slow-sinks.md).

    ``state`` is live, spooling, stalled (it waits for a scan), or catching up. ``waiting_bytes`` is the size
    of unacknowledged rows in memory, ``spool_bytes`` that of rows on disk.
    """

    partition: int
    feed: str
    state: str
    waiting_bytes: int
    spool_bytes: int


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """A log partition of this worker.

    * ``state`` is restoring, running, held, or waiting (for a schema registry).
    * ``next_offset`` is the log position after its last step. ``lag_records`` is how many offsets lie from
      there to the end of the log. That end is a few seconds old at most; ``None`` before it is known.
    * ``tracked_intents`` is how many open intents the ``open_transactions`` have. Of these transactions
      ``spilled_transactions`` are on disk. ``spill_bytes`` were written for them, before compression.
    * ``restore_ms`` is how long the opening took; ``None`` while the partition is restoring.
    * ``resolved_lag_ms`` is the wall clock less the lowest resolved timestamp of its live ranges; ``None``
      while it has no live range.
    * ``log_time_ms`` is the highest record time that was read; 0 before the first record.
    * ``step_ms`` is how long the step that is under way has taken, and ``step_of`` tells its records; 0 and
      empty while there is none.
    * ``held_for`` names the feeds for whose starts it is held.
    * ``backlog_entries`` is how many entries ranges have not applied: ``parked`` ranges, and ranges that work
      through their backlog.
    """

    partition: int
    state: str
    next_offset: int | None = None
    lag_records: int | None = None
    ranges: int = 0
    open_transactions: int = 0
    tracked_intents: int = 0
    resolved: str | None = None
    resolved_lag_ms: int | None = None
    inflight_rows: int = 0
    oldest_unacknowledged_ms: int = 0
    closed_regressions: int = 0
    refused_chunks: int = 0
    spilled_transactions: int = 0
    spill_bytes: int = 0
    restore_ms: int | None = None
    backlog_entries: int = 0
    log_time_ms: int = 0
    step_ms: int = 0
    step_of: str = ""
    held_for: tuple[str, ...] = ()
    slowest: tuple[RangeReport, ...] = ()
    quarantined: tuple[QuarantineReport, ...] = ()
    parked: tuple[ParkedReport, ...] = ()
    lagging: tuple[LaggingReport, ...] = ()
    deliveries: tuple[DeliveryReport, ...] = ()

    @property
    def scans(self) -> int:
        """The scans that are under way, for ranges that heal and for feeds that catch up."""
        healing = sum(item.state == Condition.HEALING.value for item in self.parked)
        return healing + sum(item.scans for item in self.lagging)

    @property
    def oldest_parked_seconds(self) -> float:
        """The age of the range that has been parked for longest, in log time; 0 while none is parked."""
        return max((item.age_ms for item in self.parked), default=0) / 1_000


@dataclass(frozen=True, slots=True)
class FeedReport:
    """A feed whose frontier is kept in this worker.

    ``high_water`` and ``resolved_lag_ms`` are ``None`` while the feed's initial scan is not done. ``laggard``
    and ``laggard_end`` are start and end, in hex, of the span that holds the feed back. The span's resolved
    timestamp is ``laggard_resolved``. Before there is any progress, it is the feed's start.

    ``persisted`` is the high-water that is durable. ``marker`` is the last marker that was written, or has to
    be written again. ``resolved_interval_ms`` is the least distance between markers, ``None`` for a feed
    without them. ``markers_wait`` is why markers wait; empty while they do not.
    """

    feed: str
    epoch: int
    high_water: str | None
    resolved_lag_ms: int | None
    laggard: str
    laggard_end: str = ""
    laggard_resolved: str = ""
    persisted: str | None = None
    marker: str | None = None
    resolved_interval_ms: int | None = None
    markers_wait: str = ""


@dataclass(frozen=True, slots=True)
class OverlapReport:
    """An overlap: the keys from ``start`` to ``end``, in hex, that several ``ranges`` have in common.

    ``generations`` are those of the ranges, in the same order. If the ranges are very many, only some are
    named, and ``others`` counts those that are not. Until the overlap is over, no marker of a feed whose
    frontier is here passes the resolved timestamp that the keys had before the overlap.
    """

    start: str
    end: str
    ranges: tuple[int, ...]
    generations: tuple[int, ...]
    others: int = 0


@dataclass(frozen=True, slots=True)
class RegistryReport:
    """A feed that waits for its schema registry. ``cause`` is why the last of ``tries`` calls failed."""

    feed: str
    registry: str
    waiting_ms: int
    tries: int
    cause: str


@dataclass(frozen=True, slots=True)
class ForeignReport:
    """The foreign records of one of the application's own topics, which were passed over.

    ``records`` counts them since the process began. The last one stands at ``offset`` of ``partition``, and
    ``cause`` says what was wrong with it.
    """

    topic: str
    records: int
    partition: int
    offset: int
    cause: str


@dataclass(frozen=True, slots=True)
class SinkReport:
    """A cluster that feeds write to. ``sink`` has its servers; ``pending_rows`` wait for its answers."""

    sink: str
    pending_rows: int


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """A worker at one moment: its partitions, feeds and sinks, and everything that waits."""

    app_id: str
    instance_id: str | None
    log: str
    log_partitions: int
    stall_alarm_ms: int
    partitions: tuple[PartitionReport, ...] = ()
    feeds: tuple[FeedReport, ...] = ()
    registry_waits: tuple[RegistryReport, ...] = ()
    push_enabled: bool = True
    push_age_ms: int = 0
    sinks: tuple[SinkReport, ...] = ()
    overlaps: tuple[OverlapReport, ...] = ()
    foreign: tuple[ForeignReport, ...] = ()

    @property
    def parked(self) -> tuple[ParkedReport, ...]:
        """The 50 ranges that have been parked for longest, or all if they are fewer; the oldest first."""
        ranges = (item for partition in self.partitions for item in partition.parked)
        return tuple(sorted(ranges, key=lambda item: -item.age_ms)[:_PARKED_COUNT])

    @property
    def slowest(self) -> tuple[RangeReport, ...]:
        """The 10 live ranges with the greatest lag, or all if they are fewer; the worst first."""
        ranges = (item for partition in self.partitions for item in partition.slowest)
        return tuple(sorted(ranges, key=lambda item: -item.resolved_lag_ms)[:_SLOWEST_COUNT])

    @property
    def quarantined(self) -> tuple[QuarantineReport, ...]:
        """The 50 quarantined ranges with the lowest resolved timestamps, or all if they are fewer; the lowest
        first.
        """
        holes = (hole for partition in self.partitions for hole in partition.quarantined)
        return tuple(nsmallest(_QUARANTINED_COUNT, holes, key=_resolved_place))

    @property
    def lagging(self) -> tuple[LaggingReport, ...]:
        """The feeds with missing versions, one report for each feed and partition."""
        return tuple(item for partition in self.partitions for item in partition.lagging)

    @property
    def deliveries(self) -> tuple[DeliveryReport, ...]:
        """The delivery of rows: one report for each feed and partition."""
        return tuple(item for partition in self.partitions for item in partition.deliveries)

    @property
    def waiting(self) -> tuple[PartitionReport, ...]:
        """The partitions with a batch whose rows wait for a schema registry."""
        return tuple(partition for partition in self.partitions if partition.state == WAITING)

    @property
    def stuck(self) -> tuple[PartitionReport, ...]:
        """The partitions with a row that has waited for its acknowledgement longer than the alarm allows.

        Partitions with a step that has taken longer than that are among them.
        """
        alarm_ms = self.stall_alarm_ms
        return tuple(p for p in self.partitions if max(p.oldest_unacknowledged_ms, p.step_ms) > alarm_ms)

    @property
    def long_steps(self) -> tuple[PartitionReport, ...]:
        """The partitions with a step that has taken longer than the alarm allows."""
        return tuple(p for p in self.partitions if p.step_ms > self.stall_alarm_ms)

    @property
    def _settings(self) -> dict[str, Any]:
        """The settings that a reader of the report needs."""
        return {
            "push_enabled": self.push_enabled,
            "push_age_ms": self.push_age_ms,
            "stall_alarm_ms": self.stall_alarm_ms,
        }

    def as_json(self) -> dict[str, Any]:
        """Return the report as ``/status`` gives it: single fields, and a list of objects for each kind."""
        empty: dict[str, Any] = dict.fromkeys(
            ("slowest", "parked", "quarantined", "lagging", "deliveries"), ()
        )
        partitions = [asdict(replace(partition, **empty)) for partition in self.partitions]
        for row, partition in zip(partitions, self.partitions, strict=True):
            row["quarantined"], row["parked"] = len(partition.quarantined), len(partition.parked)
            row["scans"], row["held_for"] = partition.scans, list(partition.held_for)
            del row["slowest"], row["lagging"], row["deliveries"]
        return {
            "app_id": self.app_id,
            "instance_id": self.instance_id,
            "log": self.log,
            "log_partitions": self.log_partitions,
            "stalled_partitions": [partition.partition for partition in self.stuck],
            "partitions": partitions,
            "slowest_ranges": [asdict(item) for item in self.slowest],
            "parked_ranges": [{**asdict(item), "parents": list(item.parents)} for item in self.parked],
            "quarantined_ranges": [asdict(hole) for hole in self.quarantined],
            "lagging_feeds": [asdict(item) for item in self.lagging],
            "feeds": [asdict(feed) for feed in self.feeds],
            "deliveries": [asdict(item) for item in self.deliveries],
            "schema_registry_waits": [asdict(wait) for wait in self.registry_waits],
            "overlaps": [
                {**asdict(each), "ranges": list(each.ranges), "generations": list(each.generations)}
                for each in self.overlaps
            ],
            "foreign_records": [asdict(each) for each in self.foreign],
            "sinks": [asdict(sink) for sink in self.sinks],
            "settings": [self._settings],
        }


@dataclass(frozen=True, slots=True)
class SpanReport:
    """The ranges of one log partition that have keys of a span."""

    partition: int
    ranges: RangesIn

    def as_json(self) -> dict[str, Any]:
        """Return the report as ``/ranges`` gives it."""
        return {"partition": self.partition, **self.ranges.to_json()}


#: Finds the ranges of a span in the partitions of this worker. The span's keys have no tenant prefix.
SpanReporter = Callable[[Span], Awaitable[tuple[SpanReport, ...]]]


async def no_ranges(span: Span) -> tuple[SpanReport, ...]:  # noqa: ARG001 - the same for every span
    """Return the answer of a worker without partitions."""
    return ()


@dataclass(frozen=True, slots=True)
class AgentReports:
    """The functions with which a worker's agents report on what they hold at this moment.

    Before agents are registered each reports nothing.
    """

    partitions: Callable[[], tuple[PartitionReport, ...]] = tuple
    feeds: Callable[[], tuple[FeedReport, ...]] = tuple
    overlaps: Callable[[], tuple[OverlapReport, ...]] = tuple
    ranges_in: SpanReporter = no_ranges


#: Makes the report of this moment. The loop calls it.
Reporter = Callable[[], WorkerReport]
