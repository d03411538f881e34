"""What a worker says of itself: the one source of /status, /health and /metrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

#: The state of a partition whose rows wait for the ids of their schemas.
WAITING: Final = "waiting"
_SLOWEST_COUNT: Final = 10


@dataclass(frozen=True, slots=True)
class QuarantineReport:
    """A range that gives nothing any more. ``offset`` is where in the log the cause stands."""

    partition: int
    range_id: int
    offset: int
    resolved: str
    cause: str


@dataclass(frozen=True, slots=True)
class RangeReport:
    """A live range that is among the least far resolved of its partition."""

    partition: int
    range_id: int
    resolved: str
    resolved_lag_ms: int


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """A log partition of this worker.

    ``state`` is restoring, running, held, or waiting: for a schema registry. ``next_offset`` is behind its
    last step; ``lag_records`` are the offsets from there to the end of the log, which is a few seconds old at
    most, and ``None`` before that end is known. ``tracked_intents`` are the open intents of
    ``open_transactions``. ``resolved_lag_ms`` is the wall clock less the lowest resolved timestamp of its
    live ranges; ``None`` while it has none.
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
    spill_bytes: int = 0
    slowest: tuple[RangeReport, ...] = ()
    quarantined: tuple[QuarantineReport, ...] = ()


@dataclass(frozen=True, slots=True)
class FeedReport:
    """A feed whose frontier is kept here. ``laggard`` is where the span begins that holds it back."""

    feed: str
    epoch: int
    high_water: str
    resolved_lag_ms: int
    laggard: str


@dataclass(frozen=True, slots=True)
class RegistryReport:
    """A feed that waits for its schema registry; ``cause`` is why the last of ``tries`` calls was in vain."""

    feed: str
    registry: str
    waiting_ms: int
    tries: int
    cause: str


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

    @property
    def slowest(self) -> tuple[RangeReport, ...]:
        """The live ranges that are least far resolved, the worst first."""
        ranges = (item for partition in self.partitions for item in partition.slowest)
        return tuple(sorted(ranges, key=lambda item: -item.resolved_lag_ms)[:_SLOWEST_COUNT])

    @property
    def quarantined(self) -> tuple[QuarantineReport, ...]:
        """All quarantined ranges."""
        return tuple(hole for partition in self.partitions for hole in partition.quarantined)

    @property
    def waiting(self) -> tuple[PartitionReport, ...]:
        """Partitions that wait for a schema registry with rows of a batch."""
        return tuple(partition for partition in self.partitions if partition.state == WAITING)

    @property
    def stalled(self) -> tuple[PartitionReport, ...]:
        """Partitions with a row that waits for its acknowledgement for longer than the alarm allows."""
        return tuple(p for p in self.partitions if p.oldest_unacknowledged_ms > self.stall_alarm_ms)

    def as_json(self) -> dict[str, Any]:
        """For ``/status``: fields, then one list of objects per kind of thing."""
        partitions = [asdict(partition) for partition in self.partitions]
        for row in partitions:
            row["quarantined"] = len(row["quarantined"])
            del row["slowest"]
        return {
            "app_id": self.app_id,
            "instance_id": self.instance_id,
            "log": self.log,
            "log_partitions": self.log_partitions,
            "stalled_partitions": [partition.partition for partition in self.stalled],
            "partitions": partitions,
            "slowest_ranges": [asdict(item) for item in self.slowest],
            "quarantined_ranges": [asdict(hole) for hole in self.quarantined],
            "feeds": [asdict(feed) for feed in self.feeds],
            "schema_registry_waits": [asdict(wait) for wait in self.registry_waits],
        }


#: Makes the report of this moment; called by the loop.
Reporter = Callable[[], WorkerReport]
