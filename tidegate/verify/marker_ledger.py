"""The markers of all partitions side by side: each emission must reach every one of them.

A marker is written to every partition of every topic of its feed in one transaction, and repeated
everywhere after a restart (docs/delivery.md). So every partition must hold every marker timestamp that
any of them holds, but for the newest, whose transaction may have been completing while the topics were
read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tidegate.hlc import ZERO, Timestamp
from tidegate.verify.record import TopicPartition


class Absence(NamedTuple):
    """A marker that a partition does not hold."""

    place: TopicPartition
    resolved: Timestamp


class MarkerLedger:
    """Which partitions hold which marker. An emission that reached all of them is dropped."""

    __slots__ = ("_all", "_bits", "_first", "_partial", "_places", "_truncated", "newest")

    def __init__(self, places: Sequence[TopicPartition], truncated: frozenset[TopicPartition]) -> None:
        self._places = tuple(places)
        self._bits = {place: 1 << i for i, place in enumerate(self._places)}
        self._all = (1 << len(self._places)) - 1
        self._truncated = truncated
        self._partial: dict[Timestamp, int] = {}
        self._first: dict[TopicPartition, Timestamp] = {}
        self.newest = ZERO

    def note(self, place: TopicPartition, resolved: Timestamp) -> None:
        """``place`` holds a marker that is above all of its earlier ones."""
        self._first.setdefault(place, resolved)
        self.newest = max(self.newest, resolved)
        holders = self._partial.get(resolved, 0) | self._bits[place]
        if holders == self._all:
            self._partial.pop(resolved, None)
        else:
            self._partial[resolved] = holders

    def absences(self) -> Iterator[Absence]:
        """Each marker but the newest that some partition lacks, by timestamp."""
        for resolved in sorted(self._partial):
            if resolved == self.newest:
                continue
            holders = self._partial[resolved]
            for place in self._places:
                if not holders & self._bits[place] and not self._deleted(place, resolved):
                    yield Absence(place, resolved)

    def _deleted(self, place: TopicPartition, resolved: Timestamp) -> bool:
        """Whether the marker may have stood in the deleted beginning of the partition."""
        if place not in self._truncated:
            return False
        first = self._first.get(place)
        return first is None or resolved < first
