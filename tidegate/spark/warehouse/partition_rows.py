"""Sorts the records of one partition: which rows are new, which buckets they are in, and what markers
promise.

A row version is known by its key and the timestamp in its record. A row at or below ``closed``, the bound of
the last commit, is a repeat: the marker that closed its bucket promised that no unseen row of the bucket
follows, and the rows that were seen are loaded (docs/warehouse.md, "Late duplicates"). The code of
`tidegate/subscribe/gate` decides which record can be read, which marker falls and which repeat differs. The
loader differs from a gate in one thing: a row waits for its bucket, and not for the minimum of all markers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tidegate.changefeed.encoding.record import RecordDecoder
from tidegate.client.subscribe.feed_term import ALONE, FeedTerm
from tidegate.hlc import Timestamp
from tidegate.spark.warehouse.buckets import BucketEnd, Buckets
from tidegate.subscribe.gate.feed_record import FeedPartition, FeedRecord
from tidegate.subscribe.gate.seen_versions import SeenVersions
from tidegate.subscribe.gate.version_reader import VersionReader, require_risen, timestamp_of
from tidegate.verify import TopicPartition, TopicRecord


class RowChange(NamedTuple):
    """A row version in the form in which it is loaded. ``row`` is ``None`` for a deletion.

    ``updated`` is the timestamp of its commit, or of the initial scan that showed it. ``mvcc_timestamp`` is
    the version's own timestamp, ``None`` if the feed does not tell it. ``offset`` is that of its first
    record, and ``record_bytes`` are the bytes of its key and value.
    """

    bucket: BucketEnd
    key: tuple[Any, ...]
    row: Mapping[str, Any] | None
    updated: Timestamp
    mvcc_timestamp: Timestamp | None
    offset: int
    record_bytes: int


class BucketRows:
    """Takes the records of a partition, from the position of the last commit on.

    ``closed`` is the bound of that commit. ``marker`` is the last marker among the records, zero for none;
    markers that an earlier feed may have written do not count. ``later`` is the first marker of a later feed,
    ``None`` before it comes: no record from it on may be taken. ``first_offsets`` has the offset of the first
    row of each bucket above ``closed``. ``last`` is the time of the feed's last row, if it is known.
    ``repeats`` counts rows that are dropped. Rows of other feeds are dropped, too.
    """

    def __init__(
        self,
        place: TopicPartition,
        decoder: RecordDecoder,
        buckets: Buckets,
        closed: BucketEnd,
        term: FeedTerm = ALONE,
        last: Timestamp | None = None,
    ) -> None:
        self.marker = Timestamp(0)
        self.later: Timestamp | None = None
        self.repeats = 0
        self.first_offsets: dict[BucketEnd, int] = {}
        self._place = FeedPartition(*place)
        self._reader = VersionReader({place.topic: decoder})
        self._tombstones = decoder.tombstones
        self._buckets = buckets
        self._closed = closed
        self._term = term
        self._last = last
        self._seen = SeenVersions(self._place)

    def read_row(self, record: TopicRecord) -> RowChange | None:
        """Return the row of a record; ``None`` for a marker, a tombstone, and a row that came before.

        Raises ``UnreadableRow`` and ``PromiseBroken`` for a record that the feed cannot have written, such as
        a marker below the one before it.
        """
        read = FeedRecord(record.offset, record.key, record.value, record.headers)
        if read.key is None:
            self._take_marker(read)
            return None
        if read.value is None and self._tombstones:
            return None
        row = self._reader.row(self._place, read)
        updated = timestamp_of(row)
        bucket = self._buckets.of(updated)
        is_others = updated < self._term.start or (self._last is not None and updated > self._last)
        if is_others or bucket <= self._closed or self._seen.is_repeat(read, updated):
            self.repeats += 1
            return None
        self.first_offsets.setdefault(bucket, read.offset)
        record_bytes = len(read.key) + len(read.value or b"")
        return RowChange(bucket, row.key, row.row, updated, row.mvcc_timestamp, read.offset, record_bytes)

    def _take_marker(self, record: FeedRecord) -> None:
        resolved = self._reader.marker(self._place, record).resolved
        require_risen(self._place, record.offset, resolved, self.marker)
        if self._term.is_later(resolved):
            self.later = resolved
        elif not self._term.is_earlier(resolved):
            self.marker = resolved
