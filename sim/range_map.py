"""The ranges of the store: which there are, and which one holds a key."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from sim.range import Range
from tidegate.hlc import Timestamp
from tidegate.raftlog.entry import RangeId


class RangeMap:
    """Ranges by id and by key; iterates over them in the order of their ids."""

    def __init__(self, ranges: Iterable[Range]) -> None:
        self._by_id = {range_.id: range_ for range_ in ranges}
        self._by_start = sorted(self, key=lambda range_: range_.descriptor.span.start)
        self._starts = [range_.descriptor.span.start for range_ in self._by_start]

    def __iter__(self) -> Iterator[Range]:
        return iter(self._by_id.values())

    def __len__(self) -> int:
        return len(self._by_id)

    def __getitem__(self, range_id: RangeId) -> Range:
        return self._by_id[range_id]

    def get(self, range_id: RangeId) -> Range | None:
        """The range of that id, or ``None``."""
        return self._by_id.get(range_id)

    def holding(self, key: bytes) -> Range:
        """The range that holds ``key``; ``KeyError`` when no table has it."""
        at = bisect_right(self._starts, key) - 1
        if at < 0 or not self._by_start[at].descriptor.span.contains(key):
            raise KeyError(f"no range holds the key {key.hex()}")
        return self._by_start[at]

    @property
    def closed(self) -> Timestamp:
        """What every range has published as closed."""
        return min(range_.closed for range_ in self)

    @property
    def high(self) -> Timestamp:
        """The highest timestamp of any version."""
        return max(range_.high for range_ in self)
