"""Rows in an order, and the place where the first ``most`` of them end, while rows come and go.

Equal rows are one *entry* with a count. An *edge* says where the first ``most`` rows end. When an entry comes
or goes before the edge, the edge moves over as many rows as came or went. So a single change does not go
through all rows. Many changes are taken together, and go through all rows once (`RankedOrder.merge`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import Final

from tidegate.subscribe.updates.update import RowValues
from tidegate.subscribe.updates.value_order import SortKey

_RANK: Final = attrgetter("rank")
#: At most so many entries are sorted without a pause.
RUN_ENTRIES: Final = 5_000


class Entry:
    """The copies of one row.

    Attributes:
        identity: equal for two entries only if they are copies of one row.
        rank: what it is sorted by.
        row: the row as it is shown.
        shown_bytes: the bytes that the row takes in memory.
        source_bytes: the bytes of the table's row that the row is made from.
        count: how many copies there are; it is below zero while an addition has not come yet.
    """

    __slots__ = ("count", "identity", "rank", "row", "shown_bytes", "source_bytes")

    def __init__(
        self, identity: Hashable, rank: SortKey, row: RowValues, shown_bytes: int, source_bytes: int
    ) -> None:
        self.identity = identity
        self.rank = rank
        self.row = row
        self.shown_bytes = shown_bytes
        self.source_bytes = source_bytes
        self.count = 0

    @property
    def rows(self) -> int:
        """The number of rows in the order that this entry stands for."""
        return max(self.count, 0)


class Edge:
    """The end of the first ``most`` rows. It is in the entry at ``index``, after ``before`` rows."""

    __slots__ = ("before", "index", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        self.index = 0
        self.before = 0

    def settle(self, entries: list[Entry]) -> Iterator[Entry]:
        """Move to where the first rows end; yield the entries that are passed."""
        while self.before > self.most:
            self.index -= 1
            self.before -= entries[self.index].rows
            yield entries[self.index]
        while self.index < len(entries) and self.before + entries[self.index].rows <= self.most:
            self.before += entries[self.index].rows
            yield entries[self.index]
            self.index += 1

    def rows_of(self, entry: Entry, at: int) -> int:
        """Return how many of the first rows are copies of an entry, which stands at ``at``."""
        if at == self.index:
            return min(entry.rows, self.most - self.before)
        return entry.rows if at < self.index else 0


class RankedOrder:
    """The entries in the order of their ranks. Entries of one rank are in the order in which they came.

    ``edges`` are kept up to date.
    """

    __slots__ = ("_edges", "_entries")

    def __init__(self, edges: Iterable[Edge]) -> None:
        self._edges = tuple(edges)
        self._entries: list[Entry] = []

    def position(self, entry: Entry) -> int:
        """Return where an entry stands. The entry must be in the order."""
        at = bisect_left(self._entries, entry.rank, key=_RANK)
        while self._entries[at] is not entry:
            at += 1
        return at

    def is_behind(self, entry: Entry, edge: Edge) -> bool:
        """Whether an entry stands after the entry in which an edge lies. Only the ranks are compared."""
        return edge.index < len(self._entries) and self._entries[edge.index].rank < entry.rank

    def insert(self, entry: Entry) -> None:
        """Take an entry that has no rows yet."""
        at = bisect_right(self._entries, entry.rank, key=_RANK)
        self._entries.insert(at, entry)
        for edge in self._edges:
            edge.index += at <= edge.index

    def changed(self, entry: Entry, rows: int) -> None:
        """Note that the rows of an entry have changed by ``rows``, which is negative for fewer.

        Delete the entry if its count is 0.
        """
        at = self.position(entry)
        for edge in self._edges:
            if at < edge.index:
                edge.before += rows
                edge.index -= not entry.count
        if not entry.count:
            del self._entries[at]

    def merge(self, new: Iterable[Entry], pause: Callable[[], object]) -> None:
        """Add many entries, and remove the entries whose count is 0. This goes through all entries once."""
        edges = [(edge, self._first_left(edge)) for edge in self._edges]
        kept = [entry for entry in self._entries if entry.count]
        self._entries = _sorted(kept, [entry for entry in new if entry.count], pause)
        for edge, first_behind in edges:
            edge.index = len(self._entries) if first_behind is None else self.position(first_behind)
            edge.before = sum(entry.rows for entry in islice(self._entries, edge.index))

    def _first_left(self, edge: Edge) -> Entry | None:
        """Return the first entry at or after an edge whose count is not 0, and which therefore stays."""
        return next((entry for entry in islice(self._entries, edge.index, None) if entry.count), None)

    def at_edges(self) -> list[Entry]:
        """Return the entries in which an edge lies."""
        return [self._entries[edge.index] for edge in self._edges if edge.index < len(self._entries)]

    def settle(self) -> list[Entry]:
        """Move the edges to where they belong; return the entries that they have passed."""
        return [entry for edge in self._edges for entry in edge.settle(self._entries)]


def _sorted(kept: list[Entry], new: list[Entry], pause: Callable[[], object]) -> list[Entry]:
    """Return ``kept``, which is in order, and ``new`` in one order; entries of one rank stay as they came.

    Python sorts a list without a break, and no other thread goes on meanwhile. So a long list is sorted in
    runs, and the entries of the runs are merged one by one.
    """
    if len(new) <= RUN_ENTRIES:
        return sorted(kept + new, key=_RANK)
    runs = [kept]
    for begin in range(0, len(new), RUN_ENTRIES):
        pause()
        runs.append(sorted(new[begin : begin + RUN_ENTRIES], key=_RANK))
    made: list[Entry] = []
    merged = merge(*runs, key=_RANK)
    while some := list(islice(merged, RUN_ENTRIES)):
        made += some
        pause()
    return made
