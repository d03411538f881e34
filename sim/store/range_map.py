"""The ranges of the store, and which one of them holds a key."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from sim.store.range import Range
from tidegate.hlc import Timestamp
from tidegate.raftlog.entry import RangeId


class RangeMap:
    """The ranges by id and by key. Iteration is in the order of ids.

    ``changes`` counts splits and merges: as long as it stays the same, so does the result of ``holding``. No
    id is used twice.
    """

    def __init__(self, ranges: Iterable[Range]) -> None:
        self._by_id = {range_.id: range_ for range_ in ranges}
        self._by_start = sorted(self, key=lambda range_: range_.descriptor.span.start)
        self._starts = [range_.descriptor.span.start for range_ in self._by_start]
        self._last_id = max(self._by_id, default=0)
        self.changes = 0

    def next_id(self) -> RangeId:
        """Return an id that no range has had."""
        self._last_id += 1
        return RangeId(self._last_id)

    def add(self, range_: Range) -> None:
        """Add the right side of a split, whose left side ends where it begins."""
        self._by_id[range_.id] = range_
        at = bisect_right(self._starts, range_.span.start)
        self._by_start.insert(at, range_)
        self._starts.insert(at, range_.span.start)
        self.changes += 1

    def remove(self, range_: Range) -> None:
        """Remove a range that was merged into its left neighbour."""
        del self._by_id[range_.id]
        at = self._by_start.index(range_)
        del self._by_start[at], self._starts[at]
        self.changes += 1

    def right_of(self, range_: Range) -> Range | None:
        """Return the range of the same table that begins where this one ends."""
        at = self._by_start.index(range_) + 1
        if at == len(self._by_start):
            return None
        right = self._by_start[at]
        same_table = right.descriptor.table[0].table_id == range_.descriptor.table[0].table_id
        return right if same_table and right.span.start == range_.span.end else None

    def __iter__(self) -> Iterator[Range]:
        return iter(self._by_id.values())

    def __len__(self) -> int:
        return len(self._by_id)

    def __getitem__(self, range_id: RangeId) -> Range:
        return self._by_id[range_id]

    def get(self, range_id: RangeId) -> Range | None:
        """Return the range with that id, or ``None``."""
        return self._by_id.get(range_id)

    def holding(self, key: bytes) -> Range:
        """Return the range that holds ``key``. Raises ``KeyError`` when no range holds it."""
        at = bisect_right(self._starts, key) - 1
        if at < 0 or not self._by_start[at].descriptor.span.contains(key):
            raise KeyError(f"no range holds the key {key.hex()}")
        return self._by_start[at]

    @property
    def closed(self) -> Timestamp:
        """The lowest closed timestamp that a range has published. All other ranges have closed it too."""
        return min(range_.closed for range_ in self)

    @property
    def high(self) -> Timestamp:
        """The highest timestamp of any version."""
        return max(range_.high for range_ in self)
