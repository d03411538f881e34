"""Reads records as rows and markers. Its errors name the place of a record that cannot be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tidegate.changefeed.encoding.record import MarkerRecord, Record, RecordDecoder, RowRecord
from tidegate.errors import MalformedRecord, MarkerFell, UnreadableRow
from tidegate.hlc import Timestamp
from tidegate.subscribe.gate.feed_record import FeedPartition, FeedRecord, RecordColumns
from tidegate.subscribe.gate.row_chunk import RowChunk, int_column, memory_of
from tidegate.subscribe.gate.stamps import has_stamp, stamp, usual_stamps


class VersionReader:
    """Reads records with the decoders of a feed's topics."""

    __slots__ = ("_decoders", "_stamped")

    def __init__(self, decoders: Mapping[str, RecordDecoder]) -> None:
        self._decoders = decoders
        self._stamped = {topic for topic, decoder in decoders.items() if has_stamp(decoder)}

    def chunk(self, place: FeedPartition, records: RecordColumns) -> RowChunk | None:
        """Return the rows among some records of one partition; ``None`` if there are no rows.

        The caller has taken markers out.

        A tombstone only lets log compaction forget a key: it is no row. A row whose timestamp cannot be read
        without decoding is decoded. Raises ``UnreadableRow`` for a row that cannot be decoded.
        """
        decoder = self._decoders[place.topic]
        if decoder.tombstones and None in records.values:
            at_rows = [at for at, value in enumerate(records.values) if value is not None]
            records = RecordColumns.of([records.record(at) for at in at_rows])
        if not records.offsets:
            return None
        values, count = records.values, len(records.offsets)
        decoded: list[RowRecord | None] = [None] * count
        if place.topic in self._stamped:
            walls, logicals, known = usual_stamps(values)
            others: Sequence[int] = np.flatnonzero(~known).tolist()
        else:
            walls, logicals = np.zeros(count, np.int64), np.zeros(count, np.int64)
            others = range(count)
        for at in others:
            updated = stamp(values[at]) if place.topic in self._stamped else None
            if updated is None:
                row = decoded[at] = self.row(place, records.record(at))
                updated = timestamp_of(row)
            walls[at], logicals[at] = updated
        keys: Any = records.keys  # a record without one is a marker
        memory_bytes = memory_of(keys, values, len(others))
        return RowChunk(int_column(records.offsets), walls, logicals, keys, values, decoded, memory_bytes)

    def row(self, place: FeedPartition, record: FeedRecord) -> RowRecord:
        """Decode a row. Raises ``UnreadableRow`` if it is no row, or lacks its timestamp or its values."""
        row = self._decoded(place, record)
        if not isinstance(row, RowRecord):
            raise _unreadable(place, record, "it is no row")
        if row.oversize_bytes:
            raise _unreadable(
                place,
                record,
                f"its row of {row.oversize_bytes} bytes was too large for its topic and left out: fetch the "
                f"version {row.mvcc_timestamp} from the source, or raise the feed's max_row_bytes and begin "
                "anew",
            )
        if row.updated is None:
            raise _unreadable(place, record, "its row tells no timestamp: create the feed WITH updated")
        return row

    def marker(self, place: FeedPartition, record: FeedRecord) -> MarkerRecord:
        """Decode a marker. Raises ``UnreadableRow`` for a record that is no marker."""
        marker = self._decoded(place, record)
        if not isinstance(marker, MarkerRecord):
            raise _unreadable(place, record, "it has no key, and is no marker")
        return marker

    def _decoded(self, place: FeedPartition, record: FeedRecord) -> Record:
        try:
            return self._decoders[place.topic].decode(record.key, record.value, record.headers)
        except MalformedRecord as error:
            raise _unreadable(place, record, str(error)) from None


def require_risen(place: FeedPartition, offset: int, resolved: Timestamp, last: Timestamp) -> None:
    """Raise ``MarkerFell`` if the marker at an offset says a timestamp below that of its partition's last
    marker."""
    if resolved < last:
        raise MarkerFell(
            f"The marker at offset {offset} for {place} says {resolved}, one before it {last}: another feed "
            "has written to the topic, or the promise is broken. Nothing more is read; `tidegate verify` "
            "tells more",
            place.topic,
            place.partition,
            offset,
        )


def timestamp_of(row: RowRecord) -> Timestamp:
    """Return the timestamp of a row that ``VersionReader.row`` has read."""
    assert row.updated is not None
    return row.updated


def _unreadable(place: FeedPartition, record: FeedRecord, why: str) -> UnreadableRow:
    return UnreadableRow(
        f"The record at offset {record.offset} of {place} cannot be read: {why}",
        place.topic,
        place.partition,
        record.offset,
    )
