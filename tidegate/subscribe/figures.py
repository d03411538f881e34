"""The figures of a subscription at one moment, for a live table and for metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tidegate.hlc import NANOS_PER_SECOND, ZERO, Timestamp
from tidegate.subscribe.gate.feed_record import FeedPartition

#: The ``output`` of a joint subscription. The ``output`` of a subscription of one table is a value of
#: ``OutputMode``.
JOINT: Final = "joint"


@dataclass(frozen=True, slots=True)
class SubscriptionFigures:
    """The figures of a subscription: how far it is, and what waits.

    ``batches``, ``rows``, ``repeats`` and ``losses`` count from the beginning of the subscription, and only
    rise. The other figures are those of the moment.

    Attributes:
        output: the form of the rows: ``diffs``, ``within_timestamp_order_by``, ``upsert``, ``debezium`` or
            ``joint``.
        batches: delivered batches, empty ones too.
        rows: delivered rows, progress rows too.
        repeats: rows that came again and were dropped.
        losses: how many times history was lost, and the subscription went on after the loss.
        delivered: the timestamp up to which (inclusive) every row was delivered; zero if nothing was
            delivered yet.
        lag_s: how many seconds ``delivered`` is behind the clock; ``None`` if nothing was delivered yet.
        waiting_rows: rows that wait for other partitions.
        waiting_bytes: the bytes of the waiting rows' keys and values in memory.
        spilled_bytes: the bytes of waiting rows on disk.
        paused: partitions that are not read while others catch up.
        retention_margin: how many records Kafka can still delete in a partition before it deletes one that a
            resume has to read: the lowest such number of all partitions.
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
