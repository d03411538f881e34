"""Buckets: intervals of HLC time whose rows are loaded together.

A bucket is named by its end, in nanoseconds. It holds the rows above the end of the bucket before it and at
or below its own end. These are exactly the rows between two markers at those ends. For example, with a length
of one minute the bucket that ends at 12:01:00 holds a row of 12:01:00 exactly, and none of 12:00:00.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NewType

from tidegate.errors import SettingsError
from tidegate.hlc import NANOS_PER_MS, NANOS_PER_SECOND, Timestamp

#: The end of a bucket: nanoseconds of a wall clock; the logical part is 0.
BucketEnd = NewType("BucketEnd", int)

NO_BUCKET: Final = BucketEnd(0)


@dataclass(frozen=True, slots=True)
class Buckets:
    """All buckets of one length, ``length_ns``, a number of whole milliseconds.

    Raises ``SettingsError`` for another length.
    """

    length_ns: int

    def __post_init__(self) -> None:
        if self.length_ns <= 0 or self.length_ns % NANOS_PER_MS:
            raise SettingsError(f"A bucket of {self.length_ns} ns is not one of whole milliseconds.")

    def of(self, timestamp: Timestamp) -> BucketEnd:
        """Return the bucket that holds the timestamp."""
        wall = timestamp.wall + (timestamp.logical > 0)
        return BucketEnd(-(-wall // self.length_ns) * self.length_ns)

    def before(self, end: BucketEnd) -> BucketEnd:
        """Return the bucket before this one."""
        return BucketEnd(end - self.length_ns)

    def closed_by(self, marker: Timestamp) -> BucketEnd:
        """Return the last bucket that the marker closes: no unseen row of it follows the marker."""
        return BucketEnd(marker.wall // self.length_ns * self.length_ns)


def day_of(end: BucketEnd) -> str:
    """Return the day in UTC on which a bucket ends, such as ``2026-11-22``. Days sort as buckets do."""
    return moment(end).date().isoformat()


def moment(end: BucketEnd) -> datetime:
    """Return the end of a bucket as a time in UTC."""
    seconds, nanos = divmod(end, NANOS_PER_SECOND)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=nanos // 1_000)
