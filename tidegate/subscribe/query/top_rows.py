"""The first rows of an order, kept up to date: ``ORDER BY ... LIMIT k`` as a relation.

After each timestamp rows that left the window are retracted, and rows that entered are added. So an update
of a row outside the window may show nothing, and an update of a row inside may bring another row in. Only
rows that changed, and rows over which an edge of the window moved, are compared with what was shown. The time
for a timestamp grows with the number of its updates, and not with the window or the offset. If they are more
than ``_FEW``, all rows are gone through once.

The order is total: by ORDER BY, then by the values of the query's columns, then by their texts, because 1 and
1.0 are one value. Rows that are equal in all of these are one row with a count.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from tidegate.hlc import Timestamp
from tidegate.subscribe.query.ranked_order import RUN_ENTRIES, Edge, Entry, RankedOrder
from tidegate.subscribe.query.shown_bytes import HeldBytes, ShownBytes
from tidegate.subscribe.updates.process_share import ProcessShare
from tidegate.subscribe.updates.row_identity import Spelling, written_identity
from tidegate.subscribe.updates.row_size import row_bytes
from tidegate.subscribe.updates.update import RowValues, Update
from tidegate.subscribe.updates.value_order import SortKey

#: The bytes that a row takes beside its values.
_ENTRY_BYTES: Final = 1_000
#: Up to so many updates are taken one by one, and each new row moves the references to all rows after it.
#: More updates are merged together.
_FEW: Final = 256


class RankedUpdate(NamedTuple):
    """An update, and the rank that its row is sorted by. Rows of one rank are equal, but their texts may
    differ.

    Attributes:
        shown_bytes: what the row and its rank take in memory.
        source_bytes: the bytes of the table's row that the row is made from.
    """

    rank: SortKey
    update: Update
    shown_bytes: int
    source_bytes: int


class TopRows:
    """Holds all rows that pass the query, sorted. Memory grows with the table, not with LIMIT and OFFSET."""

    __slots__ = ("_begin", "_end", "_entries", "_held", "_order", "_pause", "_shown")

    def __init__(self, limit: int | None, offset: int = 0, share: ProcessShare | None = None) -> None:
        self._begin = Edge(offset)
        self._end = None if limit is None else Edge(offset + limit)
        self._order = RankedOrder([self._begin] if self._end is None else [self._begin, self._end])
        self._held = HeldBytes(share=share)
        self._pause = _nothing if share is None else share.pause
        self._entries: dict[Hashable, Entry] = {}
        #: The rows of the window, with how often each is shown.
        self._shown: dict[Hashable, tuple[int, RowValues]] = {}

    def apply(self, updates: Iterable[RankedUpdate], shown: ShownBytes) -> list[Update]:
        """Take all updates of some timestamps, in their order, and return the changes of the window.

        Raises ``LimitExceeded`` if all rows, or these changes, take too many bytes.
        """
        changes: list[Update] = []
        for time, group in groupby(updates, lambda each: each.update.time):
            ranked: list[RankedUpdate] = []
            for each in group:
                shown.add(0, each.source_bytes)
                ranked.append(each)
            for change in self._changes(time, ranked):
                shown.add(row_bytes(change.row), 0)
                changes.append(change)
        return changes

    def _changes(self, time: Timestamp, ranked: Sequence[RankedUpdate]) -> Iterable[Update]:
        """Yield the changes of the window that the updates of a timestamp make."""
        looked_at = dict.fromkeys(entry.identity for entry in self._order.at_edges())
        looked_at |= dict.fromkeys(self._few(ranked) if len(ranked) <= _FEW else self._many(ranked))
        looked_at |= dict.fromkeys(entry.identity for entry in self._order.settle())
        looked_at |= dict.fromkeys(entry.identity for entry in self._order.at_edges())
        for at, identity in enumerate(looked_at):
            if at % RUN_ENTRIES == 0:
                self._pause()
            before = self._shown.get(identity, (0, ()))
            now = self._now(identity)
            if now[0]:
                self._shown[identity] = now
            elif before[0]:
                del self._shown[identity]
            if now[0] != before[0]:
                yield Update(time, now[0] - before[0], (now if now[0] else before)[1])

    def _few(self, ranked: Iterable[RankedUpdate]) -> list[Hashable]:
        """Take updates one by one, and return the identities of their rows."""
        touched: list[Hashable] = []
        for each in ranked:
            entry, is_new = self._entry(each)
            touched.append(entry.identity)
            if is_new:
                self._order.insert(entry)
            before = entry.rows
            self._add(entry, each)
            self._order.changed(entry, entry.rows - before)
        return touched

    def _many(self, ranked: Iterable[RankedUpdate]) -> list[Hashable]:
        """Do the same as ``_few``, but go through all rows once."""
        touched: list[Hashable] = []
        new: list[Entry] = []
        for at, each in enumerate(ranked):
            if at % RUN_ENTRIES == 0:
                self._pause()
            entry, is_new = self._entry(each)
            touched.append(entry.identity)
            if is_new:
                new.append(entry)
            self._add(entry, each)
        self._order.merge(new, self._pause)
        return touched

    def _entry(self, ranked: RankedUpdate) -> tuple[Entry, bool]:
        """Return the entry of an update's row, and whether it is new."""
        row = ranked.update.row
        identity = (ranked.rank, written_identity(row))
        entry = self._entries.get(identity)
        if entry is not None:
            return entry, False
        shown_bytes, source_bytes = _ENTRY_BYTES + ranked.shown_bytes, _ENTRY_BYTES + ranked.source_bytes
        self._held.add(shown_bytes, source_bytes)
        entry = self._entries[identity] = Entry(
            identity, (*ranked.rank, Spelling(row)), row, shown_bytes, source_bytes
        )
        return entry, True

    def _add(self, entry: Entry, ranked: RankedUpdate) -> None:
        entry.count += ranked.update.diff
        if not entry.count:
            del self._entries[entry.identity]
            self._held.add(-entry.shown_bytes, -entry.source_bytes)

    def _now(self, identity: Hashable) -> tuple[int, RowValues]:
        """Return how many copies of a row the window has, and the row."""
        entry = self._entries.get(identity)
        if entry is None or (self._end is not None and self._order.is_behind(entry, self._end)):
            return 0, ()
        at = self._order.position(entry)
        count = entry.rows if self._end is None else self._end.rows_of(entry, at)
        count -= self._begin.rows_of(entry, at)
        return (count, entry.row) if count else (0, ())


def _nothing() -> None:
    """Do nothing: without a share no other query has to go on."""
