"""What a worker says of itself: the one source of /status, /health and /metrics."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from heapq import nsmallest
from typing import Any, Final

from tidegate.hlc import Timestamp, parse_decimal
from tidegate.processor.range_facts import Condition
from tidegate.processor.status import RangesIn
from tidegate.spans import Span

#: The state of a partition whose rows wait for the ids of their schemas.
WAITING: Final = "waiting"
#: The state of a feed whose rows a partition scans for.
CATCHING_UP: Final = "catching up"
_SLOWEST_COUNT: Final = 10
_PARKED_COUNT: Final = 50
#: A log that retention has passed quarantines every range of its partition: metrics and status name some.
_QUARANTINED_COUNT: Final = 50


@dataclass(frozen=True, slots=True)
class QuarantineReport:
    """A range that gives nothing any more. ``offset`` is where in the log the cause stands."""

    partition: int
    range_id: int
    offset: int
    resolved: str
    cause: str


def _resolved_place(hole: QuarantineReport) -> tuple[Timestamp, int, int]:
    return parse_decimal(hole.resolved), hole.partition, hole.range_id


@dataclass(frozen=True, slots=True)
class ParkedReport:
    """A range that waits: for hand-offs of its ``parents``, or (``state`` healing) for a scan.

    Its backlog of ``entries`` begins at ``offset`` of the log; ``age_ms`` is by the log's time.
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
    """A feed that lacks rows in ``ranges`` ranges of a partition, so that its markers wait.

    ``complete_to`` is what it has of range ``range_id``, which has least; ``None`` before its initial scan.
    ``scans`` are under way for it, and hold ``held_bytes``. Once ``gc_reserve_ms`` is used up the store has
    removed what is lacking, and the feed fails; ``None`` while no Snapshot has told what is removed. The
    scan that has brought nothing for longest is of ``standing_range``, for ``standing_ms`` of the log's time,
    and was asked for last by ``standing_request``; ``None`` while no scan is under way.
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
    """A live range that is among the least far resolved of its partition; lags are by the wall clock."""

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
    """How the rows of a feed leave a partition (docs/catch-up.md).

    ``state`` is live, spooling, stalled, or catching up. ``waiting_bytes`` are rows in memory that are not
    acknowledged, ``spool_bytes`` are on disk.
    """

    partition: int
    feed: str
    state: str
    waiting_bytes: int
    spool_bytes: int


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """A log partition of this worker.

    ``state`` is restoring, running, held, or waiting: for a schema registry. ``next_offset`` is behind its
    last step; ``lag_records`` are the offsets from there to the end of the log, which is a few seconds old at
    most, and ``None`` before that end is known. ``tracked_intents`` are the open intents of
    ``open_transactions``; ``spilled_transactions`` of these are beyond memory, and ``spill_bytes`` what was
    written for them, before compression. ``restore_ms`` is how long its opening took; ``None`` while it is
    restoring. ``resolved_lag_ms`` is the wall clock less the lowest resolved timestamp of its live ranges;
    ``None`` while it has none. ``log_time_ms`` is the highest record time that was read, 0 for none.
    ``held_for`` are the feeds for whose starts it is held. ``backlog_entries`` are the entries that ranges
    have not applied, those ``parked`` and those that catch up.
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
        """Age of the range that has been parked for longest, by the log's time; 0 while none is parked."""
        return max((item.age_ms for item in self.parked), default=0) / 1_000


