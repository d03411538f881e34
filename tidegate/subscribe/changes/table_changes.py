"""All changes of a table between two frontiers, decoded once for all subscriptions of the table.

One `TableChanges` follows another without a gap: it begins at the frontier at which the one before it ends.
So a subscription at any frontier finds where to go on, also if its frontier lies within a `TableChanges`
(`TableChanges.after`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np

from tidegate.hlc import ZERO, Timestamp
from tidegate.subscribe.changes.key_buckets import KeyBuckets
from tidegate.subscribe.changes.key_rows import KeyRows
from tidegate.subscribe.changes.key_schema import KeySchema
from tidegate.subscribe.changes.newest_rows import NewestRows
from tidegate.subscribe.changes.plain_changes import PlainChanges
from tidegate.subscribe.changes.reduced_keys import with_reduced_keys
from tidegate.subscribe.changes.row_updates import RowBefore
from tidegate.subscribe.gate.feed_record import FeedPartition
from tidegate.subscribe.gate.opened_rows import OpenedRows
from tidegate.subscribe.gate.row_gate import GateOpening
from tidegate.subscribe.gate.spilled_rows import Spill
from tidegate.subscribe.updates.frontier import Frontier, frontier_after
from tidegate.subscribe.updates.relation import Relation
from tidegate.subscribe.updates.update import RowValues

#: The row before a change and the row after it; ``None`` for no row.
RowPair: TypeAlias = tuple[RowValues | None, RowValues | None]
#: The rows of a first snapshot wait undecoded until they have more than this many keys. Then the last row of
#: each key is decoded.
_FILL_ROWS: Final = 50_000
#: The bytes that a decoded row takes beside its values, and the bytes that a `TableChanges` without rows
#: takes.
_ROW_BYTES: Final = 300
_CHANGES_BYTES: Final = 1_000


@dataclass(frozen=True, slots=True, eq=False)
class TableChanges:
    """The changes at or above ``before`` and below ``frontier``.

    Attributes:
        before: the frontier at which they begin.
        frontier: the frontier at which they end: every change below it is in these changes, or in earlier
            ones.
        times: the timestamps that have changes, ascending.
        pairs: the changes of each of these timestamps.
        offsets: where a subscription reads on after it has taken these changes.
        held_bytes: about how many bytes of memory they take.
    """

    before: Frontier
    frontier: Frontier
    times: Sequence[Timestamp]
    pairs: Sequence[Sequence[RowPair]]
    offsets: Mapping[FeedPartition, int]
    held_bytes: int = _CHANGES_BYTES

    def after(self, frontier: Frontier) -> TableChanges:
        """Return the part at or above a frontier, which is not above the frontier of the changes."""
        if frontier <= self.before:
            return self
        begin = bisect_left(self.times, frontier)
        return TableChanges(
            frontier, self.frontier, self.times[begin:], self.pairs[begin:], self.offsets, self.held_bytes
        )

    def first(self, count: int) -> TableChanges:
        """Return the changes of the first ``count`` timestamps. ``count`` is less than the number of
        timestamps.

        The result ends at the first timestamp that is left out. But its offsets are those after all changes:
        a subscription that has taken only the first changes cannot read on from there.
        """
        end, pairs = Frontier(self.times[count]), self.pairs[:count]
        held_bytes = self.held_bytes * sum(map(len, pairs)) // max(sum(map(len, self.pairs)), 1)
        return TableChanges(self.before, end, self.times[:count], pairs, self.offsets, held_bytes)

    def below(self, up_to: Timestamp) -> TableChanges:
        """Return the changes below a timestamp. Their frontier stays that of all the changes."""
        end = bisect_left(self.times, up_to)
        return replace(self, times=self.times[:end], pairs=self.pairs[:end])


class TableFollower:
    """Makes changes out of a gate's openings, and keeps the rows by key as of their frontier.

    1. Rows at or below ``as_of`` are of the first snapshot: they fill the table of rows by key, and make no
       changes. The table has no frontier until it is filled. With ``chunks`` these rows may come in parts
       without an order: they wait in the store of ``chunks``, and fill the table some keys at a time.
    2. The opening that passes ``as_of`` completes the table, and gives the changes above ``as_of``.
    3. Each later opening gives its changes: the rows before come from the table.
    """

    __slots__ = (
        "_as_of",
        "_buckets",
        "_changes",
        "_filled",
        "_key_schema",
        "_newest",
        "_relation",
        "_rows",
        "frontier",
    )

    def __init__(
        self, relation: Relation, rows: KeyRows, as_of: Timestamp, chunks: Spill | None = None
    ) -> None:
        self._as_of = as_of
        self._relation = relation
        self._rows = rows
        self._changes = PlainChanges(relation, RowBefore.KEY_ROWS, rows)
        self._newest = NewestRows()
        self._key_schema = KeySchema(rows)
        self._buckets = None if chunks is None else KeyBuckets(chunks.store, chunks.opening_bytes)
        self._filled = False
        #: The table has the rows at this frontier; zero until the table is complete.
        self.frontier = Frontier(ZERO)

    def follow(self, opening: GateOpening, offsets: Mapping[FeedPartition, int]) -> TableChanges | None:
        """Take an opening, and return its changes; ``None`` until the first snapshot is complete.

        ``offsets`` are the gate's offsets after the opening.

        Raises ``SchemaMismatch``, ``UnreadableRow``, and what the table of rows raises.
        """
        self._key_schema.require(opening)
        opening = with_reduced_keys(opening, self._relation)
        opened = opening.rows
        begin = 0
        if not self._filled:
            begin = opened.split(self._as_of)
            self._fill(opened.part(0, begin), opening)
            if opening.frontier <= self._as_of:
                return None
        before = frontier_after(self._as_of) if not self._filled else self.frontier
        self._filled = True
        later = opened.part(begin, len(opened)) if begin else opened
        times, pairs = self._pairs(later, opening)
        self._rows.close_at(opening.frontier)
        self.frontier = opening.frontier
        return TableChanges(before, opening.frontier, times, pairs, dict(offsets), _held_bytes(later))

    def _fill(self, opened: OpenedRows, opening: GateOpening) -> None:
        if self._buckets is not None:
            self._buckets.add_rows(opened)
            if opening.frontier > self._as_of:
                for newest in self._buckets.chunks():
                    self._changes.begin(newest, opening.decode)
                self._buckets = None
            return
        if len(opened):
            self._newest.add_rows(opened)
        passed = opening.frontier > self._as_of
        if passed or self._newest.count > _FILL_ROWS:
            self._changes.begin(self._newest.rows(), opening.decode)
            self._newest = NewestRows()

    def _pairs(self, opened: OpenedRows, opening: GateOpening) -> tuple[list[Timestamp], list[list[RowPair]]]:
        if not len(opened):
            return [], []
        pairs = list(zip(*self._changes.pairs(opened, opening.decode), strict=True))
        walls, logicals = opened.walls, opened.logicals
        new = np.flatnonzero((walls[1:] != walls[:-1]) | (logicals[1:] != logicals[:-1])) + 1
        bounds = [0, *new.tolist(), len(pairs)]
        times = list(map(Timestamp, walls[bounds[:-1]].tolist(), logicals[bounds[:-1]].tolist()))
        return times, [pairs[begin:end] for begin, end in pairwise(bounds)]


def _held_bytes(opened: OpenedRows) -> int:
    """Estimate the memory that changes take: Python's values are several times as large as their text."""
    texts = sum(map(len, filter(None, opened.values))) + sum(map(len, opened.keys))
    return _CHANGES_BYTES + 3 * texts + _ROW_BYTES * len(opened)
