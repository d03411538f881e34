"""Compares the markers of all partitions: each marker must be on every one of them.

A marker is written to every partition of every topic of its feed in one transaction, and repeated everywhere
after a restart (docs/protocols/markers.md). So every partition must hold each marker timestamp that any
partition holds. Only the newest may be missing, since its transaction may have been completed while the
topics were read.

The brokers of a cluster do not tell the ends of their partitions at one moment, and several markers may be
committed between two answers. So the ends are asked for twice. Markers below the first ends are *settled*:
markers below the newest settled one were on all partitions before the second ends were asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tidegate.hlc import ZERO, Timestamp
from tidegate.verify.record import TopicPartition


class Absence(NamedTuple):
    """A marker that is missing on a partition."""

    place: TopicPartition
    resolved: Timestamp


class MarkerLedger:
    """The partitions that hold each marker. A marker that is on all partitions is dropped."""

    __slots__ = ("_all", "_bits", "_first", "_partial", "_places", "_truncated", "newest")

    def __init__(self, places: Sequence[TopicPartition], truncated: frozenset[TopicPartition]) -> None:
        self._places = tuple(places)
        self._bits = {place: 1 << i for i, place in enumerate(self._places)}
        self._all = (1 << len(self._places)) - 1
        self._truncated = truncated
        self._partial: dict[Timestamp, int] = {}
        self._first: dict[TopicPartition, Timestamp] = {}
        #: The newest settled marker.
        self.newest = ZERO

    def note(self, place: TopicPartition, resolved: Timestamp, *, is_settled: bool = True) -> None:
        """Note that ``place`` holds a marker. The marker is above all earlier ones there."""
        self._first.setdefault(place, resolved)
        if is_settled:
            self.newest = max(self.newest, resolved)
        holders = self._partial.get(resolved, 0) | self._bits[place]
        if holders == self._all:
            self._partial.pop(resolved, None)
        else:
            self._partial[resolved] = holders

    def absences(self) -> Iterator[Absence]:
        """Yield each marker below the newest settled one that a partition lacks, by rising timestamps."""
        for resolved in sorted(self._partial):
            if resolved >= self.newest:
                break
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