@dataclass(frozen=True, slots=True)
class FeedReport:
    """A feed whose frontier is kept here.

    ``high_water`` and its lag are ``None`` while the feed's initial scan is not done. ``laggard`` and
    ``laggard_end`` are the keys of the span that holds it back, at ``laggard_resolved``: at the feed's start
    before it has any progress.
    ``persisted`` is the high-water that is durable, ``marker`` the last marker that was written, or has to
    be written again, ``resolved_interval_ms`` their least distance: ``None`` for a feed without any.
    ``markers_wait`` is why they wait, empty while they do not.
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
    """Keys from ``start`` to ``end``, in hex, that ``ranges`` have at once, in their ``generations``.

    No marker of a feed whose frontier is here passes what was known of them.
    """

    start: str
    end: str
    ranges: tuple[int, ...]
    generations: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RegistryReport:
    """A feed that waits for its schema registry; ``cause`` is why the last of ``tries`` calls was in vain."""

    feed: str
    registry: str
    waiting_ms: int
    tries: int
    cause: str


@dataclass(frozen=True, slots=True)
class ForeignReport:
    """Records of one of the application's own topics that tidegate did not write, and that were passed over.

    ``records`` counts them since the process began. The last one stands at ``offset`` of ``partition``, and
    ``cause`` is what was wrong with it.
    """

    topic: str
    records: int
    partition: int
    offset: int
    cause: str


@dataclass(frozen=True, slots=True)
class SinkReport:
    """A cluster that feeds of this worker write to, by its servers; ``pending_rows`` are not acknowledged."""

    sink: str
    pending_rows: int


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """Everything that this worker has at the moment."""

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
        """The ranges that have been parked for longest, the oldest first."""
        ranges = (item for partition in self.partitions for item in partition.parked)
        return tuple(sorted(ranges, key=lambda item: -item.age_ms)[:_PARKED_COUNT])

    @property
    def slowest(self) -> tuple[RangeReport, ...]:
        """The live ranges that are least far resolved, the worst first."""
        ranges = (item for partition in self.partitions for item in partition.slowest)
        return tuple(sorted(ranges, key=lambda item: -item.resolved_lag_ms)[:_SLOWEST_COUNT])

    @property
    def quarantined(self) -> tuple[QuarantineReport, ...]:
        """The quarantined ranges that are least far resolved, the worst first."""
        holes = (hole for partition in self.partitions for hole in partition.quarantined)
        return tuple(nsmallest(_QUARANTINED_COUNT, holes, key=_resolved_place))

    @property
    def lagging(self) -> tuple[LaggingReport, ...]:
        """The feeds that lag, in each partition."""
        return tuple(item for partition in self.partitions for item in partition.lagging)

    @property
    def deliveries(self) -> tuple[DeliveryReport, ...]:
        """Of each feed in each partition."""
        return tuple(item for partition in self.partitions for item in partition.deliveries)

    @property
    def waiting(self) -> tuple[PartitionReport, ...]:
        """Partitions that wait for a schema registry with rows of a batch."""
        return tuple(partition for partition in self.partitions if partition.state == WAITING)

    @property
    def stalled(self) -> tuple[PartitionReport, ...]:
        """Partitions with a row that waits for its acknowledgement for longer than the alarm allows."""
        return tuple(p for p in self.partitions if p.oldest_unacknowledged_ms > self.stall_alarm_ms)

    @property
    def _settings(self) -> dict[str, Any]:
        """Those that explain what is shown."""
        return {
            "push_enabled": self.push_enabled,
            "push_age_ms": self.push_age_ms,
            "stall_alarm_ms": self.stall_alarm_ms,
        }

    def as_json(self) -> dict[str, Any]:
        """For ``/status``: fields, then one list of objects per kind of thing."""
        partitions = [asdict(partition) for partition in self.partitions]
        for row, partition in zip(partitions, self.partitions, strict=True):
            row["quarantined"], row["parked"] = len(partition.quarantined), len(partition.parked)
            row["scans"], row["held_for"] = partition.scans, list(partition.held_for)
            del row["slowest"], row["lagging"], row["deliveries"]
        return {
            "app_id": self.app_id,
            "instance_id": self.instance_id,
            "log": self.log,
            "log_partitions": self.log_partitions,
            "stalled_partitions": [partition.partition for partition in self.stalled],
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
        """For ``/ranges``."""
        return {"partition": self.partition, **self.ranges.to_json()}


#: Looks for the ranges of a span, without tenant prefix, in the partitions of this worker.
SpanReporter = Callable[[Span], Awaitable[tuple[SpanReport, ...]]]


async def no_ranges(span: Span) -> tuple[SpanReport, ...]:  # noqa: ARG001 - the same for every span
    """What a worker says that has no partitions."""
    return ()


@dataclass(frozen=True, slots=True)
class AgentReports:
    """What the agents of a worker say of their parts: each is asked for the state of this moment.

    Before there are agents each says that there is nothing.
    """

    partitions: Callable[[], tuple[PartitionReport, ...]] = tuple
    feeds: Callable[[], tuple[FeedReport, ...]] = tuple
    overlaps: Callable[[], tuple[OverlapReport, ...]] = tuple
    ranges_in: SpanReporter = no_ranges


#: Makes the report of this moment; called by the loop.
Reporter = Callable[[], WorkerReport]
