"""Buckets of HLC time. A bucket is named by its end, in nanoseconds, and holds what is above the end of the
bucket before it and at or below its own: what a marker at its end speaks of, and no more."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NewType

from tidegate.errors import SettingsError
from tidegate.hlc import NANOS_PER_MS, NANOS_PER_SECOND, Timestamp

#: The end of a bucket: wall nanoseconds, with the logical part 0.
BucketEnd = NewType("BucketEnd", int)

NO_BUCKET: Final = BucketEnd(0)


@dataclass(frozen=True, slots=True)
class Buckets:
    """Buckets of ``length_ns``, whole milliseconds. Raises ``SettingsError`` for another length."""

    length_ns: int

    def __post_init__(self) -> None:
        if self.length_ns <= 0 or self.length_ns % NANOS_PER_MS:
            raise SettingsError(f"A bucket of {self.length_ns} ns is not one of whole milliseconds.")

    def of(self, timestamp: Timestamp) -> BucketEnd:
        """The bucket that the timestamp falls into."""
        wall = timestamp.wall + (timestamp.logical > 0)
        return BucketEnd(-(-wall // self.length_ns) * self.length_ns)

    def before(self, end: BucketEnd) -> BucketEnd:
        """The bucket before this one."""
        return BucketEnd(end - self.length_ns)

    def closed_by(self, marker: Timestamp) -> BucketEnd:
        """The last bucket of which a marker says that no unseen row of it follows."""
        return BucketEnd(marker.wall // self.length_ns * self.length_ns)


def day_of(end: BucketEnd) -> str:
    """The day in UTC that a bucket ends on, ``2026-11-22``; days sort as buckets do."""
    return moment(end).date().isoformat()


def moment(end: BucketEnd) -> datetime:
    """The end of a bucket as a time in UTC."""
    seconds, nanos = divmod(end, NANOS_PER_SECOND)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=nanos // 1_000)
