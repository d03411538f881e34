"""Sorts the records of one partition: which rows are new, which buckets they are in, and what markers
promise.

A row version is known by its key and the timestamp in its record. A row at or below ``closed``, the bound of
the last commit, is a repeat: the marker that closed its bucket promised that no unseen row of the bucket
follows, and the rows that were seen are loaded (docs/warehouse.md, "Late duplicates").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tidegate.changefeed.encoding.record import MarkerRecord, RecordDecoder
from tidegate.errors import MalformedRecord
from tidegate.hlc import Timestamp
from tidegate.spark.warehouse.buckets import BucketEnd, Buckets
from tidegate.verify import TopicPartition, TopicRecord


class RowChange(NamedTuple):
    """A row version in the form in which it is loaded. ``row`` is ``None`` for a deletion.

    ``updated`` is the timestamp of its commit, or of the initial scan that showed it. ``mvcc_timestamp`` is
    the version's own timestamp, ``None`` if the feed does not tell it. ``offset`` is that of its first
    record.
    """

    bucket: BucketEnd
    key: tuple[Any, ...]
    row: Mapping[str, Any] | None
    updated: Timestamp
    mvcc_timestamp: Timestamp | None
    offset: int


class BucketRows:
    """Takes the records of a partition, from the position of the last commit on.

    ``closed`` is the bound of that commit. ``marker`` is the last marker among the records, zero for none.
    ``first_offsets`` has the offset of the first row of each bucket above ``closed``. ``repeats`` counts rows
    that are dropped.
    """

    def __init__(
        self, place: TopicPartition, decoder: RecordDecoder, buckets: Buckets, closed: BucketEnd
    ) -> None:
        self.marker = Timestamp(0)
        self.repeats = 0
        self.first_offsets: dict[BucketEnd, int] = {}
        self._place = place
        self._decoder = decoder
        self._buckets = buckets
        self._closed = closed
        self._seen: dict[tuple[bytes, Timestamp], int] = {}

    def take(self, record: TopicRecord) -> RowChange | None:
        """Return the row of a record; ``None`` for a marker, a tombstone, and a row that came before.

        Raises ``MalformedRecord`` for a record that the feed cannot have written, such as a marker below the
        one before it.
        """
        decoded = self._decode(record)
        if isinstance(decoded, MarkerRecord):
            self._take_marker(record, decoded.resolved)
            return None
        if decoded.tombstone:
            return None
        if decoded.oversize_bytes:
            raise MalformedRecord(
                f"The row at {self._at(record)} has {decoded.oversize_bytes} bytes, and its feed leaves the"
                " values of such rows out (on_oversize='key_only'): a table without it would be wrong. Create"
                " a feed with a higher max_row_bytes, and load it into another directory."
            )
        if decoded.updated is None:
            raise MalformedRecord(f"The row at {self._at(record)} tells no timestamp, and cannot be loaded.")
        bucket = self._buckets.of(decoded.updated)
        if bucket <= self._closed or self._is_repeat(record, decoded.updated):
            self.repeats += 1
            return None
        self.first_offsets.setdefault(bucket, record.offset)
        return RowChange(
            bucket, decoded.key, decoded.row, decoded.updated, decoded.mvcc_timestamp, record.offset
        )

    def _decode(self, record: TopicRecord) -> Any:
        try:
            return self._decoder.decode(record.key, record.value, record.headers)
        except MalformedRecord as error:
            raise MalformedRecord(f"The record at {self._at(record)} cannot be loaded: {error}") from None

    def _take_marker(self, record: TopicRecord, resolved: Timestamp) -> None:
        if resolved < self.marker:
            raise MalformedRecord(
                f"The marker at {self._at(record)} says {resolved}, and one before it {self.marker}:"
                " another feed has written to the topic, or the promise is broken. Nothing more is loaded;"
                " `tidegate verify` tells more."
            )
        self.marker = resolved

    def _is_repeat(self, record: TopicRecord, updated: Timestamp) -> bool:
        version, digest = (record.key or b"", updated), hash(record.value)
        known = self._seen.get(version)
        if known is None:
            self._seen[version] = digest
            return False
        if known != digest:
            raise MalformedRecord(
                f"The row at {self._at(record)} is a version that came before with another value: repeats"
                " are exact copies, so one of the two is not the feed's. Nothing more is loaded;"
                " `tidegate verify` tells more."
            )
        return True

    def _at(self, record: TopicRecord) -> str:
        return f"offset {record.offset} of {self._place}"
