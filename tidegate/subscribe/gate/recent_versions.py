"""Remembers the versions that were delivered last, to distinguish a repeat from a row that comes too late.

Markers promise that a row at or below the delivered timestamp is an exact copy of a delivered row. Every
version above ``floor`` is remembered, so rows above it are compared with these versions. Rows at or below
``floor`` count as repeats without a comparison. The floor begins at the AS OF of a resume, and rises when
there are too many versions to remember.

Versions are remembered by numbers: their timestamps, and hashes of 64 bits of their keys and values.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from tidegate.errors import LateRow
from tidegate.hlc import Timestamp
from tidegate.subscribe.gate.feed_record import FeedPartition
from tidegate.subscribe.gate.opened_rows import OpenedRows, differs, key_hashes
from tidegate.subscribe.gate.row_chunk import IntColumn, RowChunk, at_or_below

VERSIONS_KEPT: Final = 100_000
#: Openings of few rows share a block, which has at most this many versions.
_BLOCK_VERSIONS: Final = 1_000


class _Block(NamedTuple):
    """Versions that were delivered one after the other, in the order of their timestamps."""

    walls: IntColumn
    logicals: IntColumn
    keys: IntColumn
    values: IntColumn

    def behind(self, count: int) -> _Block:
        """Return the versions after the first ``count``."""
        return _Block(*(column[count:] for column in self))

    def with_later(self, later: _Block) -> _Block:
        """Return the versions of this block and of a later one."""
        return _Block(*(np.concatenate(columns) for columns in zip(self, later, strict=True)))

    def in_order(self) -> _Block:
        """Return the versions in the order of their timestamps."""
        order = np.lexsort((self.logicals, self.walls))
        return _Block(*(column[order] for column in self))

    def up_to(self, bound: Timestamp) -> int:
        """Count the versions at or below a timestamp."""
        return int(np.count_nonzero(at_or_below(self.walls, self.logicals, bound)))

    def time(self, at: int) -> Timestamp:
        """Return the timestamp of a version."""
        return Timestamp(int(self.walls[at]), int(self.logicals[at]))


def _block(rows: OpenedRows) -> _Block:
    values = np.fromiter(map(hash, rows.values), np.int64, len(rows))
    return _Block(rows.walls, rows.logicals, rows.key_hashes, values)


class RecentVersions:
    """Remembers up to ``most`` delivered versions, in 32 bytes each."""

    __slots__ = ("_blocks", "_count", "_most", "_parts", "_parts_count", "floor")

    def __init__(self, floor: Timestamp, most: int = VERSIONS_KEPT) -> None:
        #: Nothing at or below this timestamp is remembered.
        self.floor = floor
        self._most = most
        self._blocks: deque[_Block] = deque()
        self._count = 0
        #: Parts of a delivery that is not complete yet.
        self._parts: list[_Block] = []
        self._parts_count = 0

    def add_part(self, rows: OpenedRows) -> None:
        """Remember some of the rows that are delivered in parts, in any order. ``end_parts`` ends the
        parts."""
        self._parts_count += len(rows)
        if self._parts_count <= self._most:
            self._parts.append(_block(rows))
        else:
            self._parts.clear()

    def end_parts(self, up_to: Timestamp) -> None:
        """Note that all rows up to a timestamp were given in parts. They are above all earlier rows.

        If there are more of them than can be remembered, no version is remembered, and the floor is
        ``up_to``.
        """
        parts, count = self._parts, self._parts_count
        self._parts, self._parts_count = [], 0
        if count > self._most:
            self._blocks.clear()
            self._count = 0
            self.floor = up_to
        elif count:
            self._add(_Block(*map(np.concatenate, zip(*parts, strict=True))).in_order())

    def add(self, rows: OpenedRows) -> None:
        """Remember rows, which are all above those that were delivered before."""
        if len(rows):
            self._add(_block(rows))

    def _add(self, block: _Block) -> None:
        rows = len(block.walls)
        if self._blocks and len(self._blocks[-1].walls) + rows <= _BLOCK_VERSIONS:
            block = self._blocks.pop().with_later(block)  # so that there are few blocks to search
        self._blocks.append(block)
        self._count += rows
        while self._count > self._most:
            self._forget(self._count - self._most)

    def require_repeats(self, place: FeedPartition, rows: RowChunk, delivered: Timestamp) -> None:
        """Require that rows above the floor are exact copies of delivered rows.

        Raises ``LateRow`` for a row that was not delivered, and ``RepeatDiffers`` for a row that was
        delivered with another value. ``delivered`` is only shown in the error.
        """
        keys = key_hashes(place.topic, rows.keys)
        for at in np.flatnonzero(~rows.up_to(self.floor)).tolist():
            updated = Timestamp(int(rows.walls[at]), int(rows.logicals[at]))
            found = self._values_of(updated, int(keys[at]))
            if not found:
                raise late_row(
                    place, int(rows.offsets[at]), updated, f"everything up to {delivered} was delivered"
                )
            if hash(rows.values[at]) not in found:
                raise differs(place, int(rows.offsets[at]))

    def _values_of(self, updated: Timestamp, key: int) -> Sequence[int]:
        """Return the hashes of the values that a key was delivered with at a timestamp; empty for none."""
        for each in reversed(self._blocks):
            if updated >= each.time(0):
                same = (each.walls == updated.wall) & (each.logicals == updated.logical) & (each.keys == key)
                return [int(value) for value in each.values[same]]
        return ()

    def _forget(self, too_many: int) -> None:
        """Forget some of the oldest versions: at least ``too_many``, or all of the oldest block.

        A floor lies between timestamps, so all versions of one timestamp are forgotten together.
        """
        oldest = self._blocks.popleft()
        self.floor = oldest.time(min(too_many, len(oldest.walls)) - 1)
        gone = oldest.up_to(self.floor)
        self._count -= gone
        if gone < len(oldest.walls):
            self._blocks.appendleft(oldest.behind(gone))


def late_row(place: FeedPartition, offset: int, updated: Timestamp, promise: str) -> LateRow:
    """Make the error for a new row at a timestamp that was complete. ``promise`` is the clause of its text
    that says why the timestamp was complete."""
    return LateRow(
        f"The row at offset {offset} of {place} is new and has the timestamp {updated}, but {promise}: its "
        "markers promised too much. Nothing more is read; `tidegate verify` tells more",
        place.topic,
        place.partition,
        offset,
    )
