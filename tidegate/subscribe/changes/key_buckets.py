"""Finds the newest row of each key, for a snapshot that may be larger than memory.

1. Rows come in any order. Rows that have no room in memory go to a store, in 64 *buckets*. A digit of the
   hash of a row's key says which bucket the row goes to. So all versions of a key are in one bucket.
2. One bucket at a time is read back, and only the newest row of each of its keys is kept. A bucket that has
   no room in memory is first distributed to 64 buckets again, by the next digit of the hash.

A block of a store has the numbers of its rows' partitions (4 bytes each), the hashes of their keys (8 bytes
each), then what `spilled_rows` packs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np

from tidegate.subscribe.gate.feed_record import FeedPartition
from tidegate.subscribe.gate.opened_rows import OpenedRows, in_order, joined_rows
from tidegate.subscribe.gate.row_chunk import RowChunk, int_column, memory_of
from tidegate.subscribe.gate.spilled_rows import BlockStore, packed, unpacked

#: A hash of 64 bits has ten digits of six bits.
_DIGIT_BITS: Final = 6
_BUCKETS: Final = 1 << _DIGIT_BITS
_LEVELS: Final = 10
_NUMBER: Final = "<i4"


class _Block(NamedTuple):
    """Rows of one bucket in the store; in memory they take about ``memory_bytes``."""

    ticket: int
    rows: int
    memory_bytes: int


class KeyBuckets:
    """Takes the rows of one topic, and gives the newest one of each key, some keys at a time.

    About ``chunk_bytes`` are in memory. Raises ``SpillLost`` if the store fails, and ``RepeatDiffers`` if one
    version has two values and both are in memory at the same time.

    Attributes:
        copies: how many exact copies were left out.
    """

    __slots__ = (
        "_blocks",
        "_chunk_bytes",
        "_level",
        "_numbers",
        "_parts",
        "_places",
        "_size",
        "_store",
        "copies",
    )

    def __init__(self, store: BlockStore, chunk_bytes: int, level: int = 0) -> None:
        """``level`` says which digit of the hashes distributes the rows: 0 is the lowest digit."""
        self._store = store
        self._chunk_bytes = chunk_bytes
        self._level = level
        self._parts: list[OpenedRows] = []
        self._size = 0
        self._blocks: list[list[_Block]] = [[] for _ in range(_BUCKETS)]
        self._places: list[FeedPartition] = []
        self._numbers: dict[FeedPartition, int] = {}
        self.copies = 0

    def add_rows(self, rows: OpenedRows) -> None:
        """Add rows, in any order."""
        if not len(rows):
            return
        self._parts.append(rows)
        self._size += _memory_of(rows)
        if self._size > self._chunk_bytes:
            newest = self._newest(self._parts)
            self._parts, self._size = [newest], _memory_of(newest)
            if self._size > self._chunk_bytes // 2 and self._level < _LEVELS:
                self._move_out(newest)

    def chunks(self) -> Iterator[OpenedRows]:
        """Yield the newest rows of all keys, deletions too. A key is in exactly one chunk.

        Rows that were yielded are not kept.
        """
        parts, self._parts = self._parts, []
        if not any(self._blocks):
            if parts:
                yield self._newest(parts)
            return
        if parts:
            self._move_out(self._newest(parts))
            del parts
        gathered: list[OpenedRows] = []
        size = 0
        for at in range(_BUCKETS):
            for rows in self._bucket(at):
                if gathered and size + _memory_of(rows) > self._chunk_bytes:
                    yield joined_rows(gathered)
                    gathered, size = [], 0
                gathered.append(rows)
                size += _memory_of(rows)
        if gathered:
            yield joined_rows(gathered)

    def _bucket(self, at: int) -> Iterator[OpenedRows]:
        """Take a bucket out of the store, and yield the newest row of each of its keys."""
        blocks, self._blocks[at] = self._blocks[at], []
        rows = map(self._taken_back, blocks)
        if sum(block.memory_bytes for block in blocks) <= self._chunk_bytes:
            if blocks:
                yield self._newest(rows)
            return
        below = KeyBuckets(self._store, self._chunk_bytes, self._level + 1)
        for each in rows:
            below.add_rows(each)
        yield from below.chunks()
        self.copies += below.copies

    def _newest(self, parts: Iterable[OpenedRows]) -> OpenedRows:
        rows, copies = in_order(joined_rows(list(parts)))
        self.copies += copies
        last = dict(zip(rows.keys, range(len(rows)), strict=True))
        return rows if len(last) == len(rows) else rows.at(list(last.values()))

    def _move_out(self, rows: OpenedRows) -> None:
        digits = (rows.key_hashes >> (_DIGIT_BITS * self._level)) & (_BUCKETS - 1)
        order = np.argsort(digits, kind="stable")
        ends = np.searchsorted(digits[order], np.arange(_BUCKETS + 1))
        for at in range(_BUCKETS):
            positions = order[ends[at] : ends[at + 1]].tolist()
            if positions:
                self._blocks[at].append(self._put(rows.at(positions)))
        self._parts, self._size = [], 0

    def _put(self, rows: OpenedRows) -> _Block:
        numbers = np.fromiter(map(self._number_of, rows.places), _NUMBER, len(rows))
        chunk = RowChunk(
            int_column(rows.offsets), rows.walls, rows.logicals, rows.keys, rows.values, rows.records, 0
        )
        ticket = self._store.put(numbers.tobytes() + rows.key_hashes.tobytes() + packed([chunk]))
        return _Block(ticket, len(rows), _memory_of(rows))

    def _taken_back(self, block: _Block) -> OpenedRows:
        content = self._store.pop(block.ticket)
        numbers = np.frombuffer(content, _NUMBER, block.rows).tolist()
        hashes = np.frombuffer(content, np.int64, block.rows, 4 * block.rows)
        chunk = unpacked(content[12 * block.rows :])
        return OpenedRows(
            chunk.walls,
            chunk.logicals,
            [self._places[number] for number in numbers],
            chunk.offsets.tolist(),
            chunk.keys,
            chunk.values,
            chunk.records,
            hashes,
        )

    def _number_of(self, place: FeedPartition) -> int:
        number = self._numbers.get(place)
        if number is None:
            number = self._numbers[place] = len(self._places)
            self._places.append(place)
        return number


def _memory_of(rows: OpenedRows) -> int:
    return memory_of(rows.keys, rows.values, 0)
