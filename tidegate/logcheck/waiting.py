"""The ranges that wait for a parent.

Ranges are looked up by their parent, so no record needs a search through all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from tidegate.logcheck.lineage import Skipped
from tidegate.raftlog.entry import Parent, RangeId


class WaitingRanges:
    """The ranges that wait, each for one parent at a time, and the time since which each has waited."""

    def __init__(self) -> None:
        self._since: dict[RangeId, int] = {}
        self._parents: dict[RangeId, Parent] = {}
        self._children: dict[Parent, dict[RangeId, None]] = {}
        #: The parents of a range that are waited for, the lowest index first. Some may have come by now.
        self._indexes: dict[RangeId, list[tuple[int, Parent]]] = {}

    def __len__(self) -> int:
        return len(self._since)

    def ids(self) -> Iterator[RangeId]:
        """Yield the ranges that wait, those that have waited longest first."""
        return iter(self._since)

    def add(self, range_id: RangeId, parent: Parent, since_ms: int) -> None:
        """Note for which parent a range waits. A range that waited before keeps its time."""
        if self._parents.get(range_id) == parent:
            return
        self._leave_parent(range_id)
        self._since.setdefault(range_id, since_ms)
        self._parents[range_id] = parent
        if parent not in self._children:
            self._children[parent] = {}
            heappush(self._indexes.setdefault(parent.range_id, []), (parent.last_index, parent))
        self._children[parent][range_id] = None

    def remove(self, range_id: RangeId) -> None:
        """Note that a range does not wait any more."""
        if self._since.pop(range_id, None) is not None:
            self._leave_parent(range_id)

    def on(self, news: Parent | Skipped) -> list[RangeId]:
        """Return the ranges whose wait may be over.

        The facts about a parent (an `Estate`) are known now, or the log of a parent skips indexes.
        """
        if isinstance(news, Parent):
            found = [news]
            self._take_indexes(Skipped(news.range_id, news.last_index))
        else:
            found = self._take_indexes(news)
        return [range_id for parent in found for range_id in self._children.get(parent, ())]

    def since(self, limit_ms: int) -> list[RangeId]:
        """Return the ranges that have waited since ``limit_ms`` or longer."""
        found = []
        for range_id, since_ms in self._since.items():
            if since_ms > limit_ms:
                break
            found.append(range_id)
        return found

    def _take_indexes(self, skipped: Skipped) -> list[Parent]:
        """Take out the parents of a range up to an index, and return them. No later skip finds them."""
        indexes = self._indexes.get(skipped.range_id, [])
        found = []
        while indexes and indexes[0][0] <= skipped.upto:
            found.append(heappop(indexes)[1])
        if not indexes:
            self._indexes.pop(skipped.range_id, None)
        return found

    def _leave_parent(self, range_id: RangeId) -> None:
        parent = self._parents.pop(range_id, None)
        if parent is None:
            return
        children = self._children[parent]
        del children[range_id]
        if not children:
            del self._children[parent]
