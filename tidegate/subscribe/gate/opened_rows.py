"""The rows that an opening of the gate releases, in the order of their timestamps and without copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from tidegate.changefeed.encoding.record import RowRecord
from tidegate.errors import RepeatDiffers
from tidegate.hlc import Timestamp
from tidegate.subscribe.gate.feed_record import FeedPartition, FeedRecord, RowVersion
from tidegate.subscribe.gate.row_chunk import IntColumn, RowChunk, at_or_below, int_column

#: The bytes that a row takes beside its key and value.
_ROW_BYTES: Final = 200

#: A function that decodes the record of a row, which is in the given partition.
DecodeRow = Callable[[FeedPartition, FeedRecord], RowRecord]


@dataclass(frozen=True, slots=True)
class OpenedRows:
    """Rows as columns: the i-th element of each belongs to the i-th row.

    ``records`` has the rows that are decoded already, and ``None`` for the others. Different keys almost
    always have different ``key_hashes``.
    """

    walls: IntColumn
    logicals: IntColumn
    places: list[FeedPartition]
    offsets: list[int]
    keys: list[bytes]
    values: list[bytes | None]
    records: list[RowRecord | None]
    key_hashes: IntColumn

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def memory_bytes(self) -> int:
        """About how many bytes of memory the rows take while they are not decoded."""
        return sum(map(len, self.keys)) + sum(map(len, filter(None, self.values))) + _ROW_BYTES * len(self)

    def split(self, bound: Timestamp) -> int:
        """Return how many rows are at or below a timestamp. These rows come first, so this is also the
        position of the first row above it."""
        return int(np.count_nonzero(at_or_below(self.walls, self.logicals, bound)))

    def part(self, begin: int, end: int) -> OpenedRows:
        """Return the rows from one position up to another."""
        return OpenedRows(
            self.walls[begin:end],
            self.logicals[begin:end],
            self.places[begin:end],
            self.offsets[begin:end],
            self.keys[begin:end],
            self.values[begin:end],
            self.records[begin:end],
            self.key_hashes[begin:end],
        )

    def of_topic(self, topic: str) -> OpenedRows:
        """Return the rows of one topic, in the same order."""
        at = [each for each, place in enumerate(self.places) if place.topic == topic]
        return self if len(at) == len(self) else self.at(at)

    def with_keys(self, keys: list[bytes]) -> OpenedRows:
        """Return the rows with other keys, in the same order."""
        hashes = [hash(place.topic) ^ hash(key) for place, key in zip(self.places, keys, strict=True)]
        return replace(self, keys=keys, key_hashes=int_column(hashes))

    def at(self, positions: list[int]) -> OpenedRows:
        """Return the rows at some positions, in the order of the positions."""
        chosen = np.array(positions, np.int64)
        return OpenedRows(
            self.walls[chosen],
            self.logicals[chosen],
            [self.places[each] for each in positions],
            [self.offsets[each] for each in positions],
            [self.keys[each] for each in positions],
            [self.values[each] for each in positions],
            [self.records[each] for each in positions],
            self.key_hashes[chosen],
        )

    def version(self, at: int, decode: DecodeRow) -> RowVersion:
        """Return a row; decode it if it is not decoded yet. Raises what ``decode`` raises."""
        place, offset, key, value = self.places[at], self.offsets[at], self.keys[at], self.values[at]
        record = self.records[at] or decode(place, FeedRecord(offset, key, value))
        updated = Timestamp(int(self.walls[at]), int(self.logicals[at]))
        return RowVersion(updated, place.topic, key, place.partition, offset, hash(value), record)

    def versions(self, decode: DecodeRow) -> tuple[RowVersion, ...]:
        """Decode the rows, and return them in the order of timestamp, topic and key.

        Raises what ``decode`` raises.
        """
        return tuple(sorted(self.version(at, decode) for at in range(len(self))))


def rows_of_chunks(chunks: Sequence[tuple[FeedPartition, RowChunk]]) -> OpenedRows:
    """Return the rows of some chunks, unsorted and with their copies."""
    return OpenedRows(
        _joined([chunk.walls for _, chunk in chunks]),
        _joined([chunk.logicals for _, chunk in chunks]),
        [place for place, chunk in chunks for _ in range(chunk.rows)],
        _joined([chunk.offsets for _, chunk in chunks]).tolist(),
        [key for _, chunk in chunks for key in chunk.keys],
        [value for _, chunk in chunks for value in chunk.values],
        [record for _, chunk in chunks for record in chunk.records],
        _joined([key_hashes(place.topic, chunk.keys) for place, chunk in chunks]),
    )


def in_order(rows: OpenedRows) -> tuple[OpenedRows, int]:
    """Return rows in the order of their timestamps, without exact copies, and how many copies there were.

    Raises ``RepeatDiffers`` for a version that has two values.
    """
    offsets = int_column(rows.offsets)
    order = np.lexsort((offsets, rows.key_hashes, rows.logicals, rows.walls))
    walls, logicals, hashes = rows.walls[order], rows.logicals[order], rows.key_hashes[order]
    at = order.tolist()
    # Rows that may be copies stand next to each other: they have one timestamp and, almost surely, one key.
    alike = (walls[1:] == walls[:-1]) & (logicals[1:] == logicals[:-1]) & (hashes[1:] == hashes[:-1])
    copies = _copies(np.flatnonzero(alike) + 1, at, rows) if alike.any() else []
    if copies:
        kept = np.ones(len(at), np.bool_)
        kept[copies] = False
        at = order[kept].tolist()
    return rows.at(at), len(copies)


def joined_rows(parts: Sequence[OpenedRows]) -> OpenedRows:
    """Return the rows of some parts, one part after the other."""
    return OpenedRows(
        _joined([part.walls for part in parts]),
        _joined([part.logicals for part in parts]),
        [place for part in parts for place in part.places],
        [offset for part in parts for offset in part.offsets],
        [key for part in parts for key in part.keys],
        [value for part in parts for value in part.values],
        [record for part in parts for record in part.records],
        _joined([part.key_hashes for part in parts]),
    )


def key_hashes(topic: str, keys: Sequence[bytes]) -> IntColumn:
    """Return a number for each key of a topic. Two keys, or keys of two topics, very rarely have the same
    one."""
    hashes: IntColumn = np.fromiter(map(hash, keys), np.int64, len(keys)) ^ hash(topic)
    return hashes


def _joined(columns: Sequence[IntColumn]) -> IntColumn:
    return np.concatenate(columns) if columns else np.zeros(0, np.int64)


def _copies(alike: IntColumn, at: Sequence[int], rows: OpenedRows) -> list[int]:
    """Return those of ``alike`` whose row is a copy of an earlier row: with its timestamp, topic and key.

    ``alike`` are positions in ``at``, and ``at`` has the positions of ``rows`` in the order of the rows.
    """
    places, keys, values = rows.places, rows.keys, rows.values
    copies: list[int] = []
    firsts: dict[tuple[str, bytes], int] = {}
    last = -1
    for position in alike.tolist():
        if position != last + 1:  # another timestamp or key
            firsts = {(places[at[position - 1]].topic, keys[at[position - 1]]): at[position - 1]}
        last = position
        row = at[position]
        first = firsts.setdefault((places[row].topic, keys[row]), row)
        if first == row:
            continue
        if values[first] != values[row]:
            raise differs(places[row], rows.offsets[row])
        copies.append(position)
    return copies


def differs(place: FeedPartition, offset: int) -> RepeatDiffers:
    """Make the error for a version that came before with another value."""
    return RepeatDiffers(
        f"The row at offset {offset} of {place} is a version that came before with another value: repeats "
        "are exact copies, so one of them is not the feed's. Nothing more is read; `tidegate verify` tells "
        "more",
        place.topic,
        place.partition,
        offset,
    )
