"""The figures of a subscription at one moment, for a live table and for metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tidegate.hlc import NANOS_PER_SECOND, ZERO, Timestamp
from tidegate.subscribe.gate.feed_record import FeedPartition

#: The output kind of several tables at one cut; those of one table are the values of ``OutputMode``.
JOINT: Final = "joint"


@dataclass(frozen=True, slots=True)
class SubscriptionFigures:
    """The figures of a subscription: how far it is, and what waits.

    ``batches``, ``rows``, ``repeats`` and ``losses`` count from the subscription's begin and only rise. The
    other figures are those of the moment.

    Attributes:
        output: its kind: ``diffs``, ``within_timestamp_order_by``, ``upsert``, ``debezium`` or ``joint``.
        batches: delivered batches, empty ones too.
        rows: delivered rows, progress rows too.
        repeats: rows that came again and were dropped.
        losses: how many times history was lost, and the subscription went on after the loss.
        delivered: every row at or below it was delivered; zero before the first.
        lag_s: how many seconds ``delivered`` is behind the clock; ``None`` before the first.
        waiting_rows: rows that wait for other partitions.
        waiting_bytes: the bytes of the waiting rows' keys and values in memory.
        spilled_bytes: the bytes of waiting rows on disk.
        paused: partitions that are not read while others catch up.
        retention_margin: how many records lie between what Kafka has deleted and what a resume would read
            first, in the partition in which these are fewest.
    """

    output: str
    batches: int = 0
    rows: int = 0
    repeats: int = 0
    losses: int = 0
    delivered: Timestamp = ZERO
    lag_s: float | None = None
    waiting_rows: int = 0
    waiting_bytes: int = 0
    spilled_bytes: int = 0
    paused: tuple[FeedPartition, ...] = ()
    retention_margin: int = 0

    @property
    def paused_partitions(self) -> int:
        """The number of paused partitions."""
        return len(self.paused)


def lag_s(delivered: Timestamp, now_ns: int) -> float | None:
    """Return how many seconds ``delivered`` is behind ``now_ns``, at least zero; ``None`` if nothing was
    delivered."""
    return None if delivered == ZERO else max(now_ns - delivered.wall, 0) / NANOS_PER_SECOND
