"""Tells the audited feed's records from those of other feeds, which had its topics before or after it.

A record does not say which feed wrote it, but its time shows it. All records of the feed are above its start,
or are rows of its scan, which tell the start. All records that matter are at or below the high-water with
which the feed has ended (docs/protocols/topics-that-change-owners.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidegate.changefeed.encoding.record import MarkerRecord, RowRecord
from tidegate.hlc import Timestamp
from tidegate.verify.record import TopicPartition, TopicRecord


@dataclass(frozen=True, slots=True)
class FeedBounds:
    """The times between which records are the feed's own.

    A row below ``start`` is an earlier feed's, and so is a marker at or below ``before``. If the feed has no
    scan, a row at ``start`` is an earlier feed's, too. A marker above ``end`` is a later feed's, and so is
    every record after it in its partition, and every row above ``end``. ``None`` for ``before`` or ``end``
    says that there is no such feed.
    """

    start: Timestamp
    scans: bool
    before: Timestamp | None = None
    end: Timestamp | None = None


class OtherFeedsRecords:
    """Counts and passes over the records of other feeds. ``bounds`` tells which they are.

    ``told`` returns the timestamp of a row's version in the feed; ``None`` if the record tells none.
    """

    def __init__(self, bounds: FeedBounds, told: Callable[[RowRecord], Timestamp | None]) -> None:
        self._bounds = bounds
        self._told = told
        self._is_over: set[TopicPartition] = set()
        self._last: dict[TopicPartition, bytes | None] = {}  # the key of the last row, if it was passed over
        self.count = 0

    def passes_over(self, place: TopicPartition) -> bool:
        """Return whether a partition's next record comes after a later feed's marker. If so, count it."""
        is_over = place in self._is_over
        self.count += is_over
        return is_over

    def may_have(self, record: TopicRecord) -> bool:
        """Return whether another feed may have written a record, by its record time alone."""
        end = self._bounds.end
        return self._may_be_earlier(record) or (end is not None and record.timestamp_ms > end.wall_ms)

    def is_unclear(self, record: TopicRecord, row: RowRecord) -> bool:
        """Return whether a row may be an earlier feed's, and may also be one of this feed's scan.

        The rows of a scan have the record times of their versions, and this row tells no timestamp.
        """
        may_be_either = self._bounds.scans and self._may_be_earlier(record)
        return may_be_either and not row.tombstone and self._told(row) is None

    def _may_be_earlier(self, record: TopicRecord) -> bool:
        return self._bounds.before is not None and record.timestamp_ms <= self._bounds.start.wall_ms

    def has(self, place: TopicPartition, record: TopicRecord, decoded: RowRecord | MarkerRecord) -> bool:
        """Return whether another feed has written the record. If so, count it.

        The records of a partition come in the order of their offsets.
        """
        if isinstance(decoded, MarkerRecord):
            found = self._has_marker(place, decoded.resolved)
        elif decoded.tombstone:  # it follows its deletion
            found = self._last.get(place) == record.key
        else:
            found = self._has_row(record, decoded)
            self._last[place] = record.key if found else None
        self.count += found
        return found

    def _has_marker(self, place: TopicPartition, resolved: Timestamp) -> bool:
        bounds = self._bounds
        if bounds.end is not None and resolved > bounds.end:
            self._is_over.add(place)
            return True
        return bounds.before is not None and resolved <= bounds.before

    def _has_row(self, record: TopicRecord, row: RowRecord) -> bool:
        bounds, at = self._bounds, self._told(row)
        if bounds.before is not None:
            if at is None and record.timestamp_ms < bounds.start.wall_ms:
                return not bounds.scans  # the rows of a scan have the record times of their versions
            if at is not None and (at < bounds.start or (at == bounds.start and not bounds.scans)):
                return True
        if bounds.end is None:
            return False
        return record.timestamp_ms > bounds.end.wall_ms if at is None else at > bounds.end
