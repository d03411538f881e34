"""Markers on a topic of their own, the feed's ``resolved_topic``: each waits until its rows were read.

A marker for partition p names an offset in partition p of each topic of rows. Once all records below that
offset were read, it counts as a marker at that offset.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from tidegate.changefeed.encoding.resolved_topic import OffsetMarkerDecoder
from tidegate.hlc import Timestamp
from tidegate.subscribe.gate.feed_record import FeedPartition, FeedRecord
from tidegate.subscribe.gate.row_gate import RowGate
from tidegate.subscribe.gate.version_reader import VersionReader


class _Laid(NamedTuple):
    """A marker for the rows below offset ``end``; ``offset`` is the marker's own, in the topic of markers."""

    end: int
    resolved: Timestamp
    offset: int


class SideMarkers:
    """Reads the records of one ``resolved_topic``, and gives each marker to a gate when the rows below the
    marker's offset were read."""

    __slots__ = ("_gate", "_laid", "_last", "_next", "_reached", "_reader", "_topic")

    def __init__(self, topic: str, partitions: Iterable[FeedPartition], gate: RowGate) -> None:
        """``partitions`` are those of the gate, which have the rows."""
        self._topic = topic
        self._gate = gate
        self._reader = VersionReader({topic: OffsetMarkerDecoder()})
        self._laid: dict[FeedPartition, deque[_Laid]] = {place: deque() for place in partitions}
        self._reached: dict[FeedPartition, int] = {}
        self._last: dict[FeedPartition, _Laid] = {}
        self._next: dict[FeedPartition, int] = {}

    def add_record(self, place: FeedPartition, record: FeedRecord) -> None:
        """Add a record of the topic of markers. Raises ``UnreadableRow`` and ``MarkerFell``."""
        marker = self._reader.marker(place, record)
        self._next[place] = record.offset + 1
        for topic, end in marker.offsets.items():
            rows = FeedPartition(topic, place.partition)
            if rows in self._laid:
                self._laid[rows].append(_Laid(end, marker.resolved, record.offset))
                self._pass_reached(rows)

    def reach(self, rows: FeedPartition, next_offset: int) -> None:
        """Note that all rows of a partition below an offset were taken.

        A consumer's position is the best ``next_offset``: after the last row there may be offsets without a
        record.
        """
        self._reached[rows] = max(self._reached.get(rows, 0), next_offset)
        self._pass_reached(rows)

    def offsets(self) -> dict[FeedPartition, int]:
        """Return the offsets from which a resume has to read the topic of markers, to get every marker above
        ``delivered`` again."""
        offsets = dict(self._next)
        for rows, laid in self._laid.items():
            last = [self._last[rows]] if rows in self._last else []
            place = FeedPartition(self._topic, rows.partition)
            for marker in (*last, *laid):
                if marker.resolved > self._gate.delivered:
                    offsets[place] = min(offsets.get(place, marker.offset), marker.offset)
        return offsets

    def _pass_reached(self, rows: FeedPartition) -> None:
        laid = self._laid[rows]
        reached = max(self._reached.get(rows, 0), self._gate.next_offset(rows))
        while laid and laid[0].end <= reached:
            marker = laid.popleft()
            self._gate.mark(rows, marker.resolved, marker.offset)
            self._last[rows] = marker
