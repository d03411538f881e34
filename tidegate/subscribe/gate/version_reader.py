"""Reads records as row versions and markers, with the place of whatever cannot be read."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.changefeed.encoding.record import MarkerRecord, Record, RecordDecoder, RowRecord
from tidegate.errors import MalformedRecord, UnreadableRow
from tidegate.hlc import Timestamp
from tidegate.subscribe.gate.feed_record import FeedPartition, FeedRecord, RowVersion
from tidegate.subscribe.gate.stamps import has_stamp, stamp


class VersionReader:
    """The decoders of a feed's topics."""

    __slots__ = ("_decoders", "_stamped")

    def __init__(self, decoders: Mapping[str, RecordDecoder]) -> None:
        self._decoders = decoders
        self._stamped = {topic for topic, decoder in decoders.items() if has_stamp(decoder)}

    def is_tombstone(self, place: FeedPartition, record: FeedRecord) -> bool:
        """Whether it only lets log compaction forget a key: it is no version."""
        return record.value is None and record.key is not None and self._decoders[place.topic].tombstones

    def updated(self, place: FeedPartition, record: FeedRecord) -> Timestamp | None:
        """A row's timestamp, where it can be seen without decoding."""
        return stamp(record.value) if place.topic in self._stamped else None

    def version(self, place: FeedPartition, record: FeedRecord) -> RowVersion:
        """Decode a row. Raises ``UnreadableRow`` for what is none, or lacks its timestamp or values."""
        row = self._decoded(place, record)
        if not isinstance(row, RowRecord):
            raise _unreadable(place, record, "it is no row")
        if row.oversize_bytes:
            raise _unreadable(
                place,
                record,
                f"its row of {row.oversize_bytes} bytes was left out: raise the feed's max_row_bytes",
            )
        if row.updated is None:
            raise _unreadable(place, record, "its row tells no timestamp: create the feed WITH updated")
        digest = hash(record.value)
        return RowVersion(
            row.updated, place.topic, record.key or b"", place.partition, record.offset, digest, row
        )

    def marker(self, place: FeedPartition, record: FeedRecord) -> MarkerRecord:
        """Decode a marker. Raises ``UnreadableRow`` for what is none."""
        marker = self._decoded(place, record)
        if not isinstance(marker, MarkerRecord):
            raise _unreadable(place, record, "it has no key, and is no marker")
        return marker

    def _decoded(self, place: FeedPartition, record: FeedRecord) -> Record:
        try:
            return self._decoders[place.topic].decode(record.key, record.value, record.headers)
        except MalformedRecord as error:
            raise _unreadable(place, record, str(error)) from None


def _unreadable(place: FeedPartition, record: FeedRecord, why: str) -> UnreadableRow:
    return UnreadableRow(
        f"The record at offset {record.offset} of {place} cannot be read: {why}",
        place.topic,
        place.partition,
        record.offset,
    )
