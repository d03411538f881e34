"""The first rows of an order, kept up to date: ``ORDER BY ... LIMIT k`` as a relation.

After each timestamp the window is compared with the one before it. Rows that left are retracted, rows that
entered are added. So an update of a row outside the window may show nothing, and an update of a row inside
may bring another row in.

The order is total: by ORDER BY, then by the values of the query's columns. Rows that are equal in both are
one row with a count. Where their values are written differently, as 1 and 1.0, the row is shown in the form
whose text comes first among those that are there.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterable
from itertools import groupby
from typing import Final, NamedTuple

from tidegate.hlc import Timestamp
from tidegate.subscribe.query.shown_bytes import HeldBytes, ShownBytes
from tidegate.subscribe.updates.row_identity import row_identity
from tidegate.subscribe.updates.row_size import row_bytes
from tidegate.subscribe.updates.update import RowValues, Update
from tidegate.subscribe.updates.value_order import SortKey

#: What a row takes beside its values.
_ENTRY_BYTES: Final = 1_000


class RankedUpdate(NamedTuple):
    """An update, and what its row is sorted by; rows of one key are told apart by the row.

    Attributes:
        shown_bytes: what the row and its rank take in memory.
        source_bytes: what the table's row takes of which it is made.
    """

    rank: SortKey
    update: Update
    shown_bytes: int
    source_bytes: int


class _Entry:
    """How often a row is there, however its values are written: 1 and 1.0 are one value."""

    __slots__ = ("count", "shown_bytes", "source_bytes", "spellings")

    def __init__(self, shown_bytes: int, source_bytes: int) -> None:
        self.count = 0
        self.shown_bytes = _ENTRY_BYTES + shown_bytes
        self.source_bytes = _ENTRY_BYTES + source_bytes
        #: How often it is there in each form, by the texts of these.
        self.spellings: dict[str, tuple[int, RowValues]] = {}

    def add(self, diff: int, row: RowValues) -> None:
        """Add ``diff`` copies."""
        self.count += diff
        text = repr(row)
        there = self.spellings.get(text, (0,))[0] + diff
        self.spellings[text] = there, row
        if not there:
            del self.spellings[text]

    @property
    def row(self) -> RowValues:
        """The row as it is shown: in the first of its forms, by their texts, that is there."""
        forms = self.spellings
        return forms[min([text for text, (there, _) in forms.items() if there > 0] or forms)][1]


class TopRows:
    """Holds all rows, sorted: memory grows with the relation, not with the window."""

    __slots__ = ("_entries", "_held", "_limit", "_offset", "_order", "_shown")

    def __init__(self, limit: int | None, offset: int = 0) -> None:
        self._limit = limit
        self._offset = offset
        self._held = HeldBytes()
        self._entries: dict[Hashable, _Entry] = {}
        self._order: list[tuple[SortKey, Hashable]] = []
        self._shown: dict[Hashable, tuple[int, RowValues]] = {}

    def apply(self, updates: Iterable[RankedUpdate], shown: ShownBytes) -> list[Update]:
        """Take all updates of some timestamps, in their order; returns the changes of the window.

        Raises ``LimitExceeded`` if all rows, or these changes, take too many bytes.
        """
        changes: list[Update] = []
        for time, group in groupby(updates, lambda each: each.update.time):
            for ranked in group:
                self._count(ranked)
                shown.add(0, ranked.source_bytes)
            for change in self._changes(time):
                shown.add(row_bytes(change.row), 0)
                changes.append(change)
        return changes

    def _count(self, ranked: RankedUpdate) -> None:
        identity = (ranked.rank, row_identity(ranked.update.row))
        entry = self._entries.get(identity)
        if entry is None:
            entry = self._entries[identity] = _Entry(ranked.shown_bytes, ranked.source_bytes)
            self._held.add(entry.shown_bytes, entry.source_bytes)
            insort(self._order, identity, key=lambda each: each[0])
        entry.add(ranked.update.diff, ranked.update.row)
        if not entry.count:
            del self._entries[identity]
            self._held.add(-entry.shown_bytes, -entry.source_bytes)
            self._forget(identity)

    def _forget(self, identity: tuple[SortKey, Hashable]) -> None:
        at = bisect_left(self._order, identity[0], key=lambda each: each[0])
        while self._order[at] != identity:
            at += 1
        del self._order[at]

    def _changes(self, time: Timestamp) -> list[Update]:
        before, now = self._shown, self._window()
        self._shown = now
        changes = []
        for identity in [*before, *(each for each in now if each not in before)]:
            diff = now.get(identity, (0,))[0] - before.get(identity, (0,))[0]
            if diff:
                changes.append(Update(time, diff, (now.get(identity) or before[identity])[1]))
        return changes

    def _window(self) -> dict[Hashable, tuple[int, RowValues]]:
        skipped, left = self._offset, self._limit
        window: dict[Hashable, tuple[int, RowValues]] = {}
        for identity in self._order:
            if left == 0:
                break
            entry = self._entries[identity]
            count = max(entry.count - skipped, 0)
            skipped = max(skipped - max(entry.count, 0), 0)
            count = count if left is None else min(count, left)
            left = left if left is None else left - count
            if count:
                window[identity] = (count, entry.row)
        return window
